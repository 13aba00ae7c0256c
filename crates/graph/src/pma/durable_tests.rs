//! What was acknowledged is there after any reopening, kill and power cut, at every step of writing, saving and trimming; nothing else is.

use std::collections::BTreeSet;
use std::time::Duration;

use biombo_base::io::sim::{Campaign, Crash, CrashPoints, Fault, FaultKind, Random, SimIo};
use biombo_journal::{Journal, Mode, Modes};
use proptest::prelude::*;

use super::*;
use crate::pma::tests::model::Model;
use crate::pma::tests::update;
use crate::{adjacency, buffered};

pub(super) const DIR: &str = "graphs/one";

pub(super) fn team() -> Team {
    Team::new(1).unwrap()
}

pub(super) fn options(modes: Modes, checkpoint_bytes: u64) -> DurableOptions {
    // With direct writes, batches are durable though nobody asked for it; with others they are not.
    let journal = JournalOptions { segment_bytes: 8192, modes, unsynced_segments_max: 2, ..JournalOptions::default() };
    DurableOptions { journal, checkpoint_bytes, saves_aside: false }
}

pub(super) fn create(io: &SimIo, shape: Shape) -> Result<()> {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    Durable::create(&io, Path::new(DIR), shape)
}

pub(super) const MODES: [Modes; 3] = [Modes::Always(Mode::Direct), Modes::Always(Mode::Buffered), Modes::ByDurability];

fn open_with(io: &SimIo, modes: Modes, checkpoint_bytes: u64) -> Result<Durable> {
    Durable::open(Arc::new(io.clone()), Path::new(DIR), options(modes, checkpoint_bytes), &mut team())
}

pub(super) fn open(io: &SimIo, checkpoint_bytes: u64) -> Result<Durable> {
    open_with(io, MODES[0], checkpoint_bytes)
}

/// How many batches it has: what the models are counted by.
pub(super) fn batches(graph: &Durable) -> usize {
    (graph.inner.first + graph.snapshot(&mut team()).unwrap().sequence() - 1) as usize
}

pub(super) fn check(graph: &Durable, model: &Model) -> Result<(), String> {
    model.check(&graph.snapshot(&mut team()).unwrap())
}

/// A history: what the graph was after each batch, and which batches were promised from which event on.
struct History {
    shape: Shape,
    states: Vec<Model>,
    created: usize,
    durable: Vec<(usize, usize)>,
    written: Vec<(usize, usize)>,
    /// What it was at, from which event on.
    steps: Vec<(usize, &'static str)>,
}

/// What a history does beside single batches; each must have been cut.
const DOES: [&str; 4] = ["close and reopen", "a checkpoint", "batches during a save", "a segment grows"];

impl History {
    /// What was promised, as durably as was asked: events, batches.
    fn promise(&mut self, promises: impl IntoIterator<Item = (usize, usize, Durability)>) {
        for (at, batch, durability) in promises {
            self.written.push((at, batch));
            if durability == Durability::Sync {
                self.durable.push((at, batch));
            }
        }
    }

    /// A batch to come, after which it knows what the graph is.
    fn more(&mut self, random: &mut Random) -> (Vec<Update>, Durability) {
        let (batch, durability) = (random_batch(random), [Durability::Sync, Durability::Os][random.below(2) as usize]);
        let mut model = self.states[self.states.len() - 1].clone();
        model.apply(&batch);
        self.states.push(model);
        (batch, durability)
    }

    /// What it was at where it was cut.
    fn step(&self, cut: usize) -> &'static str {
        let before = self.steps.iter().rev().find(|(from, _)| *from <= cut);
        before.map_or("create", |(_, step)| *step)
    }

    fn promised(&self, cut: usize, is_kill: bool) -> usize {
        let latest = |promises: &[(usize, usize)]| {
            promises.iter().filter(|(at, _)| *at <= cut).map(|(_, batch)| *batch).max().unwrap_or(0)
        };
        latest(&self.durable).max(if is_kill { latest(&self.written) } else { 0 })
    }
}

pub(super) fn random_batch(random: &mut Random) -> Vec<Update> {
    let length = [0, 1, 1, 5, 60, 400][random.below(6) as usize];
    let ids = [6, 60][random.below(2) as usize];
    let id = |random: &mut Random| random.below(ids) << (random.below(8) / 7 * 40);
    (0..length)
        .map(|_| {
            let (a, b) = (id(random), id(random));
            match random.below(20) {
                0 => Update::DeleteVertex(a),
                1 => Update::InsertVertex(a),
                2..8 => Update::DeleteEdge(a, b),
                _ => Update::InsertEdge(a, b),
            }
        })
        .collect()
}

/// Make a graph and do random things with it; every promise is noted with the event from which on it holds.
fn run(io: &SimIo, random: &mut Random) -> History {
    let shape = [Shape::UNDIRECTED, Shape::DIRECTED, Shape::GAP][random.below(3) as usize];
    create(io, shape).unwrap();
    let mut history = History {
        shape,
        states: vec![Model::new(shape)],
        created: io.event_count(),
        durable: Vec::new(),
        written: Vec::new(),
        steps: Vec::new(),
    };
    let checkpoint_bytes = [200, 3000, 1 << 20][random.below(3) as usize];
    let modes = MODES[random.below(3) as usize];
    let mut graph = open_with(io, modes, checkpoint_bytes).unwrap();
    for _ in 0..14 {
        let made = history.states.len() - 1;
        let drawn = random.below(14) as usize;
        history.steps.push((io.event_count(), DOES.get(drawn).copied().unwrap_or("a batch")));
        match drawn {
            0 => {
                drop(graph);
                graph = open_with(io, modes, checkpoint_bytes).unwrap();
                // Opening makes durable what it replays.
                history.durable.push((io.event_count(), made));
            }
            1 => {
                graph.checkpoint().unwrap();
                history.durable.push((io.event_count(), made));
            }
            2 => {
                let (at, promises) = (io.clone(), Arc::new(Mutex::new(Vec::new())));
                let (noted, count) = (promises.clone(), 1 + random.below(3));
                let batches: Vec<_> = (0..count).map(|_| history.more(random)).collect();
                *graph.inner.meanwhile.lock().unwrap() = Some(Box::new(move |inner: &Inner<Image>| {
                    for (batch, durability) in batches {
                        let (number, bytes, merged) = inner.bring(&batch, durability).unwrap();
                        merged.unwrap();
                        inner.logged.fetch_add(bytes, Relaxed);
                        noted.lock().unwrap().push((at.event_count(), number as usize, durability));
                    }
                }));
                graph.checkpoint().unwrap();
                history.promise(promises.lock().unwrap().iter().copied());
                history.durable.push((io.event_count(), made));
            }
            3 => {
                // As long as half a segment, twice.
                for from in [0, 600] {
                    let batch: Vec<Update> = (0..600).map(|n| Update::InsertEdge(n % 7, from + n)).collect();
                    let mut model = history.states[history.states.len() - 1].clone();
                    model.apply(&batch);
                    history.states.push(model);
                    let number = graph.apply(&batch, Durability::Os).unwrap() as usize;
                    history.promise([(io.event_count(), number, Durability::Os)]);
                }
            }
            4 => {
                graph.sync().unwrap();
                history.durable.push((io.event_count(), made));
            }
            _ => {
                let (batch, durability) = history.more(random);
                assert_eq!(graph.apply(&batch, durability).unwrap() as usize, made + 1);
                history.promise([(io.event_count(), made + 1, durability)]);
            }
        }
    }
    check(&graph, history.states.last().unwrap()).unwrap();
    history
}

/// What a crash left is a state that it may leave, and goes on from there.
fn check_image(points: &CrashPoints, crash: Crash, image: &SimIo, history: &History, random: &mut Random) {
    let what = format!("cut at event {} ({}), {crash:?}", points.cut(), points.label());
    let graph = match open(image, 1 << 20) {
        Err(error) if error.kind() == ErrorKind::NotFound && points.cut() < history.created => {
            // Whatever is left of it, it can be made.
            create(image, history.shape).unwrap_or_else(|e| panic!("{what}: {e}"));
            return;
        }
        other => other.unwrap_or_else(|e| panic!("{what}: {e}")),
    };
    let found = batches(&graph);
    let promised = history.promised(points.cut(), crash == Crash::Kill);
    assert!(found >= promised, "{what}: {promised} batches were promised, {found} are there");
    assert!(found < history.states.len(), "{what}: {found} batches are there, and never so many were made");
    check(&graph, &history.states[found]).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    if random.below(6) == 0 {
        let batch = random_batch(random);
        let mut model = history.states[found].clone();
        model.apply(&batch);
        graph.apply(&batch, Durability::Sync).unwrap_or_else(|e| panic!("{what}, then a batch: {e}"));
        if random.below(2) == 0 {
            graph.checkpoint().unwrap();
        }
        let again = image.crash(image.event_count(), Crash::Nothing);
        let graph = open(&again, 1 << 20).unwrap_or_else(|e| panic!("{what}, then a batch and another crash: {e}"));
        check(&graph, &model).unwrap_or_else(|wrong| panic!("{what}, then a batch and another crash: {wrong}"));
    }
}

/// What a graph does to its disk: each must have been cut. The journal's own steps are cut in its own campaign too.
const STEPS: [&str; 11] = [
    "create graph.pma.new",
    "set_len graph.pma.new",
    "write graph.pma.new",
    "sync graph.pma.new",
    "rename graph.pma.new -> graph.pma",
    "sync_dir one",
    "write #.seg",
    "sync_dir journal",
    "rename #.seg -> #.free",
    "rename #.free -> #.seg",
    "end",
];

/// Different images that must have been looked at, whatever the time: it is made longer until they have been.
const IMAGES_MIN: usize = 20_000;

/// A history, cut at every event, with everything that a kill and a power cut may leave.
fn crash_everywhere(seed: u64, reached: &Campaign) {
    let io = SimIo::new(seed);
    let mut random = Random(seed);
    let history = run(&io, &mut random);
    let mut points = io.crash_points();
    loop {
        let randoms = (0..4).map(|_| Crash::Random(random.next())).collect::<Vec<_>>();
        for crash in [Crash::Kill, Crash::Nothing, Crash::Everything].into_iter().chain(randoms) {
            let image = points.image(crash);
            let is_new = reached.count(points.label(), &image);
            reached.count_step(history.step(points.cut()));
            if is_new || crash == Crash::Kill {
                check_image(&points, crash, &image, &history, &mut random);
            }
        }
        if !points.advance() || reached.is_over() {
            return;
        }
    }
}

#[test]
fn no_acknowledged_batch_is_lost_or_halved_by_a_crash_at_any_event() {
    let reached = Campaign::from_env("graph");
    loop {
        reached.run_on_all_processors(|seed| crash_everywhere(seed, &reached));
        let labels = reached.labels();
        let missing: Vec<_> = STEPS.iter().chain(&DOES).filter(|step| !labels.contains_key(**step)).collect();
        if missing.is_empty() && reached.distinct_images() >= IMAGES_MIN {
            break;
        }
        let extended = reached.extend(Duration::from_secs(3));
        assert!(extended < Duration::from_secs(90), "never cut at {missing:?}: {reached}");
    }
    reached.report();
}

#[test]
fn a_full_or_failing_disk_loses_nothing_acknowledged() {
    let clean = SimIo::new(3);
    let batch = |n: u64| (0..50).map(|m| Update::InsertEdge(n, n * 50 + m)).collect::<Vec<_>>();
    let work = |io: &SimIo| -> (usize, Result<()>) {
        let mut acknowledged = 0;
        let mut work = || -> Result<()> {
            let graph = open(io, 1500)?;
            for n in 1..8 {
                graph.apply(&batch(n), Durability::Sync)?;
                acknowledged += 1;
            }
            graph.checkpoint()
        };
        let outcome = work();
        (acknowledged, outcome)
    };
    create(&clean, Shape::DIRECTED).unwrap();
    let first = clean.event_count();
    work(&clean).1.unwrap();
    let mut kinds = BTreeSet::new();
    for event in first..clean.event_count() {
        for kind in [FaultKind::Enospc, FaultKind::Eio, FaultKind::Short(100)] {
            let io = SimIo::new(3);
            create(&io, Shape::DIRECTED).unwrap();
            io.inject(Fault::at(event, kind));
            let (acknowledged, outcome) = work(&io);
            if let Err(error) = outcome {
                kinds.insert(format!("{:?}", error.kind()));
            }
            io.clear_faults();
            for io in [io.clone(), io.crash(io.event_count(), Crash::Nothing)] {
                let what = format!("{} refused with {kind:?}", clean.labels()[event]);
                let graph = open(&io, 1 << 20).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = batches(&graph);
                assert!(found >= acknowledged, "{what}: {acknowledged} batches were acknowledged, {found} are there");
                let mut model = Model::new(Shape::DIRECTED);
                (1..=found as u64).for_each(|n| model.apply(&batch(n)));
                check(&graph, &model).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
                graph.apply(&batch(9), Durability::Sync).unwrap_or_else(|e| panic!("{what}: {e}"));
                drop(graph);
            }
        }
    }
    assert!(kinds.contains("Io") && kinds.contains("Full"), "{kinds:?}");
}

#[test]
fn two_writers_leave_in_the_journal_what_they_left_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let io = biombo_base::io::RealIo::shared();
    Durable::create(&io, dir.path(), Shape::UNDIRECTED).unwrap();
    for round in 0..4 {
        let graph =
            Durable::open(io.clone(), dir.path(), options(MODES[round as usize % 3], 200_000), &mut team()).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let graph = &graph;
                scope.spawn(move || {
                    let mut random = Random(round * 2 + writer);
                    for n in 0..150 {
                        let durability = if n % 10 == 0 { Durability::Sync } else { Durability::Os };
                        // So many ends that both name the same edge now and then, and it is seldom named again.
                        let batch = (0..200).map(|_| {
                            let (a, b) = (random.below(400), random.below(400));
                            if random.below(2) == 0 { Update::DeleteEdge(a, b) } else { Update::InsertEdge(a, b) }
                        });
                        graph.apply(&batch.collect::<Vec<_>>(), durability).unwrap();
                        graph.apply(&random_batch(&mut random), durability).unwrap();
                    }
                });
            }
        });
        let told = |graph: &Durable| {
            let snapshot = graph.snapshot(&mut team()).unwrap();
            snapshot.verify().unwrap();
            let name = |v: u32| snapshot.id(v).unwrap();
            let list = |v: u32| snapshot.out_neighbors(v).iter().map(|to| name(*to)).collect::<BTreeSet<_>>();
            (0..snapshot.vertices() as u32).map(|v| (name(v), list(v))).collect::<std::collections::BTreeMap<_, _>>()
        };
        let before = told(&graph);
        drop(graph);
        let graph =
            Durable::open(io.clone(), dir.path(), options(MODES[round as usize % 3], 200_000), &mut team()).unwrap();
        assert!(told(&graph) == before, "round {round}: the journal says otherwise");
    }
}

#[test]
fn a_kept_graph_opens_in_every_layout_and_goes_on_in_it() {
    for (seed, shape) in [(1, Shape::DIRECTED), (2, Shape::UNDIRECTED), (3, Shape::GAP)] {
        let (io, mut model, mut random) = (SimIo::new(seed), Model::new(shape), Random(seed));
        create(&io, shape).unwrap();
        for _ in 0..3 {
            goes_on::<Image>(&io, &mut model, &mut random);
            goes_on::<adjacency::Section>(&io, &mut model, &mut random);
            goes_on::<buffered::Section>(&io, &mut model, &mut random);
        }
        check(&open(&io, 1 << 20).unwrap(), &model).unwrap();
    }
}

/// Opened, changed, saved now and then, and closed.
fn goes_on<L: Layout>(io: &SimIo, model: &mut Model, random: &mut Random) {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let graph = DurableChanging::<L>::open(io, Path::new(DIR), options(MODES[0], 3000), &mut team()).unwrap();
    model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
    for _ in 0..12 {
        let batch = random_batch(random);
        graph.apply(&batch, Durability::Os).unwrap();
        model.apply(&batch);
    }
    if random.below(2) == 0 {
        graph.checkpoint().unwrap();
    }
    model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
}

#[test]
fn one_has_the_directory_and_others_hear_who() {
    let io = SimIo::new(1);
    assert_eq!(open(&io, 1).err().unwrap().kind(), ErrorKind::NotFound);
    create(&io, Shape::DIRECTED).unwrap();
    let again = create(&io, Shape::DIRECTED).unwrap_err();
    assert!(again.to_string().contains("has a graph already"), "{again}");
    let graph = open(&io, 1).unwrap();
    let busy = open(&io, 1).err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert!(busy.to_string().contains(&format!("process {}", std::process::id())), "{busy}");
    assert_eq!(create(&io, Shape::DIRECTED).unwrap_err().kind(), ErrorKind::Busy);
    drop(graph);
    open(&io, 1).unwrap();
}

#[test]
fn a_journal_that_lacks_batches_is_damage_and_not_a_shorter_history() {
    let io = SimIo::new(1);
    create(&io, Shape::DIRECTED).unwrap();
    let graph = open(&io, 1 << 20).unwrap();
    graph.apply(&[Update::InsertEdge(1, 2)], Durability::Sync).unwrap();
    graph.checkpoint().unwrap();
    drop(graph);
    let journal = Disk::journal(Path::new(DIR));
    for makes_another in [false, true] {
        io.remove_dir_all(&journal).unwrap();
        if makes_another {
            Journal::open(Arc::new(io.clone()), &journal, JournalOptions::default(), &mut |_, _| Ok(())).unwrap();
        }
        let error = open(&io, 1 << 20).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("journal"), "{error}");
    }
}

/// Fails when a loop goes because its vertex gets another number, while records come in or while they are replayed.
#[test]
fn a_loop_that_a_graph_began_with_is_there_after_reopening() {
    for (is_directed, saves) in [(false, false), (true, false), (false, true)] {
        let io = SimIo::new(1);
        let shape = Shape { is_directed, keeps_loops: true };
        let csr = Csr::build(3, &[[2, 2], [0, 1]], shape, &mut team()).unwrap();
        let shared: Arc<dyn Io> = Arc::new(io.clone());
        Durable::create_from(&shared, Path::new(DIR), &csr, &Ids::dense(3), false).unwrap();
        let graph = open(&io, 1 << 20).unwrap();
        graph.apply(&[Update::DeleteVertex(0), Update::InsertEdge(1, 1)], Durability::Sync).unwrap();
        if saves {
            graph.checkpoint().unwrap();
        }
        for graph in [graph, open(&io.crash(io.event_count(), Crash::Nothing), 1 << 20).unwrap()] {
            assert_eq!((graph.neighbors(2), graph.neighbors(1)), (Some(vec![2]), Some(vec![])), "saved: {saves}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_is_the_same_after_reopening(
        batches in proptest::collection::vec((proptest::collection::vec(update(), 0..80), 0..4u8), 1..20),
        is_directed in any::<bool>(),
        keeps_loops in any::<bool>(),
        checkpoint_bytes in 1..4000u64,
    ) {
        let (io, shape) = (SimIo::new(1), Shape { is_directed, keeps_loops });
        create(&io, shape).unwrap();
        let (mut graph, mut model) = (open(&io, checkpoint_bytes).unwrap(), Model::new(shape));
        for (batch, then) in batches {
            graph.apply(&batch, Durability::Os).unwrap();
            model.apply(&batch);
            match then {
                0 => graph.checkpoint().unwrap(),
                1 => {
                    drop(graph);
                    graph = open(&io, checkpoint_bytes).unwrap();
                }
                _ => {}
            }
            prop_assert_eq!(graph.shape(), shape);
            check(&graph, &model).map_err(TestCaseError::fail)?;
        }
    }
}
