//! The index beside other ordered maps and a hash map: the same keys, one run, one table for each kind of keys.
//!
//! Small by default, so that it also runs in tests; `BIOMBO_INDEX_KEYS=1000000 cargo bench --bench index` measures. Each
//! figure is the median of three rounds in which the structures take turns. A look-up is one that knows the right key from a
//! wrong one: the index compares the key in a log of 1 KB records, the others hold the keys. `BIOMBO_INDEX_ONLY` names the
//! only structure to run.

mod counting;
mod keys;
mod subjects;

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use artmap::ArtMap;
use biombo_log::index::Index;
use crossbeam_skiplist::SkipMap;

use counting::{ALLOCATED_BYTES, Counting};
use keys::{paths, random, shuffle};
use subjects::{Holding, Log, Subject};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Row {
    figures: [Vec<f64>; 8],
}

/// Measures one structure with keys, asked for in an order.
type Measure = fn(&Log, &[Vec<u8>], &[u32], &mut Row);

/// All that are compared.
const SUBJECTS: [(&str, Measure); 5] = [
    of::<Index>(),
    of::<Holding<ArtMap<Vec<u8>, u64>>>(),
    of::<Holding<RwLock<BTreeMap<Vec<u8>, u64>>>>(),
    of::<Holding<SkipMap<Vec<u8>, u64>>>(),
    of::<Holding<RwLock<hashbrown::HashMap<Vec<u8>, u64>>>>(),
];

const fn of<S: Subject>() -> (&'static str, Measure) {
    (S::NAME, measure::<S>)
}

const HEADINGS: [&str; 8] =
    ["insert", "get", "get x8", "get + writer", "get, 2 readers", "scan", "bytes/key", "walk alone"];

/// Million a second.
fn rate(n: usize, work: impl FnOnce() -> usize) -> f64 {
    let begin = Instant::now();
    assert_eq!(work(), n, "the structure lost keys");
    n as f64 / begin.elapsed().as_secs_f64() / 1e6
}

fn measure<S: Subject>(log: &Log, keys: &[Vec<u8>], order: &[u32], row: &mut Row) {
    // The last tenth comes and goes under the readers.
    let n = keys.len() / 10 * 9;
    let before = ALLOCATED_BYTES.load(Ordering::Relaxed);
    let mut subject = S::new(keys);
    let mut add = |at: usize, figure: f64| row.figures[at].push(figure);
    add(
        0,
        rate(n, || {
            subject.insert(log, keys, 0..n);
            n
        }),
    );
    let bytes = subject.memory_bytes().unwrap_or_else(|| ALLOCATED_BYTES.load(Ordering::Relaxed) - before);
    add(6, bytes as f64 / n as f64);
    // The wanted keys stand one after another: fetching them is the asker's cost, not the structure's.
    let wanted: Vec<u8> = order.iter().flat_map(|i| &keys[*i as usize]).copied().collect();
    let mut rest = &wanted[..];
    let next = |i: &u32| {
        let (key, others) = rest.split_at(keys[*i as usize].len());
        rest = others;
        key
    };
    let order: Vec<&[u8]> = order.iter().map(next).collect();
    let get = || order.iter().filter(|key| subject.get(log, key)).count();
    add(1, rate(n, get));
    add(2, rate(n, || order.chunks(8).map(|keys| subject.get_batch(log, keys)).sum()));
    let stop = AtomicBool::new(false);
    let with_writer = std::thread::scope(|scope| {
        let writer = scope.spawn(|| subject.churn(log, keys, n..keys.len(), &stop));
        let figure = rate(n, get);
        stop.store(true, Ordering::Relaxed);
        assert!(writer.join().expect("no panic") > 0);
        figure
    });
    add(3, with_writer);
    let begin = Instant::now();
    if order.iter().filter(|key| subject.walk(key)).count() > 0 {
        add(7, n as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    let two = std::thread::scope(|scope| {
        let begin = Instant::now();
        let other = scope.spawn(get);
        let found = get() + other.join().expect("no panic");
        found as f64 / begin.elapsed().as_secs_f64() / 1e6
    });
    add(4, two);
    let begin = Instant::now();
    if let Some(scanned) = subject.scan(log) {
        assert_eq!(scanned, n);
        add(5, n as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
}

fn median(figures: &mut [f64]) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

fn table(title: &str, keys: &[Vec<u8>], rounds: usize) {
    let bytes = keys.iter().map(Vec::len).sum::<usize>() / keys.len();
    println!("\n{title}: {} keys of {bytes} bytes on average; million a second", keys.len());
    let log = Log::new(keys);
    let mut order: Vec<u32> = (0..(keys.len() / 10 * 9) as u32).collect();
    shuffle(&mut order, &mut 7);
    let only = std::env::var("BIOMBO_INDEX_ONLY").ok();
    let subjects = SUBJECTS.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name));
    let mut rows: Vec<_> = subjects.map(|(name, measure)| (name, measure, Row::default())).collect();
    for _ in 0..rounds {
        rows.iter_mut().for_each(|(_, measure, row)| measure(&log, keys, &order, row));
    }
    println!("{:18} {}", "", HEADINGS.map(|heading| format!("{heading:>15}")).join(""));
    for (name, _, row) in &mut rows {
        let figures = row.figures.each_mut().map(|f| median(f).map_or("-".into(), |f| format!("{f:.2}")));
        println!("{name:18} {}", figures.map(|figure| format!("{figure:>15}")).join(""));
    }
}

fn main() {
    let keys_max = std::env::var("BIOMBO_INDEX_KEYS").ok().and_then(|n| n.parse().ok()).unwrap_or(5_000);
    let rounds = std::env::var("BIOMBO_INDEX_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let which = std::env::var("BIOMBO_INDEX_KIND").unwrap_or_else(|_| "random,sequential,paths".into());
    let mut state = 1;
    for kind in which.split(',') {
        let keys: Vec<Vec<u8>> = match kind {
            "random" => (0..keys_max)
                .map(|_| [random(&mut state).to_le_bytes(), random(&mut state).to_le_bytes()].concat())
                .collect(),
            "sequential" => (0..keys_max as u64).map(|i| i.to_be_bytes().to_vec()).collect(),
            "paths" => paths(keys_max),
            other => panic!("no kind of keys is called {other}"),
        };
        table(kind, &keys, rounds);
    }
}
