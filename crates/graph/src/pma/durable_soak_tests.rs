//! One graph that is kept, two threads that insert and delete without regard for each other, snapshots meanwhile, and saves aside: each snapshot is
//! the graph after some first batches, and so is what is there after reopening. For ten minutes in `make soak`.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use biombo_base::io::RealIo;

use super::tests::{batches, team};
use super::*;
use crate::pma::tests::concurrent::{AMONG_MIN, Draw};
use crate::pma::tests::model::Model;

/// Ends the process when nothing was heard for so long: a deadlock fails the test, and does not stop all others.
struct Watchdog(Sender<()>);

impl Watchdog {
    fn start(what: &'static str, patience: Duration) -> Self {
        let (sender, heard) = channel();
        std::thread::spawn(move || {
            loop {
                match heard.recv_timeout(patience) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("{what}: nobody got on for {patience:?}: a deadlock");
                        std::process::abort();
                    }
                }
            }
        });
        Self(sender)
    }

    fn hear(&self) {
        self.0.send(()).expect("the watchdog listens");
    }
}

/// A graph on its medium, and what it must be.
struct Soak {
    dir: PathBuf,
    on_pmem: bool,
    model: Model,
    made: usize,
    seen: usize,
}

impl Soak {
    fn open(&self) -> Durable {
        // Small, so that segments and saves follow each other closely.
        let journal = JournalOptions { segment_bytes: 1 << 20, ..JournalOptions::default() };
        let options = DurableOptions { journal, checkpoint_bytes: 4 << 20, saves_aside: true };
        let graph = Durable::open(RealIo::shared(), &self.dir, options, &mut team()).unwrap();
        assert_eq!(matches!(graph.media(), Media::Pmem(_)), self.on_pmem);
        graph
    }

    fn new(dir: &Path, on_pmem: bool, shape: Shape) -> Self {
        let (io, dir) = (RealIo::shared(), dir.join("graph"));
        let nothing = Csr::build(0, &[], shape, &mut team()).unwrap();
        match on_pmem {
            true => drop(Durable::create_on_pmem(&io, &dir, &nothing, &Ids::dense(0), shape.keeps_loops).unwrap()),
            false => Durable::create_from(&io, &dir, &nothing, &Ids::dense(0), shape.keeps_loops).unwrap(),
        }
        Self { dir, on_pmem, model: Model::new(shape), made: 0, seen: 0 }
    }

    /// Both write for a while; then all of it once more on the model.
    fn round(&mut self, graph: &Durable, time: Duration, seed: u64, watchdog: &Watchdog) {
        let stop = AtomicBool::new(false);
        let write = |writer: u64| {
            let (mut draw, mut applied) = (Draw(seed * 2 + writer + 1), Vec::new());
            while !stop.load(Relaxed) {
                let batch = draw.batch();
                let durability = if draw.batch().len() == 1 { Durability::Sync } else { Durability::Os };
                applied.push((graph.apply(&batch, durability).unwrap() as usize, batch));
            }
            applied
        };
        let (mut applied, snapshots) = std::thread::scope(|scope| {
            let write = &write;
            let writers: Vec<_> = (0..2).map(|writer| scope.spawn(move || write(writer))).collect();
            let (begun, mut snapshots) = (Instant::now(), Vec::new());
            // A loaded machine may need longer until they come at all.
            let is_short = |seen: usize| seen < 2 * AMONG_MIN && begun.elapsed() < 100 * time;
            while begun.elapsed() < time || is_short(snapshots.len()) {
                let snapshot = graph.snapshot(&mut team()).unwrap();
                let is_new = snapshots.last().is_none_or(|last: &Snapshot<_>| last.sequence() < snapshot.sequence());
                if is_new {
                    // Who only looks does not get on.
                    watchdog.hear();
                    if snapshots.len() < 40 {
                        snapshots.push(snapshot);
                    }
                }
                std::thread::sleep(time / 40);
            }
            stop.store(true, Relaxed);
            let applied: Vec<_> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
            snapshots.push(graph.snapshot(&mut team()).unwrap());
            (applied, snapshots)
        });
        assert!(graph.last_save_error().is_none(), "{:?}", graph.last_save_error());
        applied.sort_by_key(|(number, _)| *number);
        let first = self.made;
        assert!(applied.iter().map(|(number, _)| *number).eq(first + 1..=first + applied.len()), "a number is missing");
        let after = |snapshot: &Snapshot<Image>| (graph.inner.first + snapshot.sequence() - 1) as usize;
        let last = first + applied.len();
        let mut among: Vec<usize> = snapshots.iter().map(after).filter(|at| (first + 1..last).contains(at)).collect();
        among.dedup();
        self.seen += among.len();
        let mut batches = applied.into_iter();
        for snapshot in snapshots {
            for (number, batch) in batches.by_ref().take(after(&snapshot) - self.made) {
                self.model.apply(&batch);
                self.made = number;
            }
            self.model.check(&snapshot).unwrap_or_else(|wrong| panic!("after {} batches: {wrong}", self.made));
            watchdog.hear();
        }
        assert_eq!(self.made, last);
    }

    /// Rounds on one graph, which is open all the time, two at least and until `all` has passed; then it is opened again.
    fn run(mut self, all: Duration, time: Duration, watchdog: &Watchdog) {
        let (graph, begun) = (self.open(), Instant::now());
        let mut rounds = 0;
        while rounds < 2 || begun.elapsed() < all {
            self.round(&graph, time, 1000 + rounds as u64, watchdog);
            rounds += 1;
        }
        let media = graph.media();
        assert!(
            self.seen >= rounds * AMONG_MIN,
            "{media}: {} snapshots in {rounds} rounds while batches came",
            self.seen
        );
        drop(graph);
        let graph = self.open();
        assert_eq!(batches(&graph), self.made);
        self.model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
        println!(
            "{media}: {rounds} rounds, {} batches, {} snapshots while they came, {} saved",
            self.made,
            self.seen,
            graph.inner.first - 1
        );
    }
}

/// On an ordinary disk and on persistent memory, that of this machine's memory where there is some; the time of each, and that of a round.
fn soak(all: Duration, time: Duration) {
    let watchdog = Watchdog::start("soak", Duration::from_secs(60));
    for (on_pmem, shape) in [(false, Shape::UNDIRECTED), (true, Shape::DIRECTED)] {
        let dir = match on_pmem {
            true => tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()),
            false => tempfile::tempdir(),
        };
        let dir = dir.unwrap();
        Soak::new(dir.path(), on_pmem, shape).run(all, time, &watchdog);
    }
}

#[test]
fn snapshots_of_a_kept_graph_are_exact_while_two_write_and_it_saves_itself() {
    soak(Duration::ZERO, Duration::from_millis(200));
}

#[test]
#[ignore = "ten minutes: `make soak`"]
fn soak_a_kept_graph_on_disk_and_on_persistent_memory_for_ten_minutes() {
    // The model takes several times as long as the graph.
    soak(Duration::from_secs(300), Duration::from_secs(1));
}

/// Fails when a watchdog barks at who gets on, or does not hear.
#[test]
fn a_watchdog_lets_those_live_who_get_on() {
    let watchdog = Watchdog::start("a test", Duration::from_secs(2));
    for _ in 0..30 {
        watchdog.hear();
        std::thread::sleep(Duration::from_millis(100));
    }
}
