//! What callers feel while units move: latencies of reads and writes in an open loop, at rest and while partitions give units to each other,
//! in turns, measured from when each operation was due (so that a stall counts for all that came behind it).
//!
//! Small by default, a trial of itself. To measure:
//!
//! ```text
//! BIOMBO_STALL_RECORDS=1000000 BIOMBO_STALL_ROUNDS=5 BIOMBO_STALL_SECONDS=10 cargo bench -p biombo --all-features --bench stall
//! ```
//!
//! Records of 1,000 bytes in 8 `hard` partitions, acknowledged at `os`; two threads do `BIOMBO_STALL_RATE` operations a second
//! together, half of them reads, zipfian (0.99). While units move, a third thread gives `BIOMBO_STALL_UNITS` slots of a partition to the next one, at
//! `BIOMBO_STALL_PACE` bytes a second at most, less while the clients feel it, as often as it gets to it; how many it came to is told. `max` is the
//! median of the rounds' maxima, `most` the largest of all. `BIOMBO_STALL_BYTES` go in all rounds together at least, however long that takes. `BIOMBO_STALL_ENGINES` names others, `BIOMBO_STALL_DIR` another directory.

mod common;
#[path = "common/draws.rs"]
mod draws;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use biombo::{Durability, Options, Pace, PartitionId, Store};

use common::{key, variable};
use draws::draws;

const VALUE_BYTES: usize = 1_000;
const PARTITIONS: u16 = 8;
const THREADS: u64 = 2;
/// Moves that take so many times the time of a phase have it end without the bytes that were asked for.
const LATE_TIMES: u32 = 20;

fn number(name: &str, otherwise: u64) -> u64 {
    variable(name, &otherwise.to_string()).parse().unwrap_or_else(|_| panic!("{name} is a number"))
}

fn load(engine: &str, dir: &Path, records: u64) -> Store {
    let options = Options::new().engine(engine).partitions(PARTITIONS.into()).cache_bytes(2 << 30);
    let options = options.durability(Durability::Os).value_bytes(VALUE_BYTES as u32);
    let store = options.open(dir, &biombo::registry()).unwrap_or_else(|e| panic!("open {engine}: {e}"));
    for record in 0..records {
        store.put_with(&key(record), &[record as u8; VALUE_BYTES], Durability::Os).expect("put");
    }
    store.flush().expect("flush");
    store
}

/// Latencies of a phase, in nanoseconds.
#[derive(Default)]
struct Felt {
    reads: Vec<u64>,
    writes: Vec<u64>,
}

/// Operations that are due every `every`, until `is_over`.
fn client(store: &Store, draws: &[u64], thread: u64, every: Duration, is_over: &AtomicBool) -> Felt {
    let (mut felt, mut buffer) = (Felt::default(), Vec::new());
    let begin = Instant::now();
    for (turn, record) in draws.iter().cycle().skip(thread as usize * draws.len() / 2).enumerate() {
        let due = every * turn as u32;
        // Asleep until shortly before: who is awake all the time takes the processor from who moves.
        if let Some(ahead) = due.checked_sub(begin.elapsed()).filter(|ahead| *ahead > Duration::from_micros(80)) {
            std::thread::sleep(ahead - Duration::from_micros(60));
        }
        while begin.elapsed() < due {
            std::hint::spin_loop();
        }
        if turn % 2 == 0 {
            assert!(store.get_into(&key(*record), &mut buffer).expect("get"), "a record");
        } else {
            store.put_with(&key(*record), &[turn as u8; VALUE_BYTES], Durability::Os).expect("put");
        }
        let took = (begin.elapsed() - due).as_nanos() as u64;
        if turn % 2 == 0 {
            felt.reads.push(took)
        } else {
            felt.writes.push(took)
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    felt
}

/// Ends the clients, also where the work panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All clients, until `work` is done.
fn phase(store: &Store, draws: &[u64], every: Duration, work: impl FnOnce()) -> Felt {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let clients: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || client(store, draws, thread, every, is_over))).collect();
        let over = Over(is_over);
        work();
        drop(over);
        let mut all = Felt::default();
        for client in clients {
            let felt = client.join().expect("a client");
            all.reads.extend(felt.reads);
            all.writes.extend(felt.writes);
        }
        all
    })
}

/// Units go round, from each partition to the next, until the time is over and so many bytes went; how many bytes went, and how long they were held back at most.
fn give(store: &Store, units: usize, pace: Pace, until: Duration, bytes_min: u64) -> (u64, Duration) {
    let begin = Instant::now();
    let (mut bytes, mut pause) = (0, Duration::ZERO);
    for turn in 0.. {
        let elapsed = begin.elapsed();
        if elapsed >= until && (bytes >= bytes_min || elapsed >= until * LATE_TIMES) {
            break;
        }
        let (from, to) = (PartitionId(turn % PARTITIONS), PartitionId((turn + 1) % PARTITIONS));
        let placement = store.placement();
        let owned = placement.units_of(from);
        // Not those that have just come.
        let some: Vec<_> = owned.iter().copied().skip(usize::from(turn) * 7 % owned.len().max(1)).take(units).collect();
        if some.is_empty() {
            continue;
        }
        let moved = store.move_units(&some, to, pace).expect("a move");
        bytes += moved.bytes;
        pause = pause.max(moved.pause);
    }
    (bytes, pause)
}

fn percentile(sorted: &[u64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0) as f64 / 1e3
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let records = number("BIOMBO_STALL_RECORDS", 4_000);
    let rounds = number("BIOMBO_STALL_ROUNDS", 1);
    let seconds: f64 = variable("BIOMBO_STALL_SECONDS", "0.2").parse().expect("a time in seconds");
    let rate = number("BIOMBO_STALL_RATE", 20_000);
    let units = number("BIOMBO_STALL_UNITS", 64) as usize;
    let pace = Pace { bytes_per_second: Some(number("BIOMBO_STALL_PACE", 64 << 20)), ..Pace::default() };
    let bytes_min = number("BIOMBO_STALL_BYTES", 0).div_ceil(rounds.max(1));
    let every = Duration::from_secs_f64(THREADS as f64 / rate as f64);
    let home = tempfile::tempdir_in(variable("BIOMBO_STALL_DIR", &std::env::temp_dir().to_string_lossy()))
        .expect("a directory");
    let registry = biombo::registry();
    let names = variable("BIOMBO_STALL_ENGINES", "log,lmdb");
    let draws: Vec<u64> = draws(records, 1 << 20, 0).collect();
    println!("{records} records, {rate} operations a second; microseconds, medians of {rounds} rounds of {seconds} s");
    println!(
        "{:9} {:6} {:7} {:>9} {:>9} {:>9} {:>10} {:>10}   {:>6} {:>6} {:>6}",
        "engine", "op", "phase", "p50", "p99", "p99.9", "max", "most", "x", "x max", "x most"
    );
    for engine in names.split(',').filter(|engine| registry.get(engine).is_ok()) {
        let store = load(engine, &home.path().join(engine), records);
        let until = Duration::from_secs_f64(seconds);
        let (mut rest, mut moving, mut bytes, mut pause) = (Vec::new(), Vec::new(), 0, Duration::ZERO);
        let mut took = Duration::ZERO;
        for _ in 0..rounds {
            rest.push(phase(&store, &draws, every, || std::thread::sleep(until)));
            moving.push(phase(&store, &draws, every, || {
                let begun = Instant::now();
                let given = give(&store, units, pace, until, bytes_min);
                took += begun.elapsed();
                (bytes, pause) = (bytes + given.0, pause.max(given.1));
            }));
        }
        let of = |felt: &mut [Felt], reads: bool| {
            let mut figures = [const { Vec::new() }; 4];
            for felt in felt {
                let all = if reads { &mut felt.reads } else { &mut felt.writes };
                all.sort_unstable();
                for (figures, share) in figures.iter_mut().zip([0.5, 0.99, 0.999, 1.0]) {
                    figures.push(percentile(all, share));
                }
            }
            let most = figures[3].iter().copied().fold(0.0, f64::max);
            (figures.map(median), most)
        };
        for reads in [true, false] {
            let op = if reads { "read" } else { "write" };
            let ((still, most_still), (moved, most)) = (of(&mut rest, reads), of(&mut moving, reads));
            let [p50, p99, p999, max] = still;
            println!("{engine:9} {op:6} {:7} {p50:>9.1} {p99:>9.1} {p999:>9.1} {max:>10.1} {most_still:>10.1}", "rest");
            let [p50, p99, p999, max] = moved;
            let [times, times_max, times_most] = [p999 / still[2], max / still[3], most / most_still];
            println!(
                "{engine:9} {op:6} {:7} {p50:>9.1} {p99:>9.1} {p999:>9.1} {max:>10.1} {most:>10.1}   \
                 {times:>6.2} {times_max:>6.2} {times_most:>6.2}",
                "moving"
            );
        }
        let rate = bytes as f64 / (1 << 20) as f64 / took.as_secs_f64();
        let pause_ms = pause.as_secs_f64() * 1e3;
        println!(
            "{engine:9} {} MiB moved, {rate:.1} a second; units were held back for {pause_ms:.2} ms at most",
            bytes >> 20
        );
    }
}
