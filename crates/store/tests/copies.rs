//! Copies of a store that are cut short, by a kill or a power cut: no store, or all of it.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use biombo_base::io::sim::{Crash, SimIo};
use biombo_base::io::{File, Io, Lock, OpenMode};
use biombo_engine::{Batch, Durability, ErrorKind, Result};
use biombo_store::{Options, Pace, PartitionId, Partitioning, PlacementKind, Range, Store};

const KEYS: u32 = 400;

fn options(io: &SimIo) -> Options {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    Options::new().journal_segment_bytes(64 << 10).io(io)
}

fn open(io: &SimIo, dir: &str, options: Options) -> Result<Store> {
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    options.open(Path::new(dir), &common::registry(disk, common::Commit::Apart))
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

fn filled(io: &SimIo, options: Options) -> Store {
    let store = open(io, "db", options.engine("simulated")).expect("create");
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.put(&key(number), &number.to_le_bytes().repeat(20));
    }
    store.write_with(&batch, Durability::Sync).expect("write");
    store
}

fn is_whole(store: &Store) -> bool {
    let mut scan = store.scan(Range::all()).expect("scan");
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next().expect("next") {
        found.push((key.to_vec(), value.to_vec()));
    }
    found.into_iter().eq((0..KEYS).map(|number| (key(number), number.to_le_bytes().repeat(20))))
}

type Copy = fn(&SimIo) -> Result<()>;

fn checkpoint(io: &SimIo) -> Result<()> {
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    open(io, "db", options(io))?.checkpoint(Path::new("copy"), &common::registry(disk, common::Commit::Apart))
}

fn restore(io: &SimIo) -> Result<()> {
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    let registry = common::registry(disk, common::Commit::Apart);
    drop(Store::restore(Path::new("backup"), Path::new("copy"), options(io), &registry)?);
    Ok(())
}

#[test]
fn a_copy_that_is_cut_short_is_no_store_and_the_next_one_begins_anew() {
    let ways: [(&str, Copy); 2] = [("checkpoint", checkpoint), ("restore", restore)];
    for (way, copy) in ways {
        for placement in [PlacementKind::Hash, PlacementKind::Range] {
            let io = SimIo::new(1);
            let store = filled(&io, options(&io).partitions(3).placement(placement));
            store.backup(Path::new("backup")).expect("backup");
            drop(store);
            let first = io.event_count();
            copy(&io).expect("a copy");
            assert!(is_whole(&open(&io, "copy", options(&io).create(false)).expect("a store")), "{way}");
            let last = io.event_count();
            let (mut none, mut whole) = (0, 0);
            for cut in first..=last {
                for crash in [Crash::Kill, Crash::Nothing, Crash::Random(cut as u64)] {
                    let what = format!("{way}, {placement}, cut at {cut} of {first} to {last}, {crash:?}");
                    let image = io.crash(cut, crash);
                    match open(&image, "copy", options(&image).create(false)) {
                        Ok(store) => {
                            assert!(is_whole(&store), "{what}: a store that lacks something");
                            whole += 1;
                            continue;
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{what}: {error}"),
                    }
                    none += 1;
                    if cut % 16 == 0 {
                        copy(&image).unwrap_or_else(|e| panic!("{what}, again: {e}"));
                        assert!(is_whole(&open(&image, "copy", options(&image)).expect("a store")), "{what}, again");
                    }
                }
            }
            println!("{way}, {placement}: {none} images without a store, {whole} with a whole one");
            assert!(none > 50 && whole > 0, "{way}: {none} images without a store, {whole} with one");
        }
    }
}

/// Keys of each partition.
fn counts(store: &Store) -> Vec<usize> {
    let mut counts = vec![0; store.partitions() as usize];
    (0..KEYS).for_each(|number| counts[store.route(&key(number)).index()] += 1);
    counts
}

#[test]
fn a_copy_has_every_key_in_the_partition_of_the_original_whatever_was_split_moved_and_pinned() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let io = SimIo::new(3);
        let sample = (0..KEYS).map(key).collect();
        let store = filled(&io, options(&io).partitions(4).placement(placement).range_sample(sample));
        if placement == PlacementKind::Range {
            // One range in 32: were the bounds taken for a sample of the keys, three partitions would share it.
            assert_eq!(store.split_ranges(&(3..99).step_by(3).map(key).collect::<Vec<_>>()).expect("split"), 32);
            store.move_range(&key(10), Some(&key(20)), PartitionId(3), Pace::default()).expect("move");
        } else {
            store
                .move_units(&store.placement().units_of(PartitionId(0))[..99], PartitionId(1), Pace::default())
                .expect("move");
            store.move_keys(&[key(7), key(8)], PartitionId(2), Pace::default()).expect("move");
        }
        let owners = |store: &Store| (0..KEYS).map(|number| store.route(&key(number))).collect::<Vec<_>>();
        let before = (owners(&store), counts(&store));
        drop(store);
        checkpoint(&io).expect("a copy");
        let copy = open(&io, "copy", options(&io).create(false)).expect("a store");
        assert_eq!((owners(&copy), counts(&copy)), before, "{placement}");
        assert!(is_whole(&copy));
    }
}

#[test]
fn a_copy_of_a_store_that_partitions_are_leaving_is_even_over_those_that_stay() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let io = SimIo::new(4);
        let sample = (0..KEYS).map(key).collect();
        let store = filled(&io, options(&io).partitions(4).placement(placement).range_sample(sample));
        if placement == PlacementKind::Range {
            store.split_ranges(&(3..99).step_by(3).map(key).collect::<Vec<_>>()).expect("split");
        }
        drop(store);
        let store = open(&io, "db", options(&io).partitions(2).reshape(true)).expect("a store");
        assert_eq!(store.leaving().len(), 2);
        let disk: Arc<dyn Io> = Arc::new(io.clone());
        store.checkpoint(Path::new("copy"), &common::registry(disk, common::Commit::Apart)).expect("a copy");
        let copy = open(&io, "copy", options(&io).create(false)).expect("a store");
        let counts = counts(&copy);
        assert!(counts.len() == 2 && counts.iter().all(|count| (160..=240).contains(count)), "{placement}: {counts:?}");
        assert!(is_whole(&copy));
    }
}

/// Who can write a file into a directory in which a store is created must not have others' directories removed by that.
#[test]
fn a_creation_that_was_cut_short_removes_nothing_that_no_store_makes() {
    let io = SimIo::new(2);
    let dirs = ["/elsewhere"].map(Into::into).to_vec();
    drop(filled(&io, options(&io).partitioning(Partitioning::Hard).partitions(2).dirs(dirs)));
    let file = io.open(Path::new("db/MANIFEST"), OpenMode::READ).expect("a manifest");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_at(&mut bytes, 0).expect("read");
    let text = String::from_utf8(bytes).expect("text");
    let id = text.split('"').nth(1).expect("the store's number").to_owned();
    let body = text[..text.rfind("# crc32c").expect("a sum")].replace(&format!("biombo-{id}-p0001"), "precious");
    let forged = format!("{body}# crc32c {:08x}\n", crc32c::crc32c(body.as_bytes()));
    io.create_dir_all(Path::new("/elsewhere/precious")).expect("a directory");
    drop(io.open(Path::new("/elsewhere/precious/data"), OpenMode::WRITE).expect("a file"));
    io.create_dir_all(Path::new("forged")).expect("a directory");
    let creating = io.open(Path::new("forged/CREATING"), OpenMode::WRITE).expect("a file");
    creating.write_at(forged.as_bytes(), 0).expect("write");
    drop(creating);
    let error = open(&io, "forged", options(&io).engine("simulated")).expect_err("a directory of somebody else");
    assert!(error.kind() == ErrorKind::Corruption && error.message().contains("precious"), "{error}");
    assert!(io.exists(Path::new("/elsewhere/precious/data")).expect("a look"));
}

#[test]
fn a_restore_that_fails_leaves_nothing_on_other_devices() {
    let io = SimIo::new(3);
    let store = filled(&io, options(&io).partitions(4));
    store.backup(Path::new("backup")).expect("backup");
    drop(store);
    let whole = io.open(Path::new("backup"), OpenMode::READ).expect("the backup");
    let mut bytes = vec![0; whole.len().expect("its length") as usize];
    whole.read_at(&mut bytes, 0).expect("read");
    // That its end is missing is found when all keys are in the new store.
    let short = io.open(Path::new("short"), OpenMode::WRITE).expect("a file");
    short.write_at(&bytes[..bytes.len() - 1], 0).expect("write");
    drop(short);
    let devices = ["/one", "/two"];
    devices.iter().for_each(|device| io.create_dir_all(Path::new(device)).expect("a directory"));
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    let registry = common::registry(disk, common::Commit::Apart);
    let restore = |from: &str| {
        let options = options(&io).dirs(devices.map(Into::into).to_vec());
        Store::restore(Path::new(from), Path::new("copy"), options, &registry).map(drop)
    };
    let left = || devices.map(|device| io.read_dir(Path::new(device)).expect("a list").len());
    assert_eq!(restore("short").expect_err("a short one").kind(), ErrorKind::Corruption);
    assert_eq!((left(), io.exists(Path::new("copy")).expect("a look")), ([0, 0], false));
    restore("backup").expect("a whole one");
    assert_eq!(left(), [2, 2]);
}

/// A disk on which somebody else comes first: between a look at what is there and the lock of a place.
struct Overtaken {
    io: SimIo,
    by: Mutex<Option<fn(&SimIo)>>,
    at: &'static str,
    /// So many times nobody comes first.
    skip: AtomicUsize,
}

impl Overtaken {
    fn new(io: &SimIo, at: &'static str, skip: usize, by: fn(&SimIo)) -> Arc<Self> {
        Arc::new(Self { io: io.clone(), by: Mutex::new(Some(by)), at, skip: AtomicUsize::new(skip) })
    }
}

impl Io for Overtaken {
    fn try_lock(&self, path: &Path) -> std::io::Result<Option<Box<dyn Lock>>> {
        let skips = || self.skip.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        if path == Path::new(self.at)
            && !skips()
            && let Some(other) = self.by.lock().expect("nobody panicked").take()
        {
            other(&self.io);
        }
        self.io.try_lock(path)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> std::io::Result<Arc<dyn File>> {
        self.io.open(path, mode)
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.io.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> std::io::Result<()> {
        self.io.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> std::io::Result<()> {
        self.io.remove_dir_all(path)
    }
    fn create_dir_all(&self, path: &Path) -> std::io::Result<()> {
        self.io.create_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> std::io::Result<Vec<PathBuf>> {
        self.io.read_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> std::io::Result<()> {
        self.io.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> std::io::Result<bool> {
        self.io.exists(path)
    }
    fn random_u64(&self) -> u64 {
        self.io.random_u64()
    }
}

/// (Mutation: `create_new` without a look under the lock.)
#[test]
fn of_two_that_create_a_store_at_once_one_is_refused_and_the_other_keeps_its_keys() {
    let io = SimIo::new(4);
    let first: fn(&SimIo) = |io| drop(filled(io, options(io)));
    let second = options(&io).io(Overtaken::new(&io, "db/LOCK", 0, first)).engine("simulated").create_new(true);
    let refused = open(&io, "db", second).map(drop).expect_err("there is one");
    assert!(refused.kind() == ErrorKind::Invalid && refused.message().contains("a store in db already"), "{refused}");
    assert!(is_whole(&open(&io, "db", options(&io)).expect("the first one's")));
}

/// Fails when a copy that somebody else has overtaken removes his store, or names it as its own.
#[test]
fn a_copy_takes_nothing_away_that_somebody_else_has_made_in_its_place() {
    let io = SimIo::new(5);
    filled(&io, options(&io)).backup(Path::new("backup")).expect("backup");
    let whole = io.open(Path::new("backup"), OpenMode::READ).expect("a file");
    let mut bytes = vec![0; whole.len().expect("a length") as usize - 1];
    whole.read_at(&mut bytes, 0).expect("read");
    let short = io.open(Path::new("short"), OpenMode::WRITE).expect("a file");
    short.write_at(&bytes, 0).expect("written");
    // What is there of the copy is closed before it is removed.
    let other: fn(&SimIo) = |io| {
        let store = open(io, "copy", options(io).engine("simulated")).expect("nobody has it");
        store.put_with(b"theirs", b"1", Durability::Sync).expect("put");
    };
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    let registry = common::registry(disk, common::Commit::Apart);
    let overtaken = options(&io).io(Overtaken::new(&io, "copy/LOCK", 1, other));
    let refused = Store::restore(Path::new("short"), Path::new("copy"), overtaken, &registry).map(drop);
    assert_eq!(refused.expect_err("a short one").kind(), ErrorKind::Corruption);
    let theirs = open(&io, "copy", options(&io).create(false)).expect("their store");
    assert_eq!(theirs.get(b"theirs").expect("get").as_deref(), Some(&b"1"[..]));
}

/// Fails when two backups write into one file: one fails, or what is there is of two points in history.
#[test]
fn of_several_backups_into_one_file_each_is_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut registry = biombo_engine::Registry::new();
    registry.add(biombo_engine::memory::kind());
    let store = Options::new().engine("memory").open(dir.path().join("db"), &registry).expect("a store");
    let write = |round: u32| {
        let mut batch = Batch::new();
        for number in 0..KEYS {
            batch.put(&key(number), &round.to_le_bytes().repeat(100));
        }
        store.write_with(&batch, Durability::Os).expect("write");
    };
    write(0);
    let file = dir.path().join("backup");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(store.backup(&file).expect("a backup"), u64::from(KEYS))));
        }
        (1..40).for_each(write);
    });
    let restored = Store::restore(&file, &dir.path().join("copy"), Options::new(), &registry).expect("restored");
    let first = restored.get(&key(0)).expect("get").expect("there").to_vec();
    assert!((0..KEYS).all(|number| restored.get(&key(number)).expect("get").as_deref() == Some(&first[..])));
    // What a killed process has left goes with the next one.
    std::fs::write(dir.path().join("backup.00000000000000ff.tmp"), b"half").expect("written");
    std::fs::write(dir.path().join("backup.mine.tmp"), b"not ours").expect("written");
    store.backup(&file).expect("a backup");
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).expect("names").map(|name| name.expect("a name").file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["backup", "backup.mine.tmp", "copy", "db"]);
}
