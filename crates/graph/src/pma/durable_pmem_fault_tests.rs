//! On persistent memory that is damaged, full, or fails: what is said, and what is left.

use std::sync::atomic::AtomicBool;

use biombo_base::io::sim::Random;

use super::pmem_tests::{create, open, open_with, options};
use super::tests::team;
use super::*;
use crate::media::persistent::Region;
use crate::media::persistent::recorder::Recorder;

#[test]
fn damage_is_told_with_its_place() {
    let work = || {
        let medium = Recorder::new();
        create(&medium, Shape::DIRECTED, &Ids::dense(9), &[[1, 2]]).unwrap();
        let graph = open_with(&medium, 128, 1 << 20).unwrap();
        for n in 0..20 {
            graph.apply(&[Update::InsertEdge(n, n + 1); 30], Durability::Sync).unwrap();
        }
        medium
    };
    let medium = work();
    let names = medium.names().unwrap();
    assert!(names.len() > 5, "{names:?}");
    let last = names.iter().rfind(|name| name.starts_with("log-")).unwrap();
    for name in names.iter().filter(|name| *name != last) {
        let medium = work();
        let mut region = medium.open(name).unwrap();
        // The first segment is as long as its graph needs, and not full.
        let used = region.bytes().iter().rposition(|byte| *byte != 0).unwrap() as u64;
        let (at, byte) = (used, region.bytes()[used as usize]);
        region.store(at, &[byte ^ 1]);
        if name == Pmem::NAME {
            // One slot of two: there was another image then, and there is none.
            region.store(64, &[9]);
            region.store(128, &[9]);
        }
        let error = open(&medium).err().unwrap_or_else(|| panic!("{name} was altered"));
        assert_eq!(error.kind(), ErrorKind::Corruption, "{name}: {error}");
        assert!(error.place().unwrap().0.ends_with(name), "{name}: {error}");
        let medium = work();
        medium.remove(name).unwrap();
        let error = open(&medium).err().unwrap_or_else(|| panic!("{name} was removed"));
        assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound), "{name}: {error}");
    }
    let medium = work();
    let mut root = medium.open(Pmem::NAME).unwrap();
    root.store(8, &[9]);
    assert_eq!(open(&medium).err().unwrap().kind(), ErrorKind::Unsupported);
}

/// Fails when the log is taken to end there, and what was acknowledged behind it is made zeros before anybody is told.
#[test]
fn damage_in_what_the_image_has_is_told_and_what_lies_behind_it_is_left() {
    let medium = Recorder::new();
    create(&medium, Shape::DIRECTED, &Ids::dense(30), &[]).unwrap();
    let graph = open(&medium).unwrap();
    for n in 0..20 {
        graph.apply(&[Update::InsertEdge(n, n + 1)], Durability::Sync).unwrap();
        if n == 12 {
            graph.checkpoint().unwrap();
        }
    }
    drop(graph);
    let names = medium.names().unwrap();
    let last = names.iter().rfind(|name| name.starts_with("log-")).unwrap();
    let first = u64::from_str_radix(&last["log-".len()..], 16);
    assert!(first.as_ref().is_ok_and(|first| *first < 12), "{last}: the image has nothing of it");
    let mut region = medium.open(last).unwrap();
    let byte = region.bytes()[2];
    region.store(2, &[byte ^ 1]);
    let damaged = region.bytes().to_vec();
    let error = open(&medium).err().expect("it is damaged");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.place().is_some_and(|(path, _)| path.ends_with(last)), "{error}");
    assert!(medium.open(last).unwrap().bytes() == damaged, "what was whole is gone");
}

/// A recorder of which something fails.
struct Faulty(Recorder, Fault);

enum Fault {
    /// There is no room for some regions, by their names and sizes.
    NoRoom(fn(&str, u64) -> bool),
    /// There is none for such regions while there is a spare segment.
    NoRoomBeside(&'static str),
    /// Fences of regions whose names begin so fail while the flag is up.
    Fences(&'static str, Arc<AtomicBool>),
    /// Stores into regions whose names begin so panic while the flag is up.
    Panics(&'static str, Arc<AtomicBool>),
    /// Segments are made, but their names are not settled, while the flag is up.
    Unsettled(Arc<AtomicBool>),
}

/// Whether a name begins so, or will: that of a spare segment.
fn is_of(name: &str, stem: &str) -> bool {
    name.starts_with(stem) || stem == "log-" && name == SPARE
}

const SPARE: &str = "log.new";

impl Faulty {
    fn wrapped(&self, name: &str, region: Box<dyn Region>) -> Box<dyn Region> {
        match &self.1 {
            Fault::Fences(stem, fails) if is_of(name, stem) => Box::new(FailingRegion(region, fails.clone(), false)),
            Fault::Panics(stem, fails) if is_of(name, stem) => Box::new(FailingRegion(region, fails.clone(), true)),
            _ => region,
        }
    }
}

fn as_planned() -> std::io::Error {
    std::io::Error::other("as planned")
}

impl Medium for Faulty {
    fn settle(&self) -> std::io::Result<()> {
        self.0.settle()
    }
    fn create(&self, name: &str, bytes: u64) -> std::io::Result<Box<dyn Region>> {
        let is_full = match &self.1 {
            Fault::NoRoom(full) => full(name, bytes),
            Fault::NoRoomBeside(stem) => name.starts_with(stem) && self.0.names()?.iter().any(|name| name == SPARE),
            _ => false,
        };
        if is_full {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let region = self.0.create(name, bytes)?;
        match &self.1 {
            Fault::Unsettled(fails) if name.starts_with("log-") && fails.load(Relaxed) => Err(as_planned()),
            _ => Ok(self.wrapped(name, region)),
        }
    }
    fn open(&self, name: &str) -> std::io::Result<Box<dyn Region>> {
        Ok(self.wrapped(name, self.0.open(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)?;
        match &self.1 {
            Fault::Unsettled(fails) if to.starts_with("log-") && fails.load(Relaxed) => Err(as_planned()),
            _ => Ok(()),
        }
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }
    fn names(&self) -> std::io::Result<Vec<String>> {
        self.0.names()
    }
}

/// Its fences fail while the flag is up, or else its stores panic.
struct FailingRegion(Box<dyn Region>, Arc<AtomicBool>, bool);

impl Region for FailingRegion {
    fn backing(&self) -> Backing {
        self.0.backing()
    }
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn store(&mut self, offset: u64, bytes: &[u8]) {
        // In the middle of a record: the header is there, and what it is the header of is not.
        assert!(!(self.2 && self.1.load(Relaxed) && bytes.len() > 8), "this panic is meant");
        self.0.store(offset, bytes);
    }
    fn write_back(&mut self, offset: u64, bytes: u64) {
        self.0.write_back(offset, bytes);
    }
    fn fence(&mut self) -> std::io::Result<()> {
        // As a device without room may say it: not that nothing has changed.
        let failed = || std::io::Error::new(std::io::ErrorKind::StorageFull, "as planned");
        if self.1.load(Relaxed) && !self.2 { Err(failed()) } else { self.0.fence() }
    }
}

#[test]
fn a_medium_without_room_refuses_a_batch_and_takes_the_next_that_fits() {
    let medium = Recorder::new();
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    let small: Arc<dyn Medium> = Arc::new(Faulty(medium.clone(), Fault::NoRoom(|_, bytes| bytes > 1 << 16)));
    let graph = Durable::open_on(small, Path::new("one"), &options(4096, 1 << 20), None, &mut team()).unwrap();
    graph.apply(&[Update::InsertEdge(1, 2)], Durability::Sync).unwrap();
    let large: Vec<Update> = (0..10_000).map(|n| Update::InsertEdge(n, 7)).collect();
    let error = graph.apply(&large, Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert_eq!(graph.vertices(), 2, "nothing was taken in");
    graph.apply(&[Update::InsertEdge(2, 3)], Durability::Sync).unwrap();
    drop(graph);
    let graph = open(&medium).unwrap();
    assert_eq!((graph.neighbors(2), graph.vertices()), (Some(vec![3]), 3));
}

#[test]
fn an_image_that_has_no_room_leaves_the_one_before() {
    let medium = Recorder::new();
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    let small: Arc<dyn Medium> = Arc::new(Faulty(medium.clone(), Fault::NoRoom(|name, _| name.starts_with("image-"))));
    let graph = Durable::open_on(small, Path::new("one"), &options(4096, 100), None, &mut team()).unwrap();
    for n in 0..30 {
        graph.apply(&[Update::InsertEdge(n, n + 1)], Durability::Sync).expect("the log has room");
    }
    assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Full);
    drop(graph);
    let graph = open(&medium).unwrap();
    assert_eq!((graph.neighbors(29), graph.vertices()), (Some(vec![30]), 31));
    graph.checkpoint().unwrap();
    assert_eq!(medium.names().unwrap().iter().filter(|name| name.starts_with("image-")).count(), 1);
}

#[test]
fn a_graph_that_has_no_room_leaves_nothing() {
    let nothing = Csr::build(0, &[], Shape::DIRECTED, &mut team()).unwrap();
    let full: [fn(&str, u64) -> bool; 3] = [
        |name, _| name.starts_with("image-"),
        |name, _| name.starts_with("log-"),
        |name, _| name.starts_with("graph.pmem"),
    ];
    for full in full {
        let medium = Recorder::new();
        let small = Arc::new(Faulty(medium.clone(), Fault::NoRoom(full)));
        let error = Pmem::create(small, Path::new("one"), 1, &nothing, &Ids::dense(0), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert_eq!(medium.names().unwrap(), [""; 0]);
        create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
        open(&medium).unwrap();
    }
}

/// A graph with the edge from 0 to 1, on a recorder where fences of such names will fail, or panic.
fn failing(
    how: fn(&'static str, Arc<AtomicBool>) -> Fault,
    stem: &'static str,
) -> (Recorder, Durable, Arc<AtomicBool>) {
    let (medium, fails) = (Recorder::new(), Arc::new(AtomicBool::new(false)));
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    let wrapped: Arc<dyn Medium> = Arc::new(Faulty(medium.clone(), how(stem, fails.clone())));
    let graph = Durable::open_on(wrapped, Path::new("one"), &options(4096, 1 << 20), None, &mut team()).unwrap();
    graph.apply(&[Update::InsertEdge(0, 1)], Durability::Sync).unwrap();
    (medium, graph, fails)
}

/// Batches of one edge which are appended alone, or by whoever appends a group.
const SIZES: [usize; 2] = [1, record::FEW + 1];

#[test]
fn a_fence_of_the_log_that_fails_ends_writing() {
    SIZES.into_iter().for_each(a_fence_that_fails_ends_writing);
}

fn a_fence_that_fails_ends_writing(size: usize) {
    let (medium, graph, fails) = failing(Fault::Fences, "log-");
    fails.store(true, Relaxed);
    let error = graph.apply(&vec![Update::InsertEdge(1, 2); size], Durability::Sync).unwrap_err();
    assert!(error.to_string().contains("as planned"), "{error}");
    assert!(
        matches!(error.kind(), ErrorKind::Io | ErrorKind::Poisoned),
        "it is not known that nothing has changed: {error:?}"
    );
    fails.store(false, Relaxed);
    // Nobody asks a second time: what the first fence has left is not known.
    for durability in [Durability::Os, Durability::Sync] {
        let error = graph.apply(&[Update::InsertEdge(2, 3)], durability).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }
    assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!((graph.neighbors(0), graph.neighbors(1)), (Some(vec![1]), Some(vec![])), "it can be read");
    drop(graph);
    let graph = open(&medium).unwrap();
    assert_eq!((graph.neighbors(0), graph.neighbors(2).unwrap_or_default()), (Some(vec![1]), vec![]));
    graph.apply(&[Update::InsertEdge(2, 3)], Durability::Sync).unwrap();
}

/// Fails when a panic in the middle of a record leaves batches waiting for its number, or lets others come after it.
#[test]
fn a_panic_in_the_middle_of_a_record_ends_writing() {
    SIZES.into_iter().for_each(a_panic_ends_writing);
}

fn a_panic_ends_writing(size: usize) {
    let (medium, graph, fails) = failing(Fault::Panics, "log-");
    fails.store(true, Relaxed);
    let batch = vec![Update::InsertEdge(1, 2); size];
    let bring = || graph.apply(&batch, Durability::Sync);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(bring)).is_err());
    fails.store(false, Relaxed);
    let next = graph.inner.kept.next();
    assert_eq!(bring().unwrap_err().kind(), ErrorKind::Poisoned);
    // Past the turn, which knows: the log knows too.
    let record = record::encode(&[Update::InsertEdge(1, 2)]);
    assert_eq!(graph.inner.kept.append(record, Durability::Os).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(graph.inner.kept.next(), next);
    assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned);
    drop(graph);
    let graph = open(&medium).unwrap();
    assert_eq!((graph.neighbors(0), graph.vertices()), (Some(vec![1]), 2));
    graph.apply(&[Update::InsertEdge(1, 2)], Durability::Sync).unwrap();
}

/// Fails when those whose records are in the same group as one that panics, or come after it, panic too or wait for ever.
#[test]
fn of_several_who_append_one_panics_and_the_others_are_told() {
    SIZES.into_iter().for_each(one_panics_and_the_others_are_told);
}

fn one_panics_and_the_others_are_told(size: usize) {
    let (medium, fails) = (Recorder::new(), Arc::new(AtomicBool::new(false)));
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    let wrapped: Arc<dyn Medium> = Arc::new(Faulty(medium, Fault::Panics("log-", fails.clone())));
    let graph = Durable::open_on(wrapped, Path::new("one"), &options(1 << 16, 1 << 20), None, &mut team()).unwrap();
    let write_until_it_ends = |writer: u64| {
        let write = |n: u64| graph.apply(&vec![Update::InsertEdge(writer, n % 1000); size], Durability::Sync);
        let mut runs = (0..).map(|n| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| write(n))));
        match runs.find(|run| !matches!(run, Ok(Ok(_)))) {
            Some(Ok(Err(error))) => {
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
                false
            }
            other => other.is_some_and(|run| run.is_err()),
        }
    };
    std::thread::scope(|scope| {
        let write = &write_until_it_ends;
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(move || write(writer))).collect();
        std::thread::sleep(std::time::Duration::from_millis(20));
        fails.store(true, Relaxed);
        let panicked = writers.into_iter().map(|writer| writer.join().unwrap()).filter(|did| *did);
        assert_eq!(panicked.count(), 1);
    });
}

#[test]
fn a_fence_of_the_root_that_fails_ends_saving_and_not_writing() {
    let (medium, graph, fails) = failing(Fault::Fences, "graph.pmem");
    fails.store(true, Relaxed);
    assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Io);
    fails.store(false, Relaxed);
    graph.apply(&[Update::InsertEdge(1, 2)], Durability::Sync).unwrap();
    assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned, "either root may count");
    drop(graph);
    // The one, or the other.
    let mut points = medium.crash_points();
    while points.advance() {}
    for crash in points.crashes(9, &mut Random(1)) {
        let graph = open(&points.image(crash)).unwrap();
        assert_eq!((graph.neighbors(0), graph.neighbors(1)), (Some(vec![1]), Some(vec![2])), "{crash:?}");
        graph.checkpoint().unwrap();
    }
}

/// Fails when a graph is saved once more after a save of which nobody knows whether it counts: the root may lead to an image that is replaced.
#[test]
fn a_panic_while_the_root_is_stored_ends_saving_and_not_writing() {
    let (medium, graph, fails) = failing(Fault::Panics, "graph.pmem");
    fails.store(true, Relaxed);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| graph.checkpoint())).is_err());
    fails.store(false, Relaxed);
    graph.apply(&[Update::InsertEdge(1, 2)], Durability::Sync).unwrap();
    assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned, "either root may count");
    drop(graph);
    let graph = open(&medium).unwrap();
    assert_eq!((graph.neighbors(0), graph.neighbors(1)), (Some(vec![1]), Some(vec![2])));
    graph.checkpoint().unwrap();
}

#[test]
fn a_segment_that_may_be_there_or_not_ends_writing() {
    let medium = Recorder::new();
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    let fails = Arc::new(AtomicBool::new(true));
    let wrapped = Arc::new(Faulty(medium.clone(), Fault::Unsettled(fails.clone())));
    let graph = Durable::open_on(wrapped, Path::new("one"), &options(4096, 1 << 20), None, &mut team()).unwrap();
    graph.apply(&[Update::InsertEdge(0, 1)], Durability::Sync).unwrap();
    let large: Vec<Update> = (0..4096).map(|n| Update::InsertEdge(n, 7)).collect();
    let error = graph.apply(&large, Durability::Sync).unwrap_err();
    assert!(error.to_string().contains("as planned"), "{error}");
    fails.store(false, Relaxed);
    // The segment before has room for it; but that may not be the last one any more.
    let error = graph.apply(&[Update::InsertEdge(1, 2)], Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    drop(graph);
    let graph = open(&medium).unwrap();
    assert_eq!((graph.neighbors(0), graph.vertices()), (Some(vec![1]), 2));
    graph.apply(&large, Durability::Sync).unwrap();
}

/// Fails when a segment that was made aside and got its name maybe is gone on with.
#[test]
fn a_spare_segment_whose_name_may_be_there_or_not_ends_writing() {
    let (medium, fails) = (Recorder::new(), Arc::new(AtomicBool::new(false)));
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    let wrapped = Arc::new(Faulty(medium.clone(), Fault::Unsettled(fails.clone())));
    let graph = Durable::open_on(wrapped, Path::new("one"), &options(4096, 1 << 20), None, &mut team()).unwrap();
    let (edge, is_there) =
        (|n| [Update::InsertEdge(n, 7)], || medium.names().unwrap().iter().any(|name| name == SPARE));
    let mut brought = 0;
    while !is_there() {
        graph.apply(&edge(brought), Durability::Sync).unwrap();
        brought += 1;
    }
    assert_eq!(brought, 65, "half a segment of 4,096 bytes, 32 a record");
    fails.store(true, Relaxed);
    while let Ok(number) = graph.apply(&edge(brought), Durability::Sync) {
        brought += 1;
        assert_eq!(number, brought);
    }
    assert_eq!(brought, 128, "all of it");
    fails.store(false, Relaxed);
    assert_eq!(graph.apply(&edge(brought), Durability::Os).unwrap_err().kind(), ErrorKind::Poisoned);
    drop(graph);
    let graph = open(&medium).unwrap();
    assert_eq!(graph.in_neighbors(7).unwrap().len(), 128);
    graph.apply(&edge(128), Durability::Sync).unwrap();
    assert_eq!(graph.in_neighbors(7).unwrap().len(), 129);
}

/// Fails when a graph cannot be saved for want of the room that a segment for later has, or when one is left.
#[test]
fn a_spare_segment_gives_its_room_to_an_image() {
    let medium = Recorder::new();
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    let small: Arc<dyn Medium> = Arc::new(Faulty(medium.clone(), Fault::NoRoomBeside("image-")));
    let graph = Durable::open_on(small, Path::new("one"), &options(4096, 1 << 20), None, &mut team()).unwrap();
    let is_there = || medium.names().unwrap().iter().any(|name| name == SPARE);
    let bring = |range: std::ops::Range<u64>| {
        range.for_each(|n| graph.apply(&[Update::InsertEdge(n, 7)], Durability::Sync).map(drop).unwrap());
    };
    bring(0..100);
    assert!(is_there());
    graph.checkpoint().unwrap();
    assert!(!is_there());
    // Without one the next segment is made when it is needed, and the one after it aside again.
    bring(100..200);
    assert!(is_there());
    drop(graph);
    assert!(!is_there(), "who closes a graph leaves none");
    let graph = open(&medium).unwrap();
    assert_eq!(graph.in_neighbors(7).unwrap().len(), 200);
}
