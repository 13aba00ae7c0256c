//! All planners on graphs of accesses that the tracker's window recorded of the laboratory's workloads: the share of the edges that is cut, the
//! balance, the time.
//!
//! `cargo bench -p biombo-lab --features metis --bench access_graphs` prints a table for each workload. Operations come at 200,000 a second for ten
//! seconds of the window's time, without a store; rates and bounds are those of a store that repartitions itself. Where several keys are touched
//! together a vertex is a key, tied to those that it was seen with; where ranges are read or single keys, a vertex is a unit: one of 4,096 slots of
//! a hash, or of 1,024 ranges of as many records. Recorded requests are those of a virtual disk (CloudPhysics), `kv/cloudphysics-io.csv.zst` in the
//! folder that BIOMBO_DATA names (else `../shared/data`); without it or `zstdcat`, that is said. BIOMBO_ACCESS_GRAPHS names a folder into which each graph is
//! written: a line `v NUMBER LOAD` for each vertex, `e A B WEIGHT` for each edge. Under `cargo test --benches`, a hundredth of the operations.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use biombo_lab::workload::shift::{Common, Whereabouts};
use biombo_lab::workload::{Inserts, KeyFormat, Keys, OpKind, Shift, ShiftKind, ShiftStream, Stream, Workload};
use biombo_planner::{AccessGraph, GraphBuilder, Objective, Part, Request, planners};
use biombo_tracker::{Limits, Load, Rates, Tracker, Window};

/// What a store that repartitions itself looks at, and keeps.
const RATES: Rates = Rates { singles: 64, groups: 2, ring_bytes: 128 << 10, thinned_max: 256 };
const HALF_LIFE_NS: u64 = 3_000_000_000;
const KEYS_MAX: usize = 1 << 16;
/// Samples of a pair that count, by the weight of one.
const SEEN_MIN: f64 = 1.4;
/// Weights of the window in a graph's whole numbers.
const SCALE: f64 = 16.0;

const RECORDS: u64 = 100_000;
const OPERATION_NS: u64 = 5_000;
const SLOTS: u64 = 4_096;
const RANGES: u64 = 1_024;
const PARTS: [u32; 2] = [8, 64];

/// Every record is in one place: the adversary is not among these workloads.
struct OnePlace;

impl Whereabouts for OnePlace {
    fn partitions(&self) -> u32 {
        1
    }

    fn partition_of(&self, _record: u64) -> u32 {
        0
    }
}

/// What a vertex is.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Keys,
    Units,
}

/// Where a key is.
type UnitOf = Box<dyn Fn(&[u8]) -> u32>;

/// The tracker and its window, and the time.
struct Watch {
    tracker: Tracker,
    window: Window,
    now_ns: u64,
    unit_of: UnitOf,
}

impl Watch {
    fn new(unit_of: impl Fn(&[u8]) -> u32 + 'static) -> Self {
        let limits = Limits { half_life_ns: HALF_LIFE_NS, keys_max: KEYS_MAX, ..Limits::default() };
        Self { tracker: Tracker::new(RATES), window: Window::new(limits), now_ns: 0, unit_of: Box::new(unit_of) }
    }

    /// An operation is done: now and then, as the store does, the window takes the samples in.
    fn tick(&mut self) {
        self.now_ns += OPERATION_NS;
        if self.now_ns.is_multiple_of(200 * OPERATION_NS) {
            self.take_in();
        }
    }

    fn take_in(&mut self) {
        self.window.advance(self.now_ns);
        let (window, unit_of) = (&mut self.window, &self.unit_of);
        let drained = self.tracker.drain(|sample| window.note(sample, unit_of));
        assert_eq!(drained.lost, 0, "the ring holds what two hundred operations give");
    }

    fn graph(mut self, level: Level) -> AccessGraph {
        self.take_in();
        let whole = |figure: f64| ((figure * SCALE).round() as u64).max(1);
        let load = |load: Load| whole(load.writes + load.reads / 8.0);
        let least = SEEN_MIN * f64::from(RATES.groups);
        let mut builder = GraphBuilder::new();
        let mut vertices = HashMap::new();
        match level {
            Level::Keys => {
                let pairs: Vec<_> = self.window.pairs().filter(|pair| pair.weight >= least).collect();
                let mut views: Vec<_> = self.window.keys().collect();
                // In the order of the keys, which `range` goes by.
                views.sort_by_key(|view| view.key);
                let tied: std::collections::HashSet<u32> = pairs.iter().flat_map(|pair| [pair.a, pair.b]).collect();
                for view in views.iter().filter(|view| tied.contains(&view.number)) {
                    vertices.insert(view.number, builder.vertex(load(view.load), 1_000, Part(0)).expect("room"));
                }
                for pair in pairs {
                    builder.edge(vertices[&pair.a], vertices[&pair.b], whole(pair.weight)).expect("room");
                }
            }
            Level::Units => {
                let mut units: Vec<_> = self.window.units().collect();
                units.sort_by_key(|(unit, _)| *unit);
                for (unit, accesses) in units {
                    vertices.insert(unit, builder.vertex(load(accesses), 100_000, Part(0)).expect("room"));
                }
                for ((a, b), weight) in self.window.unit_pairs().filter(|(_, weight)| *weight >= least) {
                    builder.edge(vertices[&a], vertices[&b], whole(weight)).expect("room");
                }
            }
        }
        builder.build()
    }
}

/// The slot of a key, by a hash.
fn slot(key: &[u8]) -> u32 {
    let hash =
        key.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    ((hash ^ (hash >> 29)) % SLOTS) as u32
}

/// The range of a key among even ones of all `keys`: found by their order.
fn ranges_of(mut keys: Vec<Vec<u8>>) -> impl Fn(&[u8]) -> u32 + 'static {
    keys.sort();
    keys.dedup();
    let step = keys.len().div_ceil(RANGES as usize).max(1);
    let firsts: Vec<Vec<u8>> = keys.into_iter().step_by(step).collect();
    move |key| firsts.partition_point(|first| first.as_slice() <= key).saturating_sub(1) as u32
}

fn all_keys(keys: &Keys, records: u64) -> Vec<Vec<u8>> {
    let of = |number| {
        let mut key = Vec::new();
        keys.write(number, &mut key);
        key
    };
    (0..records).map(of).collect()
}

/// YCSB's A or E; scans go over the keys in their order.
fn core(workload: Workload, operations: u64) -> AccessGraph {
    let is_scan = workload == Workload::E;
    let inserts = Inserts::new(RECORDS);
    let expected = (workload.share(OpKind::Insert) * operations as f64 * 1.1) as u64;
    let keys = Keys::with_room(KeyFormat::Hashed, 16, RECORDS, expected + 1_000).expect("keys");
    let mut ordered = all_keys(&keys, RECORDS);
    let mut watch = if is_scan { Watch::new(ranges_of(ordered.clone())) } else { Watch::new(slot) };
    ordered.sort();
    let mut stream = Stream::new(workload.mix(), workload.distribution(), RECORDS, expected, 1, 0);
    let mut key = Vec::new();
    for _ in 0..operations {
        let operation = stream.next(&inserts);
        let is_insert = operation.kind == OpKind::Insert;
        let number = if is_insert { inserts.begin() } else { stream.resolve(operation, &inserts, watch.now_ns) };
        keys.write(number, &mut key);
        match operation.kind {
            OpKind::Read => watch.tracker.read(&key),
            OpKind::Scan => {
                let first = ordered.partition_point(|other| *other < key);
                let last = (first + operation.scan_records as usize - 1).min(ordered.len() - 1);
                watch.tracker.read_span(&key, ordered[last].as_slice().max(&key));
            }
            _ => watch.tracker.write(&key),
        }
        if is_insert {
            inserts.acknowledge(number);
        }
        watch.tick();
    }
    watch.graph(Level::Units)
}

/// A shifting workload: groups that are read and written together, or hot records that jump.
fn shifting(kind: ShiftKind, operations: u64) -> AccessGraph {
    let shift = Shift::from(kind);
    let keys = Keys::new(shift.key_format(), 16, RECORDS).expect("keys");
    let common = Common::new(&shift, 1, RECORDS, &keys, &OnePlace);
    let inserts = Inserts::new(RECORDS);
    let mut stream = ShiftStream::new(&shift, &common, RECORDS, 1, 0);
    let mut watch = Watch::new(slot);
    let mut key = Vec::new();
    for _ in 0..operations {
        let operation = stream.next(watch.now_ns, &inserts, &OnePlace);
        let group: Vec<Vec<u8>> = stream
            .members(operation)
            .map(|number| {
                let mut key = Vec::new();
                keys.write(number, &mut key);
                key
            })
            .collect();
        keys.write(operation.number, &mut key);
        match operation.kind {
            OpKind::MultiGet => watch.tracker.read_group(group.len(), || group.iter().map(Vec::as_slice)),
            OpKind::Batch => watch.tracker.write_group(group.len(), || group.iter().map(Vec::as_slice)),
            OpKind::Read => watch.tracker.read(&key),
            _ => watch.tracker.write(&key),
        }
        watch.tick();
    }
    watch.graph(if kind == ShiftKind::Groups { Level::Keys } else { Level::Units })
}

/// The requests of a virtual disk: the first block and how many, under ranges of blocks. `None` where there is no file, or nobody unpacks it.
fn recorded(operations: u64) -> Option<AccessGraph> {
    let folder = std::env::var_os("BIOMBO_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let unpacked = Command::new("zstdcat").arg(folder.join("kv/cloudphysics-io.csv.zst")).output().ok()?;
    let text = String::from_utf8(unpacked.stdout).ok().filter(|text| text.lines().count() > 1)?;
    // version, time, SCSI's operation, bytes, first block
    let requests: Vec<(bool, u64, u64)> = text
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split(',').skip(2);
            let (what, bytes, first) =
                (fields.next()?, fields.next()?.parse::<u64>().ok()?, fields.next()?.parse().ok()?);
            let is_read = matches!(what, "28" | "88");
            (is_read || matches!(what, "2a" | "8a")).then_some((is_read, first, bytes.div_ceil(512).max(1)))
        })
        .take(operations as usize)
        .collect();
    let key = |block: u64| block.to_be_bytes();
    let blocks = requests.iter().flat_map(|(_, first, count)| [*first, first + count - 1]);
    let mut watch = Watch::new(ranges_of(blocks.map(|block| key(block).to_vec()).collect()));
    for (is_read, first, count) in requests {
        let (first, last) = (key(first), key(first + count - 1));
        match (is_read, first == last) {
            (true, true) => watch.tracker.read(&first),
            (true, false) => watch.tracker.read_span(&first, &last),
            (false, true) => watch.tracker.write(&first),
            (false, false) => watch.tracker.write_group(2, || [&first[..], &last[..]]),
        }
        watch.tick();
    }
    Some(watch.graph(Level::Units))
}

/// One table.
fn compare(name: &str, graph: &AccessGraph) {
    println!("\n**{name}: {} units, {} edges**\n", graph.len(), graph.edge_count());
    print!("| planner |");
    PARTS.iter().for_each(|parts| print!(" {parts} parts: cut % | balance | ms |"));
    print!("\n|---|");
    PARTS.iter().for_each(|_| print!("---|---|---|"));
    println!();
    for planner in planners() {
        print!("| `{}` |", planner.name());
        for parts in PARTS {
            let request = Request::new(parts).expect("parts").seed(1);
            let begin = Instant::now();
            let plan = planner.plan(graph, &request).expect("a plan");
            let took_ms = begin.elapsed().as_secs_f64() * 1e3;
            let found = Objective::new(parts).and_then(|objective| objective.assess(graph, &plan)).expect("it fits");
            let cut =
                if graph.edge_count() == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * found.cut_share()) };
            print!(" {cut} | {:.2} | {took_ms:.0} |", found.part_balance);
        }
        println!();
    }
    if let Some(dir) = std::env::var_os("BIOMBO_ACCESS_GRAPHS") {
        let path = PathBuf::from(dir).join(name.replace([' ', ','], "-")).with_extension("txt");
        dump(&path, graph).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    }
}

fn dump(path: &std::path::Path, graph: &AccessGraph) -> std::io::Result<()> {
    let mut out = Vec::new();
    for vertex in graph.vertices() {
        writeln!(out, "v {} {}", vertex.index(), graph.load(vertex))?;
    }
    for vertex in graph.vertices() {
        for (other, weight) in graph.neighbours(vertex).filter(|(other, _)| vertex.index() < other.index()) {
            writeln!(out, "e {} {} {weight}", vertex.index(), other.index())?;
        }
    }
    std::fs::write(path, out)
}

fn main() {
    let small = !std::env::args().any(|arg| arg == "--bench");
    let operations = if small { 20_000 } else { 2_000_000 };
    let groups = shifting(ShiftKind::Groups, operations);
    assert!(groups.edge_count() > 0, "groups are tied");
    compare("groups, keys", &groups);
    compare("a, slots", &core(Workload::A, operations));
    let scans = core(Workload::E, operations);
    assert!(scans.edge_count() > 0, "scans go over neighbouring ranges");
    compare("e, ranges", &scans);
    compare("jump, slots", &shifting(ShiftKind::Jump, operations));
    match recorded(operations) {
        Some(graph) => compare("virtual disk, ranges", &graph),
        None => println!(
            "\nskipped: the requests of a virtual disk: they need zstdcat and kv/cloudphysics-io.csv.zst in BIOMBO_DATA"
        ),
    }
}
