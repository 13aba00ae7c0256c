//! On persistent memory: what was acknowledged is there after a crash at every fence, nothing else is, and the graph goes on; and a write-back,
//! a fence or a name left unsettled is seen.

use std::time::Duration;

use biombo_base::io::RealIo;
use biombo_base::io::sim::{Campaign, Random};

use super::tests::{batches, check, random_batch, team};
use super::*;
use crate::media::persistent::recorder::{Crash, CrashPoints, Forgotten, Recorder, SUBSETS_OF};
use crate::pma::tests::model::Model;

pub(super) fn options(segment_bytes: u64, checkpoint_bytes: u64) -> DurableOptions {
    let journal = JournalOptions { segment_bytes, ..JournalOptions::default() };
    // Saved where the batch is brought, so that a seed is one history.
    DurableOptions { journal, checkpoint_bytes, saves_aside: false }
}

pub(super) fn open_with(medium: &Recorder, segment_bytes: u64, checkpoint_bytes: u64) -> Result<Durable> {
    let options = options(segment_bytes, checkpoint_bytes);
    Durable::open_on(Arc::new(medium.clone()), Path::new("one"), &options, None, &mut team())
}

pub(super) fn open(medium: &Recorder) -> Result<Durable> {
    open_with(medium, 2048, 1 << 20)
}

/// A graph of some edges between vertices with these ids.
pub(super) fn create(medium: &Recorder, shape: Shape, ids: &Ids, edges: &[crate::Edge]) -> Result<()> {
    let csr = Csr::build(ids.len(), edges, shape, &mut team())?;
    let medium = Arc::new(medium.clone());
    Pmem::create(medium, Path::new("one"), 77, &csr, ids, shape.keeps_loops).map(drop)
}

/// A history: what the graph was after each batch, and which batches were promised from which event on.
struct History {
    states: Vec<Model>,
    created: usize,
    durable: Vec<(usize, usize)>,
    written: Vec<(usize, usize)>,
}

impl History {
    fn promised(&self, cut: usize, is_kill: bool) -> usize {
        let latest = |promises: &[(usize, usize)]| {
            promises.iter().filter(|(at, _)| *at <= cut).map(|(_, batch)| *batch).max().unwrap_or(0)
        };
        latest(&self.durable).max(if is_kill { latest(&self.written) } else { 0 })
    }
}

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
}

/// Batches to come, after which the history knows what the graph is: small ones as a rule.
fn more_batches(history: &mut History, count: u64, random: &mut Random) -> Vec<(Vec<Update>, Durability)> {
    let mut batch = |random: &mut Random| {
        let batch = batch_for([1, 1, 1, 2, 3, 4][random.below(6) as usize], random);
        let durability = [Durability::Sync, Durability::Os][random.below(2) as usize];
        let mut model = history.states[history.states.len() - 1].clone();
        model.apply(&batch);
        history.states.push(model);
        (batch, durability)
    };
    (0..count).map(|_| batch(random)).collect()
}

/// What a history does, by the names that are printed; each must have been cut.
const STEPS: [&str; 12] = [
    "create",
    "insert one edge",
    "insert",
    "delete edges",
    "delete vertices",
    "mixed batch",
    "group",
    "log merge",
    "close and reopen",
    "batches during a save",
    "segment grows",
    "end of history",
];

/// A batch of one kind, and its name.
fn batch_for(step: usize, random: &mut Random) -> Vec<Update> {
    let length = [1, 3, 40, 150][random.below(4) as usize];
    let ids = [8, 30][random.below(2) as usize];
    let id = |random: &mut Random| random.below(ids) << (random.below(8) / 7 * 40);
    let draw = |random: &mut Random, count: u64, of: fn(u64, u64) -> Update| {
        (0..count).map(|_| of(id(random), id(random))).collect()
    };
    match STEPS[step] {
        "insert one edge" => draw(random, 1, Update::InsertEdge),
        "insert" => draw(random, length, Update::InsertEdge),
        "delete edges" => draw(random, length, Update::DeleteEdge),
        "delete vertices" => draw(random, 1 + length % 4, |id, _| Update::DeleteVertex(id)),
        _ => random_batch(random),
    }
}

/// Make a graph and do random things with it; every promise is noted with the event from which on it holds.
fn run(medium: &Recorder, random: &mut Random) -> Result<History> {
    let shape = [Shape::UNDIRECTED, Shape::DIRECTED, Shape::GAP][random.below(3) as usize];
    let mut model = Model::new(shape);
    medium.step(STEPS[0]);
    if random.below(2) == 0 {
        create(medium, shape, &Ids::dense(0), &[])?;
    } else {
        let ids = Ids::ascending(vec![1, 5, 7, 1 << 40]).expect("they ascend");
        create(medium, shape, &ids, &[[0, 1], [1, 3], [2, 1]])?;
        let edges = [(1, 5), (5, 1 << 40), (7, 5)].map(|(a, b)| Update::InsertEdge(a, b));
        model.apply(&[1, 5, 7, 1 << 40].map(Update::InsertVertex));
        model.apply(&edges);
    }
    let created = medium.event_count();
    let mut history = History { states: vec![model], created, durable: Vec::new(), written: Vec::new() };
    let checkpoint_bytes = [200, 3000, 1 << 20][random.below(3) as usize];
    let segment_bytes = [256, 1024, 8192][random.below(3) as usize];
    medium.step("close and reopen");
    let mut graph = open_with(medium, segment_bytes, checkpoint_bytes)?;
    for _ in 0..12 {
        let made = history.states.len() - 1;
        let step = 1 + random.below(10) as usize;
        medium.step(STEPS[step]);
        match STEPS[step] {
            "group" => graph.sync()?,
            "log merge" => graph.checkpoint()?,
            "batches during a save" => {
                let (at, promises) = (medium.clone(), Arc::new(Mutex::new(Vec::new())));
                let (batches, noted) = (more_batches(&mut history, 1 + random.below(4), random), promises.clone());
                *graph.inner.meanwhile.lock().unwrap() = Some(Box::new(move |inner: &Inner<Image>| {
                    for (batch, durability) in batches {
                        let (number, bytes, merged) = inner.bring(&batch, durability).unwrap();
                        merged.unwrap();
                        inner.logged.fetch_add(bytes, Relaxed);
                        noted.lock().unwrap().push((at.event_count(), number as usize, durability));
                    }
                }));
                graph.checkpoint()?;
                history.promise(promises.lock().unwrap().iter().copied());
            }
            "segment grows" => {
                let segments = || medium.names().unwrap().iter().filter(|name| name.starts_with("log-")).count();
                let before = segments();
                for (batch, durability) in more_batches(&mut history, 10, random) {
                    let number = graph.apply(&batch, durability)? as usize;
                    history.promise([(medium.event_count(), number, durability)]);
                    if segments() > before {
                        // Those that are not brought never were.
                        history.states.truncate(number + 1);
                        break;
                    }
                }
                continue;
            }
            "close and reopen" => {
                drop(graph);
                graph = open_with(medium, segment_bytes, checkpoint_bytes)?;
            }
            _ => {
                let batch = batch_for(step, random);
                let durability = [Durability::Sync, Durability::Os][random.below(2) as usize];
                let mut model = history.states[made].clone();
                model.apply(&batch);
                history.states.push(model);
                assert_eq!(graph.apply(&batch, durability)? as usize, made + 1);
                history.promise([(medium.event_count(), made + 1, durability)]);
                continue;
            }
        }
        history.durable.push((medium.event_count(), made));
    }
    medium.step("end of history");
    check(&graph, &history.states[history.states.len() - 1]).expect("the history is right");
    Ok(history)
}

/// What a crash left is a state that it may leave, and goes on from there.
fn check_image(
    points: &CrashPoints,
    crash: Crash,
    image: &Recorder,
    history: &History,
    random: &mut Random,
    campaign: &Campaign,
) -> Result<(), String> {
    let what = format!("cut in {:?} at event {} ({}), {crash:?}", points.step(), points.cut(), points.label());
    let is_there = |image: &Recorder| image.names().expect("a recorder knows").iter().any(|name| name == Pmem::NAME);
    let was_made = points.cut() >= history.created;
    if !is_there(image) && !was_made {
        // Whatever is left of it, it can be made.
        return create(image, Shape::DIRECTED, &Ids::dense(0), &[]).map_err(|e| format!("{what}: {e}"));
    }
    let graph = open(image).map_err(|e| format!("{what}: {e}"))?;
    let found = batches(&graph);
    let promised = history.promised(points.cut(), matches!(crash, Crash::Kill(_)));
    if found < promised {
        return Err(format!("{what}: {promised} batches were promised, {found} are there"));
    }
    let Some(state) = history.states.get(found) else {
        return Err(format!("{what}: {found} batches are there, and never so many were made"));
    };
    check(&graph, state).map_err(|wrong| format!("{what}: {wrong}"))?;
    // It goes on: every time with an edge, now and then with more, through another crash.
    let opened = image.event_count();
    let mut model = state.clone();
    let more = if random.below(4) == 0 { random_batch(random) } else { vec![Update::InsertEdge(3, 1 << 41)] };
    model.apply(&more);
    graph.apply(&more, Durability::Sync).map_err(|e| format!("{what}, then a batch: {e}"))?;
    check(&graph, &model).map_err(|wrong| format!("{what}, then a batch: {wrong}"))?;
    let acknowledged = image.event_count();
    if random.below(6) > 0 {
        return Ok(());
    }
    if random.below(2) == 0 {
        graph.checkpoint().map_err(|e| format!("{what}, then a batch and a checkpoint: {e}"))?;
    }
    drop(graph);
    // Crashes of what was done since, opening among it: until that is done, what a process that died has left may go still.
    let states: Vec<&Model> = history.states[..=found].iter().chain([&model]).collect();
    let durable = history.promised(points.cut(), false);
    let mut points = image.crash_points();
    loop {
        for crash in points.crashes(2, random) {
            let is_end = points.cut() == image.event_count();
            if !is_end && random.below(8) > 0 {
                continue;
            }
            let what = format!("{what}, then a batch and {crash:?} at {} ({})", points.cut(), points.label());
            let image = points.image(crash);
            if !campaign.count_image("a second time", image.image_hash()) {
                continue;
            }
            // The name of a graph that was being made, before anybody settled it.
            if !was_made && points.cut() == 0 && !is_there(&image) {
                continue;
            }
            let graph = open(&image).map_err(|e| format!("{what}: {e}"))?;
            let promised = match points.cut() {
                cut if cut < opened => durable,
                cut if cut < acknowledged => found,
                _ => found + 1,
            };
            let now = batches(&graph);
            if now < promised || now >= states.len() {
                return Err(format!("{what}: {promised} batches were promised, {now} are there"));
            }
            check(&graph, states[now]).map_err(|wrong| format!("{what}: {wrong}"))?;
        }
        if !points.advance() {
            return Ok(());
        }
    }
}

/// All crashes of one history; the first that goes wrong.
fn crash_everywhere(medium: &Recorder, seed: u64, campaign: &Campaign) -> Result<(), String> {
    let mut random = Random(seed);
    let history = run(medium, &mut random).map_err(|e| format!("seed {seed}: {e}"))?;
    let mut points = medium.crash_points();
    loop {
        for crash in points.crashes(9, &mut random) {
            let image = points.image(crash);
            let is_new = campaign.count_image(&points.label(), image.image_hash());
            campaign.count_step(&format!("in {:?}", points.step()));
            if is_new || matches!(crash, Crash::Kill(_)) {
                let checked = check_image(&points, crash, &image, &history, &mut random, campaign);
                checked.map_err(|e| format!("seed {seed}: {e}"))?;
            }
        }
        if !points.advance() || campaign.is_over() {
            return Ok(());
        }
    }
}

/// What a graph does to persistent memory: each must have been cut.
const EVENTS: [&str; 19] = [
    "create image",
    "create log",
    "create log.new",
    "rename log.new -> log",
    "remove log.new",
    "create graph.pmem.new",
    "rename graph.pmem.new -> graph.pmem",
    "store image",
    "store log",
    "store graph.pmem",
    "fence image",
    "fence log",
    "fence graph.pmem",
    "remove image",
    "remove log",
    "settle names",
    "fence graph.pmem.new",
    "a second time",
    "end",
];

#[test]
fn no_acknowledged_edge_is_lost_by_a_crash_at_any_fence() {
    let reached = Campaign::from_env("graph on persistent memory");
    loop {
        reached.run_on_all_processors(|seed| {
            crash_everywhere(&Recorder::new(), seed, &reached).unwrap_or_else(|wrong| panic!("{wrong}"));
        });
        let labels = reached.labels();
        let steps = STEPS.iter().map(|step| format!("in {step:?}"));
        let wanted = steps.chain(EVENTS.map(str::to_owned));
        let missing: Vec<_> = wanted.filter(|step| !labels.contains_key(step)).collect();
        if missing.is_empty() && reached.distinct_images() >= 20_000 {
            break;
        }
        let extended = reached.extend(Duration::from_secs(3));
        assert!(extended < Duration::from_secs(90), "never cut at {missing:?}: {reached}");
    }
    println!("all subsets of up to {SUBSETS_OF} words, or else lines; 9 samples of what is more");
    reached.report();
}

#[test]
fn a_write_back_a_fence_or_a_settling_that_is_missing_is_seen() {
    let regions = ["log-", "image-", "graph.pmem"];
    let of_regions = regions.iter().flat_map(|region| [Forgotten::WriteBack(region), Forgotten::Fence(region)]);
    for forgotten in of_regions.chain([Forgotten::Settle]) {
        let campaign = Campaign::new("mutant", Duration::from_secs(60), 1);
        let seen = std::iter::from_fn(|| campaign.next_seed())
            .find_map(|seed| crash_everywhere(&Recorder::that_misses(forgotten), seed, &campaign).err());
        let seen = seen.unwrap_or_else(|| panic!("{forgotten:?} was not seen: {campaign}"));
        println!("{forgotten:?}: {seen}");
    }
}

#[test]
fn a_single_edge_is_durable_by_one_write_back_and_one_fence() {
    let medium = Recorder::new();
    create(&medium, Shape::DIRECTED, &Ids::dense(4), &[]).unwrap();
    let graph = open(&medium).unwrap();
    for (update, events) in [
        (Update::InsertEdge(0, 1), 3),
        (Update::DeleteEdge(0, 1), 3),
        (Update::InsertEdge(u64::MAX, u64::MAX - 1), 3),
        (Update::InsertEdge(2, 3), 3),
    ] {
        let before = medium.event_count();
        graph.apply(&[update], Durability::Sync).unwrap();
        // The header and the batch, in one line.
        assert_eq!(medium.event_count() - before, events, "{update:?}");
        let before = medium.event_count();
        graph.apply(&[update], Durability::Os).unwrap();
        assert_eq!(medium.event_count() - before, 1, "stored only");
        graph.sync().unwrap();
    }
}

#[test]
fn a_root_that_is_torn_twice_is_no_root() {
    let work = |medium: &Recorder, batches: u64| {
        let graph = open(medium).unwrap();
        (0..batches).for_each(|n| graph.apply(&[Update::InsertEdge(n, 7)], Durability::Sync).map(drop).unwrap());
        let before = medium.event_count();
        graph.checkpoint().unwrap();
        before
    };
    let made = || {
        let medium = Recorder::new();
        create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
        medium
    };
    let other = made();
    work(&other, 1);
    let slot = other.open(Pmem::NAME).unwrap().bytes()[64..128].to_vec();
    let medium = made();
    // A power cut left all of that slot but its generation.
    let mut root = medium.open(Pmem::NAME).unwrap();
    root.store(72, &slot[8..]);
    root.write_back(72, 56);
    root.fence().unwrap();
    let before = work(&medium, 2);
    let (mut points, mut torn) = (medium.crash_points(), 0);
    while points.advance() {
        if points.label() == "store graph.pmem" && points.cut() >= before {
            for seed in 0..64 {
                let graph = open(&points.image(Crash::Kill(seed))).unwrap();
                assert_eq!((graph.neighbors(0), graph.neighbors(1)), (Some(vec![7]), Some(vec![7])), "{seed}");
                torn += 1;
            }
        }
    }
    assert_eq!(torn, 64, "one store of a slot");
}

#[test]
fn a_record_is_what_the_page_of_the_format_shows() {
    let medium = Recorder::new();
    create(&medium, Shape::DIRECTED, &Ids::dense(0), &[]).unwrap();
    open(&medium).unwrap().apply(&[Update::InsertEdge(0, 1)], Durability::Sync).unwrap();
    let log = medium.open("log-0000000000000001").unwrap();
    let page = include_str!("../../../../docs/format/graph-pmem.md");
    let shown = page.lines().find_map(|line| line.strip_prefix("0000  ")).unwrap();
    let hex = shown.split_whitespace().map_while(|byte| u8::from_str_radix(byte, 16).ok());
    assert_eq!(hex.collect::<Vec<_>>(), log.bytes()[..21]);
}

/// Directories of this machine: of an ordinary file system, and of memory where there is one.
fn directories() -> Vec<tempfile::TempDir> {
    let mut dirs = vec![tempfile::tempdir().unwrap()];
    dirs.extend(tempfile::tempdir_in("/dev/shm"));
    dirs
}

#[test]
fn two_writers_leave_in_mapped_memory_what_they_left_in_the_graph() {
    for dir in directories() {
        let (io, dir) = (RealIo::shared(), dir.path().join("graph"));
        let nothing = Csr::build(0, &[], Shape::UNDIRECTED, &mut team()).unwrap();
        Durable::create_on_pmem(&io, &dir, &nothing, &Ids::dense(0), true).unwrap();
        let again = Durable::create_from(&io, &dir, &nothing, &Ids::dense(0), true).unwrap_err();
        assert!(again.to_string().contains("has a graph already"), "{again}");
        for round in 0..3 {
            let open = || Durable::open(io.clone(), &dir, options(16 << 10, 100_000), &mut team()).unwrap();
            let graph = open();
            let Media::Pmem(backing) = graph.media() else { panic!("it is on {}", graph.media()) };
            println!("{}: {backing}", dir.display());
            assert!(backing == Backing::File || matches!(backing, Backing::Memory(_) | Backing::Dax(_)));
            std::thread::scope(|scope| {
                for writer in 0..2 {
                    let graph = &graph;
                    scope.spawn(move || {
                        let mut random = Random(round * 2 + writer);
                        for n in 0..100 {
                            let durability = if n % 5 == 0 { Durability::Sync } else { Durability::Os };
                            let batch = (0..100).map(|_| Update::InsertEdge(random.below(300), random.below(300)));
                            graph.apply(&batch.collect::<Vec<_>>(), durability).unwrap();
                            graph.apply(&random_batch(&mut random), durability).unwrap();
                        }
                    });
                }
            });
            let told = |graph: &Durable| {
                let snapshot = graph.snapshot(&mut team()).unwrap();
                snapshot.verify().unwrap();
                let ids = 0..snapshot.vertices() as u32;
                let list = |v: u32| snapshot.out_neighbors(v).iter().map(|to| snapshot.id(*to)).collect::<Vec<_>>();
                ids.map(|v| (snapshot.id(v), list(v))).collect::<Vec<_>>()
            };
            let before = told(&graph);
            drop(graph);
            assert!(told(&open()) == before, "round {round}: the log says otherwise");
        }
    }
}
