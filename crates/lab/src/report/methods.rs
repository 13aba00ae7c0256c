//! How the figures of a report came about.

use crate::record::Record;
use crate::summary::Key;

/// A paragraph each; only what concerns `records`.
pub(super) fn methods(records: &[Record]) -> Vec<String> {
    let any = |is: &dyn Fn(&Record) -> bool| records.iter().any(is);
    let paragraphs = [
        (
            true,
            "Each run has a process and an empty directory of its own: open the store, load every record in no order of \
             keys, make it durable, sync the file system, run the operations, close. Only the run phase counts for \
             throughput and latency. The load phase acknowledges its writes at os whatever the run's durability is.",
        ),
        (
            any(&|r| r.bench == "db"),
            "The benchmarks are those of LevelDB's and RocksDB's db_bench. fillseq and fillrandom begin with an empty store, \
             the others with all records loaded. Random keys are drawn with replacement. Keys are the letter a, as often as \
             their length asks for, and 16 decimal digits. Operations are those of all threads together. readwhilewriting \
             has one more thread, which writes without a pause; its writes stand beside the reads and count for no \
             throughput. Reads in order begin anew after the last key.",
        ),
        (
            any(&|r| r.bench == "shift"),
            "Workloads that shift choose an operation by the seed alone, and its record by the seed and the period that the \
             operation begins in: by the clock in a closed loop, by the schedule in an open one. Every engine and layout gets the \
             same hot records in the same period. Only the adversary's also depend on where the store has its keys. A record of a \
             hash slot or partition is one by its key's hash, whatever the layout is.",
        ),
        (
            any(&|r| r.bench == "trace"),
            "A trace is a text file for each thread, or one that every thread replays: reads, writes and scans in the order in \
             which they were recorded, as fast as they are answered (or at the rate that is given). Unless an empty store was asked for, every \
             key that the files name is put before, outside the measured time. The length of keys is their mean.",
        ),
        (
            any(&|r| !r.timeline.p99_ns.is_empty()),
            "Over time: operations finished in each tenth of a second (longer in long runs), and of those the 99th percentile of \
             latency, to 3 %, and the slowest one. An operation stands where it ended.",
        ),
        (
            true,
            "Repetitions are interleaved: every engine and layout once, then all of them again. All runs of one repetition \
             have one seed, so the same operations on the same keys.",
        ),
        (
            any(&|r| r.errors > 0),
            "A store that finds nothing is fast: a run in which an operation failed is in no figure, plot or ratio of its engine and \
             layout. Where every run had errors, the figures are those of all of them, and there is no ratio. The column of errors has them all.",
        ),
        (
            true,
            "Every engine gets the same cache, the same number of client threads and the same durability. Every value that \
             is read is copied into a buffer of the client. What the kernel caches beside is given to whoever reads through \
             it, and counted for nobody: LMDB and tkrzw-hash have no other cache, micro-* and what reads by direct go past it.",
        ),
        (
            any(&|r| r.engine == "rocksdb"),
            "RocksDB runs with its statistics on, all but detailed timers: nothing else tells to the byte what it wrote, and how long its \
             compactions took, and the C API of this version sets no other level. By its own documentation that usually costs 5 to 10 %. \
             The library as Debian builds it has its assertions on, which costs as well. Neither is taken off its figures.",
        ),
        (any(&|r| r.compression_ratio == 1.0), "Values are random bytes that cannot be compressed."),
        (
            any(&|r| r.compression_ratio < 1.0),
            "Values that compress are pieces of 100 bytes, as db_bench makes them: random bytes for the given share of a \
             piece, repeated to its end.",
        ),
        (
            any(&|r| r.partitioning != "none"),
            "Without partitions an engine is used directly through the contract that all of them fulfil. Times the engine \
             directly: throughput by that of the same engine used directly in the same repetition; the median of these \
             pairs, in brackets its interval of 95 % or more (of the sign test: of nine ratios, from the second to the eighth; from six \
             pairs on, the extremes in parentheses before that). Where an interval holds 1, it is undecided which is faster.",
        ),
        (
            any(&|r| r.repartition != "off"),
            "What moving brought: throughput of a store that repartitions itself by that of the one with the largest median \
             among those of the same engine, partitions, workers, bound on space and number of places that stay as they are, whatever \
             their placement, in the same \
             repetition. Settled is the last third of each period of a load that shifts (of the whole run where it never does), in the \
             period of each run that is worst for it; it settles in the time from a shift until half a second has 1.5 times \
             (1.3 at sync) what the one that stays has once it has settled, or in the whole period where it never does: the slowest \
             period of a run counts.",
        ),
        (
            any(&|r| r.rate.is_some()),
            "In an open loop throughput is given. Its engines and layouts are compared by the 99th percentile of the kind of \
             operation that has the longest one in the table: who is ahead has the shortest, a ratio to the engine used directly is \
             one of these percentiles, as is one to the store that stays as it is, and below 1 it is the shorter one; of settling \
             nothing is said. Who did less than 99 % of the rate that was asked for did not keep it: what it does waits longer the \
             later it is, so its percentiles are those of runs of this length alone.",
        ),
        (
            any(&|r| r.ended.is_some()),
            "The process of some runs ended badly after it had told its result, when all was closed and on the device: their figures \
             count, and their lines say how it ended.",
        ),
        (
            any(&|r| Key::of(r) != Key::of(&records[0])),
            "The fastest of a workload is the engine and layout with the largest median. It is told apart from another where each of its runs \
             was faster than all of the other's, and both have at least three.",
        ),
        (
            true,
            "Latencies come from histograms with three significant digits. In a closed loop they count from the call, in an \
             open loop from the moment at which the schedule wanted the call.",
        ),
        (
            true,
            "WAF (write amplification) is the bytes that the kernel counts as written to storage for the process, by the \
             bytes of keys and values put, load phase and closing included; beside it by the engine's own counters, and by \
             those of the block device, which count what anybody wrote to it meanwhile. A star behind a figure of the kernel says \
             that the engine's own is more than 5 % higher; it stands below the table. The kernel counts a page when it becomes dirty, \
             once however often it is changed until it is written back, and takes it back when its file is removed before that. At os \
             the log of a merge tree is removed when its memtable was flushed, and the kernel may wait for half a minute: in such a run \
             the log costs the device nothing, in one where data come more slowly, or at sync, all of its bytes. What was put and is \
             still to be written counts with each of them: also what closing leaves to a log and the next opening, as a memtable of \
             RocksDB or LevelDB is, by the engine's own word (of these two, the bytes of their log files). Compactions are those, or the \
             cleanings or checkpoints, that the engine tells of since it was opened; what it still owes at the end is not \
             waited for; where most runs had none, no time of one is shown. Memory is the most that the process \
             had resident; pages of mapped files count, those of the kernel's cache do not. Processor time is the process's from its start \
             to its end, load phase included.",
        ),
        (
            any(&|r| r.durability == "sync"),
            "Newer kernels keep a file in pages of up to 2 MB, and charge a process for a whole one whenever a part of it is written \
             that was clean. An engine that syncs small writes into a log of a fixed size (PostgreSQL, log) is charged so at every sync, \
             though the device gets little more than the write: at sync, WAF by the device says more than WAF by the kernel, if nothing \
             else writes meanwhile.",
        ),
        (
            any(&|r| r.engine == "postgres"),
            "The engine postgres is a PostgreSQL server: unless an existing one is named, each run makes one for itself, on a socket in a \
             private directory, and removes it. Bytes written are those of the client and of all processes of the server, the making of \
             the empty cluster (some 40 MB) included; memory is the client's with the server's after the load and after the run, shared \
             pages counted once. Each operation is a prepared statement over a connection of its thread. A scan reads one state of the \
             table, so it begins and ends a transaction.",
        ),
        (
            any(&|r| r.engine == crate::null::NAME),
            "The engine null keeps nothing: its figures are the cost of the driver itself, the bound of what can be seen.",
        ),
    ];
    let told = paragraphs.into_iter().filter(|(concerns, _)| *concerns).map(|(_, text)| text.to_owned());
    told.chain(super::amplification::methods(records)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    /// Fails if the page describes another rule than the one that settling is measured by.
    #[test]
    fn settling_is_said_to_be_what_is_asked() {
        let mut moving = record("log", "hard", 1, 1.0);
        moving.repartition = "1s".into();
        let (at_sync, below) = crate::moving::ASKED;
        let rule = format!("until half a second has {below} times ({at_sync} at sync) what the one that stays has");
        let said = methods(&[moving]).join(" ");
        assert!(said.contains(&rule), "{said}");
    }
}
