//! Names that a failed sync of their directory lost for good, though they are seen, and though a further sync succeeds: whatever is written by a manifest
//! that has such a name must not go with it.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, Fault, FaultKind, SimIo};
use biombo_engine::{Batch, Durability, Result};
use biombo_store::{Options, Pace, PlacementKind, Range, Store};

const KEYS: u32 = 60;

fn try_open(io: &SimIo, options: &Options) -> Result<Store> {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let options = options.clone().journal_segment_bytes(64 << 10).io(Arc::clone(&io));
    options.open(Path::new("db"), &common::registry(io, common::Commit::Alone))
}

fn open(io: &SimIo, what: &str) -> Store {
    try_open(io, &Options::new().create(false)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn key(number: u32) -> Vec<u8> {
    [&[(number % 3) as u8][..], format!("key{number:03}").as_bytes()].concat()
}

fn fill(store: &Store) -> Result<()> {
    let mut batch = Batch::new();
    (0..KEYS).for_each(|number| _ = batch.put(&key(number), &number.to_le_bytes()));
    store.write_with(&batch, Durability::Sync)
}

fn count(store: &Store) -> usize {
    let mut scan = store.scan(Range::all()).expect("scan");
    let mut count = 0;
    while scan.next().expect("next").is_some() {
        count += 1;
    }
    count
}

/// The syncs of a name `MANIFEST` in the store's own directory, among the events from `first` on.
fn syncs_of_names(io: &SimIo, first: usize) -> Vec<usize> {
    let labels = io.labels();
    let renames = (first..labels.len()).filter(|at| {
        labels[*at].starts_with("rename MANIFEST.tmp") || labels[*at].starts_with("rename CREATING -> MANIFEST")
    });
    renames.map(|at| at + 1).inspect(|at| assert!(labels[*at].starts_with("sync_dir db"), "{}", labels[*at])).collect()
}

/// Each sync of a name fails while `attempt` is made of what `begin` left, and then one more operation of the opening after it. Whoever opens the
/// store next writes by what it sees, and a power cut takes none of that.
fn each_lost_name(names: usize, holds: u32, begin: impl Fn(&SimIo), attempt: impl Fn(&SimIo) -> Result<()>) {
    let whole = SimIo::new(3);
    begin(&whole);
    let first = whole.event_count();
    attempt(&whole).expect("nothing fails");
    let syncs = syncs_of_names(&whole, first);
    assert_eq!(syncs.len(), names, "{:?}", &whole.labels()[first..]);
    for (sync, again) in syncs.iter().flat_map(|sync| (0..24).map(move |again| (*sync, again))) {
        for kind in [FaultKind::LostNames, FaultKind::Enospc] {
            let what = format!("sync {sync} failed, and {kind:?} at event {again} of the next opening");
            let io = SimIo::new(3);
            begin(&io);
            io.inject(Fault::at(sync, FaultKind::LostNames));
            let _ = attempt(&io);
            io.clear_faults();
            io.inject(Fault::at(io.event_count() + again, kind));
            drop(try_open(&io, &Options::new().create(false)));
            io.clear_faults();
            let store = open(&io, &what);
            if count(&store) == 0 {
                // Created, and that was all.
                fill(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            store.put_with(b"after", b"1", Durability::Sync).expect("put");
            let image = io.crash(io.event_count(), Crash::Nothing);
            drop(store);
            for io in [image, io] {
                let store = open(&io, &what);
                assert_eq!(count(&store) as u32, KEYS + 1, "{what}");
                assert_eq!(store.get(b"after").expect("get").as_deref(), Some(&b"1"[..]), "{what}");
                assert_eq!(store.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify"), u64::from(holds));
            }
        }
    }
}

fn create(io: &SimIo, options: Options) -> Result<Store> {
    try_open(io, &options.engine("simulated"))
}

/// Mutation: a creation's manifest that is settled from the first.
#[test]
fn a_store_whose_creation_was_not_named_for_good_is_not_created_again() {
    let attempt = |io: &SimIo| create(io, Options::new().partitions(2)).map(drop);
    each_lost_name(2, KEYS + 1, |_| (), attempt);
}

/// Mutation: the manifest without what left, settled from the first.
#[test]
fn a_store_that_partitions_were_taken_away_from_keeps_its_journals() {
    let begin = |io: &SimIo| {
        fill(&create(io, Options::new().partitions(4)).expect("create")).expect("write");
        let store = try_open(io, &Options::new().partitions(2).reshape(true)).expect("a store");
        store.spread(Pace::default()).expect("spread");
    };
    // What is beside named, the commit, that written anew and settled, and what was removed forgotten.
    each_lost_name(5, KEYS + 1, begin, |io| try_open(io, &Options::new()).map(drop));
}

/// Mutation: the manifest of the copies, settled from the first.
#[test]
fn a_store_that_was_placed_otherwise_keeps_its_partitions() {
    let begin = |io: &SimIo| fill(&create(io, Options::new().partitions(3)).expect("create")).expect("write");
    let options = Options::new().placement(PlacementKind::Range).partitions(2).reshape(true);
    each_lost_name(5, KEYS + 1, begin, |io| try_open(io, &options).map(drop));
}
