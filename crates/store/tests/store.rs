//! What a user relies on beyond the Engine contract: directories, options, read-modify-write, snapshots across partitions,
//! copies and backups, a store that turned read-only.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use biombo_base::io::Io;
use biombo_base::io::sim::{Fault, FaultKind, SimIo, When};
use biombo_engine::{Batch, Durability, ErrorKind, Registry, memory};
use biombo_store::{Executor, Options, Partitioning, PlacementKind, Range, Store, Update};

const PINNED: Executor = Executor::Pinned { workers: 2 };

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(memory::kind());
    registry
}

/// A store on a simulated disk, which keeps what it held when it is opened again.
fn open(io: &SimIo, options: Options) -> biombo_engine::Result<Store> {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    options
        .journal_segment_bytes(16 << 10)
        .io(Arc::clone(&io))
        .open(Path::new("db"), &common::registry(io, common::Commit::Apart))
}

fn options() -> Options {
    Options::new().engine("simulated").partitions(4)
}

fn keys(store: &Store, range: Range) -> Vec<String> {
    let mut scan = store.scan(range).expect("scan");
    let mut keys = Vec::new();
    while let Some((key, _)) = scan.next().expect("scan") {
        keys.push(String::from_utf8_lossy(key).into_owned());
    }
    keys
}

/// Figures that are asked for beside others' work bring nothing about; those of the whole store do, and know all keys. Fails if the first
/// drain what waits for an engine with costly transactions.
#[test]
fn figures_of_instances_leave_alone_what_waits_for_the_engine() {
    let io: Arc<dyn Io> = Arc::new(SimIo::new(1));
    let registry = common::registry(Arc::clone(&io), common::Commit::Costly);
    let store = options().durability(Durability::Os).io(io).open(Path::new("db"), &registry).expect("create");
    let held = || store.instance_stats().expect("figures").iter().filter_map(|stats| stats.keys).sum::<u64>();
    let marks = held();
    // A thread drains by itself, once nothing more comes: one look of many is early enough.
    let waited = (0..200u32).any(|n| {
        store.put(&n.to_be_bytes(), b"v").expect("put");
        let (early, all) = (held() - marks, u64::from(n) + 1);
        assert_eq!(store.stats().expect("figures").keys, Some(all));
        early < all
    });
    assert!(waited, "each look had brought in what waited");
}

/// Fails if each partition syncs for itself, or if a write whose partition needs its own sync pays for two.
#[test]
fn partitions_that_would_sync_alone_share_the_syncs_of_the_journal() {
    let io: Arc<dyn Io> = Arc::new(SimIo::new(1));
    let open = |commit, partitions| {
        let registry = common::registry(Arc::clone(&io), commit);
        let dir = format!("{commit:?}-{partitions}");
        let options = options().partitions(partitions).durability(Durability::Sync).io(Arc::clone(&io));
        options.open(Path::new(&dir), &registry).expect("create")
    };
    let in_journal = |store: &Store| store.stats().expect("figures").intent_bytes;
    let store = open(common::Commit::Alone, 3);
    store.put(b"key", b"v").expect("put");
    let one = in_journal(&store);
    assert!(one > 0, "it went to its engine alone");
    store.put_with(b"key", b"w", Durability::Os).expect("put");
    store.put(b"key", b"x").expect("put");
    assert_eq!(in_journal(&store), one, "the engine's sync covers both");
    store.put(b"key", b"y").expect("put");
    assert!(in_journal(&store) > one);
    store.delete_range(b"a", Some(b"b")).expect("delete");
    drop(store);
    let store = open(common::Commit::Alone, 3);
    assert_eq!((store.get(b"key").expect("get").as_deref(), in_journal(&store)), (Some(&b"y"[..]), 0));
    for other in [open(common::Commit::Alone, 1), open(common::Commit::Apart, 3)] {
        other.put(b"key", b"v").expect("put");
        assert_eq!(in_journal(&other), 0);
    }
}

#[test]
fn many_keys_are_read_at_once_as_each_for_itself_in_the_order_asked_for() {
    for partitioning in [Partitioning::Soft, Partitioning::Hard] {
        let store = open(&SimIo::new(1), options().partitioning(partitioning)).expect("create");
        let key = |n: u64| [&[(n % 3) as u8][..], &n.to_be_bytes()].concat();
        for n in (0..200).step_by(2) {
            store.put(&key(n), &n.to_le_bytes()).expect("put");
        }
        // More than are told of at once; absent ones, repeated ones, some that begin with a zero.
        let asked: Vec<Vec<u8>> = (0..150).map(|i| key(i * 7 % 211)).chain([key(4), key(4)]).collect();
        let got = store.multi_get(&asked).expect("multi_get");
        assert_eq!(got.len(), asked.len());
        for (key, value) in asked.iter().zip(&got) {
            assert_eq!(value.as_deref(), store.get(key).expect("get").as_deref(), "{key:?}");
        }
        assert!(got.iter().flatten().count() > 50);
        assert_eq!(store.multi_get(&[&b"a"[..], b""]).expect_err("an empty key").kind(), ErrorKind::Invalid);
        assert!(store.multi_get(&[] as &[&[u8]; 0]).expect("nothing").is_empty());
    }
}

#[test]
fn a_store_keeps_its_shape_and_refuses_options_that_contradict_it() {
    let io = SimIo::new(1);
    let sample = ["b", "f", "m", "t"].map(|key| key.as_bytes().to_vec()).to_vec();
    let store = open(&io, options().placement(PlacementKind::Range).range_sample(sample)).expect("create");
    let placement = store.placement();
    drop(store);
    let again = open(&io, Options::new()).expect("open without options");
    assert_eq!((again.partitions(), again.partitioning()), (4, Partitioning::Hard));
    assert_eq!(again.placement(), placement, "boundaries are kept");
    drop(again);
    for wrong in [
        Options::new().engine("memory"),
        Options::new().partitions(8),
        Options::new().partitioning(Partitioning::Soft),
        Options::new().placement(PlacementKind::Hash),
        Options::new().create_new(true),
    ] {
        assert_eq!(open(&io, wrong).expect_err("contradicts").kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_store_that_names_no_engine_gets_the_first_one_that_keeps_data() {
    let store = open(&SimIo::new(1), Options::new()).expect("create");
    assert_eq!(store.engine(), "simulated");
    let dir = tempfile::tempdir().expect("a directory");
    let error = Options::new().open(dir.path().join("db"), &registry()).expect_err("memory keeps nothing");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!dir.path().join("db").exists(), "nothing was left behind");
}

#[test]
fn options_that_cannot_be_leave_nothing_behind() {
    for wrong in [
        Options::new().engine("granite"),
        options().partitions(0),
        options().partitions(5000),
        options().partitioning(Partitioning::None),
        options().executor(Executor::Pinned { workers: 0 }),
        options().executor(Executor::Pinned { workers: 2000 }),
        options().create(false),
    ] {
        let io = SimIo::new(1);
        open(&io, wrong).expect_err("cannot be");
        assert_eq!(io.event_count(), 0, "nothing was touched");
    }
}

#[test]
fn a_second_owner_is_told_who_the_first_is() {
    let io = SimIo::new(1);
    let first = open(&io, options()).expect("create");
    let error = open(&io, options()).expect_err("open already");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(first);
    open(&io, options()).expect("free again");
}

#[test]
fn partitions_spread_over_several_directories_and_a_missing_one_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let disks = ["one", "two"].map(|name| home.path().join(name));
    let db = home.path().join("db");
    let options = Options::new().engine("memory").partitions(3).dirs(disks.to_vec());
    drop(options.clone().open(&db, &registry()).expect("create"));
    let count = |disk: &Path| std::fs::read_dir(disk).expect("disk").count();
    assert_eq!((count(&disks[0]), count(&disks[1])), (2, 1), "dealt in turn");
    drop(options.clone().open(&db, &registry()).expect("open"));
    // However they are spelt, in whatever order, and with more of them than there are partitions in; but not with fewer.
    let spelt = vec![disks[1].join("../two"), disks[0].join("."), home.path().join("three")];
    drop(options.clone().dirs(spelt).open(&db, &registry()).expect("the same ones"));
    let error = options.dirs(vec![disks[0].clone()]).open(&db, &registry()).expect_err("a contradiction");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("a partition in") && error.to_string().contains("two, not"), "{error}");
    std::fs::remove_dir_all(&disks[1]).expect("unplug");
    let error = Options::new().open(&db, &registry()).expect_err("a device is missing");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("two"), "{error}");
}

#[test]
fn updates_of_many_threads_are_all_counted_under_every_layout() {
    for (partitioning, executor) in [
        (Partitioning::None, Executor::Direct),
        (Partitioning::Soft, Executor::Direct),
        (Partitioning::Hard, Executor::Direct),
        (Partitioning::Soft, PINNED),
        (Partitioning::Hard, PINNED),
    ] {
        let partitions = if partitioning == Partitioning::None { 1 } else { 3 };
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().engine("memory").partitioning(partitioning).partitions(partitions);
        let options = options.executor(executor);
        let store = options.open(dir.path(), &registry()).expect("open");
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let store = &store;
                scope.spawn(move || {
                    for i in 0..500u32 {
                        let durability = if i % 2 == 0 { Durability::Sync } else { Durability::Os };
                        let add = |old: Option<&[u8]>| {
                            let old = old.map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")));
                            Update::Put((old + 1).to_le_bytes().to_vec())
                        };
                        store.update(format!("counter{}", i % 7).as_bytes(), durability, add).expect("update");
                        // Plain writes to other keys of the same partitions, and ones that the updates must not lose.
                        store.put(format!("other{thread}").as_bytes(), b"x").expect("put");
                    }
                });
            }
        });
        let total: u32 = (0..7)
            .map(|i| store.get(format!("counter{i}").as_bytes()).expect("get").expect("there"))
            .map(|value| u32::from_le_bytes((*value).try_into().expect("four bytes")))
            .sum();
        assert_eq!(total, 2000, "{partitioning}, {executor}");
        assert!(store.compare_and_swap(b"new", None, Some(b"1")).expect("swap"));
        assert!(!store.compare_and_swap(b"new", None, Some(b"2")).expect("swap"), "it is there now");
        assert!(store.compare_and_swap(b"new", Some(b"1"), None).expect("swap"));
        assert!(!store.contains(b"new").expect("get"));
    }
}

/// Every batch moves one coin between accounts in different partitions; every snapshot must see all coins.
#[test]
fn a_snapshot_never_sees_half_of_a_batch() {
    for executor in [Executor::Direct, PINNED] {
        snapshots_of_batches(&open(&SimIo::new(3), options().executor(executor)).expect("create"));
    }
}

fn snapshots_of_batches(store: &Store) {
    let account = |i: u64| format!("account{i}").into_bytes();
    const ACCOUNTS: u64 = 10;
    for i in 0..ACCOUNTS {
        store.put(&account(i), &100u64.to_le_bytes()).expect("put");
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let balance = |i: u64| {
                let value = store.get(&account(i)).expect("get").expect("there");
                u64::from_le_bytes((*value).try_into().expect("eight bytes"))
            };
            for round in 0..400u64 {
                let (from, to) = (round % ACCOUNTS, (round * 7 + 3) % ACCOUNTS);
                if from == to {
                    continue;
                }
                let mut batch = Batch::new();
                batch.put(&account(from), &(balance(from) - 1).to_le_bytes());
                batch.put(&account(to), &(balance(to) + 1).to_le_bytes());
                store.write_with(&batch, Durability::Os).expect("write");
            }
            stop.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            let mut seen = 0;
            while !stop.load(Ordering::SeqCst) || seen == 0 {
                let mut scans = [
                    store.snapshot().expect("snapshot").scan(Range::prefix(b"account")).expect("scan"),
                    store.scan(Range { reverse: true, ..Range::prefix(b"account") }).expect("scan"),
                ];
                for scan in &mut scans {
                    let mut total = 0;
                    while let Some((_, value)) = scan.next().expect("scan") {
                        total += u64::from_le_bytes(value.try_into().expect("eight bytes"));
                    }
                    assert_eq!(total, 100 * ACCOUNTS);
                    seen += 1;
                }
            }
        });
    });
}

#[test]
fn a_failed_sync_turns_the_store_read_only_and_reopening_keeps_what_was_acknowledged() {
    for executor in [Executor::Direct, PINNED] {
        fail_a_sync(executor);
    }
}

fn fail_a_sync(executor: Executor) {
    let io = SimIo::new(5);
    let store = open(&io, options().executor(executor)).expect("create");
    store.put(b"before", b"1").expect("put");
    io.inject(Fault {
        when: When::Matches(Arc::new(|event| event.label.starts_with("sync ") && event.label.contains("seg"))),
        kind: FaultKind::Eio,
        times: 1,
    });
    assert!(store.put(b"refused", b"2").is_err());
    let error = store.put(b"after", b"3").expect_err("read-only");
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    assert_eq!(store.flush().expect_err("read-only").kind(), ErrorKind::Poisoned);
    assert_eq!(store.get(b"before").expect("reads go on").as_deref(), Some(&b"1"[..]));
    assert!(store.stats().expect("stats").poisoned.is_some());
    drop(store);
    io.clear_faults();
    let store = open(&io, Options::new()).expect("reopen");
    assert_eq!(store.get(b"before").expect("get").as_deref(), Some(&b"1"[..]));
    store.put(b"after", b"3").expect("writes go on");
}

#[test]
fn backups_restore_into_any_layout_and_damage_leaves_no_store() {
    let home = tempfile::tempdir().expect("a directory");
    let registry = registry();
    let from = Options::new().engine("memory").partitions(3).open(home.path().join("from"), &registry).expect("open");
    for i in 0..3000u32 {
        from.put(format!("key{:05}", i * 7 % 3000).as_bytes(), &vec![b'v'; i as usize % 2000]).expect("put");
    }
    let file = home.path().join("backup");
    assert_eq!(from.backup(&file).expect("backup"), 3000);
    for (name, options) in [
        ("same", Options::new()),
        ("alone", Options::new().partitioning(Partitioning::None)),
        ("ranges", Options::new().partitions(5).placement(PlacementKind::Range)),
    ] {
        let to = Store::restore(&file, &home.path().join(name), options, &registry).expect("restore");
        assert_eq!(keys(&to, Range::all()), keys(&from, Range::all()), "{name}");
        if name == "ranges" {
            let stats = to.stats().expect("stats");
            assert!(stats.instances.iter().all(|i| i.keys > Some(100)), "boundaries fit: {:?}", stats.instances);
        }
    }
    let whole = std::fs::read(&file).expect("backup");
    let damaged = home.path().join("damaged");
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        for bytes in [whole[..at].to_vec(), {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            flipped
        }] {
            std::fs::write(&damaged, bytes).expect("write");
            let to = home.path().join("broken");
            let error = Store::restore(&damaged, &to, Options::new(), &registry).expect_err("damaged");
            assert!(matches!(error.kind(), ErrorKind::Corruption), "at {at}: {error}");
            assert!(!to.exists(), "at {at}: a store was left behind");
        }
    }
}

#[test]
fn scans_cross_partitions_in_order_both_ways_and_stop_at_their_limit() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let dir = tempfile::tempdir().expect("a directory");
        let sample = (b'a'..=b'z').map(|byte| vec![byte]).collect();
        let options = Options::new().engine("memory").partitions(5).placement(placement).range_sample(sample);
        let store = options.open(dir.path(), &registry()).expect("open");
        let all: Vec<_> = (b'a'..=b'z').map(|byte| (byte as char).to_string()).collect();
        for key in all.iter().rev() {
            store.put(key.as_bytes(), b"").expect("put");
        }
        assert_eq!(keys(&store, Range::all()), all);
        let range = Range { from: b"c".to_vec(), to: Some(b"x".to_vec()), limit: Some(20), reverse: true };
        let expected: Vec<_> = all[2..23].iter().rev().take(20).cloned().collect();
        assert_eq!(keys(&store, range), expected, "{placement}");
        store.delete_range(b"b", Some(b"y")).expect("delete");
        assert_eq!(keys(&store, Range::all()), ["a", "y", "z"], "{placement}");
    }
}
