//! What the conformance suite cannot see: LMDB's own limits, damaged files, the pool.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::*;

const SYNC: Durability = Durability::Sync;
const OS: Durability = Durability::Os;

fn open(dir: &Path) -> Result<Arc<Lmdb>> {
    Lmdb::open(&OpenOptions::new(dir), None).map(Arc::new)
}

fn put(lmdb: &Lmdb, key: &[u8], value: &[u8]) -> Result<()> {
    lmdb.apply(&[Op::Put { key, value }], OS)
}

fn damages(lmdb: &Lmdb) -> (u64, Vec<Damage>) {
    let mut damages = Vec::new();
    let keys = lmdb.verify(&mut |damage| damages.push(damage)).unwrap();
    (keys, damages)
}

/// Keys of all lengths, some overwritten, some deleted, some values large: a tree with every kind of page.
fn fill(lmdb: &Lmdb, keys: u32) {
    let value = vec![7; 20_000];
    for i in 0..keys {
        let mut key = format!("{:08}", i.wrapping_mul(2_654_435_761)).into_bytes();
        key.resize(8 + (i as usize * 37) % 1900, b'k');
        let bytes = if i % 10 == 0 { 20_000 } else { (i as usize * 13) % 1500 };
        put(lmdb, &key, &value[..bytes]).unwrap();
        if i % 3 == 0 {
            lmdb.apply(&[Op::Delete { key: &key }], OS).unwrap();
        }
    }
}

#[test]
fn the_declared_key_limit_is_the_librarys() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    assert_eq!((kind().capabilities)(), *lmdb.capabilities());
    let key = vec![b'k'; lmdb.capabilities().key_bytes_max];
    put(&lmdb, &key, b"v").unwrap();
    assert_eq!(&*lmdb.get(&key).unwrap().unwrap(), b"v");
}

#[test]
fn a_full_map_is_full_and_the_next_opening_has_room() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = Lmdb::open(&OpenOptions::new(dir.path()), Some(1 << 20)).unwrap();
    let value = [1; 1000];
    let full = (0..2000u32).find_map(|i| put(&lmdb, &i.to_be_bytes(), &value).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    let keys = lmdb.stats().unwrap().keys.unwrap();
    assert!(keys > 500);
    assert_eq!(damages(&lmdb), (keys, vec![]));
    lmdb.apply(&[Op::DeleteRange { from: b"", to: None }], SYNC).unwrap();
    put(&lmdb, b"k", b"v").unwrap();
    drop(lmdb);
    let lmdb = open(dir.path()).unwrap();
    for i in 0..2000u32 {
        put(&lmdb, &i.to_be_bytes(), &value).unwrap();
    }
}

#[test]
fn more_open_reads_than_slots_are_busy_and_dropping_them_helps() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    put(&lmdb, b"k", b"v").unwrap();
    let views: Vec<_> = (0..READERS_MAX).map(|_| Arc::clone(&lmdb).snapshot().unwrap()).collect();
    let refused = lmdb.get(b"k").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    drop(views);
    assert!(lmdb.get(b"k").unwrap().is_some());
}

#[test]
fn an_idle_transaction_of_another_thread_lends_its_reader_slot() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    put(&lmdb, b"k", b"v").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(lmdb.contains(b"k").unwrap()));
    });
    let _views: Vec<_> = (0..READERS_MAX).map(|_| Arc::clone(&lmdb).snapshot().unwrap()).collect();
}

/// A transaction that stays open between reads must not hide a commit.
#[test]
fn idle_reads_see_every_commit() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    put(&lmdb, b"k", &0u32.to_le_bytes()).unwrap();
    let (value, rounds) = (vec![1; 100_000], 300u32);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut last, mut into) = (0, Vec::new());
                let until = Instant::now() + Duration::from_secs(20);
                while last < rounds {
                    assert!(Instant::now() < until, "still {last}");
                    assert!(lmdb.get_into(b"k", &mut into).unwrap());
                    let now = u32::from_le_bytes(into[..].try_into().unwrap());
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                }
            });
        }
        for round in 1..=rounds {
            put(&lmdb, b"large", &value).unwrap();
            put(&lmdb, b"k", &round.to_le_bytes()).unwrap();
            // The writer's own idle transaction was opened before this commit.
            assert_eq!(&*lmdb.get(b"k").unwrap().unwrap(), &round.to_le_bytes());
        }
    });
    assert_eq!(damages(&lmdb), (2, vec![]));
}

/// A commit can be seen before the call that made it returns: what one read saw then, no later one may miss.
#[test]
fn no_read_goes_back_while_a_commit_returns() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    put(&lmdb, b"k", b"old").unwrap();
    let read = || lmdb.get(b"k").unwrap().unwrap().to_vec();
    let read_elsewhere = || std::thread::scope(|scope| scope.spawn(read).join().unwrap());
    for read_on_the_way in [false, true] {
        // This thread's transaction stays open at the state before.
        let before = read();
        let value = if read_on_the_way { b"new" } else { b"mid" };
        let mut txn = ptr::null_mut();
        let flags = ffi::MDB_NOSYNC;
        // SAFETY: (FC2) the environment is open and `txn` is live.
        assert_eq!(unsafe { ffi::mdb_txn_begin(lmdb.env.0, ptr::null_mut(), flags, &mut txn) }, 0);
        let (mut key, mut data) = (readers::val(b"k"), readers::val(value));
        // SAFETY: (FL3) the transaction is open and this thread's; (FC2) key and value live through the call.
        assert_eq!(unsafe { ffi::mdb_put(txn, MAIN, &mut key, &mut data, 0) }, 0);
        // SAFETY: (FL3) as above.
        let number = unsafe { ffi::mdb_txn_id(txn) as u64 };
        lmdb.readers.commit(number, || {
            if read_on_the_way {
                assert_eq!(read(), before);
            }
            // SAFETY: (FL3) as above; this is its last use.
            assert_eq!(unsafe { ffi::mdb_txn_commit(txn) }, 0);
            assert_eq!(read_elsewhere(), value);
            assert_eq!(read(), value);
        });
    }
}

/// An idle thread's transaction, opened before many commits, is reset by them.
#[test]
fn a_thread_that_read_once_and_sleeps_holds_no_old_pages() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    put(&lmdb, b"k", b"v").unwrap();
    std::thread::scope(|scope| {
        let (asleep, sleeps) = std::sync::mpsc::channel();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        scope.spawn({
            let lmdb = &lmdb;
            move || {
                lmdb.get(b"k").unwrap().unwrap();
                asleep.send(()).unwrap();
                let _ = woken.recv();
            }
        });
        sleeps.recv().unwrap();
        let value = vec![1; 100_000];
        for _ in 0..200 {
            put(&lmdb, b"large", &value).unwrap();
        }
        let bytes = lmdb.stats().unwrap().physical_bytes.unwrap();
        assert!(bytes < 20 * value.len() as u64, "{bytes}");
        drop(wake);
    });
}

#[test]
fn verify_reads_every_kind_of_page_and_finds_no_damage_in_a_sound_file() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    assert_eq!(damages(&lmdb), (0, vec![]));
    fill(&lmdb, 3000);
    let view = Arc::clone(&lmdb).snapshot().unwrap();
    fill(&lmdb, 3000);
    drop(view);
    fill(&lmdb, 100);
    let keys = lmdb.stats().unwrap().keys.unwrap();
    assert!(keys > 1900);
    assert_eq!(damages(&lmdb), (keys, vec![]));
}

#[test]
fn a_large_value_replaced_by_a_shorter_one_in_its_own_batch_keeps_its_run_and_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    let (long, short) = (vec![1; 70_000], vec![2; 3000]);
    let keys: Vec<[u8; 4]> = (0..9u32).map(u32::to_be_bytes).collect();
    for (i, key) in keys.iter().enumerate() {
        let last = if i % 2 == 0 { &short[..] } else { &short[..5] };
        lmdb.apply(&[Op::Put { key, value: &long }, Op::Put { key, value: last }], OS).unwrap();
    }
    assert_eq!(damages(&lmdb), (9, vec![]));
    drop(lmdb);
    let lmdb = open(dir.path()).unwrap();
    assert_eq!(&*lmdb.get(&keys[2]).unwrap().unwrap(), &short[..]);
    assert_eq!(&*lmdb.get(&keys[3]).unwrap().unwrap(), &short[..5]);
    // What the longer runs take is given back with them.
    lmdb.apply(&[Op::DeleteRange { from: b"", to: None }], SYNC).unwrap();
    assert_eq!(damages(&lmdb), (0, vec![]));
}

#[test]
fn verify_names_the_page_whose_structure_was_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    fill(&lmdb, 2000);
    let (keys, none) = damages(&lmdb);
    assert!(none.is_empty());
    lmdb.sync().unwrap();
    // Overwrite the header of each page in turn: those in use must be noticed, and nothing may be misread or crash.
    let page = page_bytes() as u64;
    let pages = lmdb.data.metadata().unwrap().len() / page;
    let mut noticed = 0;
    for offset in (2..pages).map(|i| i * page).step_by(7) {
        let mut sound = [0; 16];
        lmdb.data.read_exact_at(&mut sound, offset).unwrap();
        lmdb.data.write_all_at(&[0xa5; 16], offset).unwrap();
        let (left, found) = damages(&lmdb);
        lmdb.data.write_all_at(&sound, offset).unwrap();
        if left < keys {
            noticed += 1;
            assert!(found.iter().any(|damage| damage.offset == offset), "{offset}: {found:?}");
        }
    }
    assert!(noticed > 50, "{noticed}");
    assert_eq!(damages(&lmdb), (keys, vec![]));
}

#[test]
fn a_shortened_file_is_refused_with_its_offset_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    fill(&lmdb, 2000);
    drop(lmdb);
    let path = dir.path().join(DATA);
    let sound = fs::read(&path).unwrap();
    for bytes in [0, 100, 5000, sound.len() / 2, sound.len() - (200 << 10)] {
        fs::write(&path, &sound[..bytes]).unwrap();
        let refused = open(dir.path()).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
        assert_eq!(refused.place().unwrap().0, path);
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes as u64);
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(open(dir.path()).err().unwrap().kind(), ErrorKind::Corruption);
    fs::write(&path, &sound).unwrap();
    let lmdb = open(dir.path()).unwrap();
    let keys = lmdb.stats().unwrap().keys.unwrap();
    assert_eq!(damages(&lmdb), (keys, vec![]));
}

#[test]
fn a_damaged_header_or_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let path = dir.path().join(DATA);
    let sound = fs::read(&path).unwrap();
    for (at, byte, kind) in
        [(16, 0, ErrorKind::Corruption), (20, 9, ErrorKind::Unsupported), (16 + 76, 4, ErrorKind::Invalid)]
    {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        fs::write(&path, &bytes).unwrap();
        let refused = open(dir.path()).err().unwrap();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().contains(DATA), "{refused}");
    }
}

#[test]
fn a_refused_file_limit_leaves_the_engine_going() {
    // The limit on the length of a file stands for a full disk: writes come out short, then fail.
    if std::env::var_os("BIOMBO_TEST_LIMITED").is_none() {
        let test = "lmdb::tests::a_refused_file_limit_leaves_the_engine_going";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("BIOMBO_TEST_LIMITED", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    put(&lmdb, b"k", b"v").unwrap();
    let limit = libc::rlimit { rlim_cur: (1 << 20) + 1000, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: (FC2) the limit is a live structure, and ignoring a signal sets no handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    for durability in [OS, SYNC] {
        let value = vec![9; 3 << 20];
        let full = lmdb.apply(&[Op::Put { key: b"large", value: &value }], durability).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Full, "{full}");
        lmdb.apply(&[Op::Put { key: b"k", value: b"w" }], durability).unwrap();
        assert_eq!(&*lmdb.get(b"k").unwrap().unwrap(), b"w");
        assert!(!lmdb.contains(b"large").unwrap());
    }
    assert_eq!(damages(&lmdb), (1, vec![]));
}

#[test]
fn a_poisoned_engine_refuses_writes_and_answers_reads() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    put(&lmdb, b"k", b"v").unwrap();
    let poisoned = lmdb.failed(libc::EIO, libc::EIO);
    assert_eq!(poisoned.kind(), ErrorKind::Poisoned);
    assert_eq!(put(&lmdb, b"k", b"w").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(lmdb.sync().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(&*lmdb.get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn a_checkpoint_opens_with_what_was_there_and_a_taken_place_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(&{
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        home
    })
    .unwrap();
    fill(&lmdb, 500);
    let copy = dir.path().join("a/b");
    lmdb.checkpoint(&copy).unwrap();
    let keys = lmdb.stats().unwrap().keys;
    assert_eq!(lmdb.checkpoint(&copy).unwrap_err().kind(), ErrorKind::Invalid);
    fill(&lmdb, 700);
    let copy = open(&copy).unwrap();
    assert_eq!(copy.stats().unwrap().keys, keys);
    assert_eq!(damages(&copy), (keys.unwrap(), vec![]));
}

#[test]
fn a_value_of_one_gibibyte_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = open(dir.path()).unwrap();
    let mut value = vec![3; VALUE_BYTES_MAX];
    value[VALUE_BYTES_MAX - 1] = 4;
    put(&lmdb, b"k", &value).unwrap();
    assert!(lmdb.get(b"k").unwrap().unwrap()[..] == value[..]);
    value.push(0);
    assert_eq!(put(&lmdb, b"k", &value).unwrap_err().kind(), ErrorKind::Invalid);
}
