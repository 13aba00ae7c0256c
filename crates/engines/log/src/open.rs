//! The engine behind the contract: opening it, and what it answers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use biombo_base::clock::monotonic_ns;
use biombo_base::io::{Io, IoMode, RealIo, raise_open_files_limit};
use biombo_base::{Error, Result};
use biombo_engine::capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use biombo_engine::combine::Combiner;
use biombo_engine::{
    Capabilities, Cursor, Damage, Durability, Engine, EngineKind, IndexFigures, Op, OpenOptions, RepairMode, Repaired,
    Snapshot, Stats, Value,
};
use biombo_journal::Durability as LogDurability;

use crate::checkpoint::{Checkpointing, remove_older};
use crate::clean::pace::{Allowance, Felt};
use crate::clean::{Cleaner, Cleaning};
use crate::cursor::View;
use crate::engine::{Core, Flushing, LogEngine, PreparingAhead, Writer};
use crate::keys::Lister;
use crate::options::LogEngineOptions;
use crate::read::{WARMED, value};
use crate::record::{HEADER_BYTES, Record};
use crate::recover::{Opened, check_home, open_log};
use crate::versions::{Live, Versions};

/// The engine's one name.
pub const NAME: &str = "log";

/// The log's directory within that of the instance.
pub(crate) const LOG_DIR: &str = "log";

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: NAME,
        summary: "Biombo's own: an append-only log is the data, an index in memory finds it; writes cost a copy",
        version: || env!("CARGO_PKG_VERSION").to_owned(),
        capabilities,
        io_modes: &IoMode::ALL,
        open: Arc::new(|options| {
            if options.io == Some(IoMode::Direct) {
                raise_open_files_limit();
            }
            Ok(open(RealIo::shared(), options, true)?)
        }),
        repair: Some(Arc::new(|options, mode, tell| {
            let io: Arc<dyn Io> = RealIo::shared();
            match mode {
                RepairMode::Mend => LogEngine::repair(&io, &options.dir, tell),
                RepairMode::Inspect => {
                    let losses = LogEngine::inspect(&io, &options.dir, tell)?;
                    Ok(Repaired { losses, ..Repaired::default() })
                }
            }
        })),
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: true,
        atomic_batches: true,
        survives_kill: Some(Durability::Os),
        survives_power_cut: Some(Durability::Os),
        // A sync is that of the write: callers who wait together gain by writing together.
        sync_apart: false,
        costly_transactions: false,
        checkpoints: true,
        persistent: true,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

/// Open or create an instance on a file system. With `threads`, one of its own syncs sealed segments in the background; without,
/// the writer does it (a simulated disk needs a history that follows from its seed alone).
///
/// # Errors
/// `Busy` while another instance has the directory, `Invalid` when it holds something else, `Corruption` when what was
/// durable is damaged, `Unsupported` when a newer version wrote it.
pub fn open(io: Arc<dyn Io>, options: &OpenOptions, threads: bool) -> Result<Arc<LogEngine>> {
    open_with(io, options, &LogEngineOptions::of(options), threads)
}

/// The same with options of this engine alone. Segments are cleaned in the background only with `threads`.
///
/// # Errors
/// As [`open`]; `Invalid` for options that cannot be.
pub fn open_with(
    io: Arc<dyn Io>,
    options: &OpenOptions,
    own: &LogEngineOptions,
    threads: bool,
) -> Result<Arc<LogEngine>> {
    own.check()?;
    let begun_ns = monotonic_ns();
    check_home(&*io, &options.dir, LOG_DIR)?;
    let log_options = own.log.clone();
    let log_dir = options.dir.join(LOG_DIR);
    let Opened { log, reader, index, accounts, seq, standing, used } =
        open_log(&io, &options.dir, &log_dir, log_options.clone())?;
    // What is left over counts for nothing, so it does no harm to leave it there.
    let _ = remove_older(&*io, &options.dir, standing.number);
    // As the log chooses by durability: a few in sequence are synced in the mapped segment first.
    let synced = match log_options.io {
        IoMode::Mmap => "written into a buffered segment, then fdatasync",
        IoMode::Direct => "O_DIRECT|O_DSYNC",
    };
    let described = [
        ("segment_bytes", log_options.segment_bytes.to_string()),
        ("first_segment_bytes", log_options.first_segment_bytes.to_string()),
        ("small_segment_bytes", log_options.small_segment_bytes.to_string()),
        ("recycle_segments_max", log_options.recycle_segments_max.to_string()),
        ("unsynced_segments_max", log_options.unsynced_segments_max.to_string()),
        ("os", "copied into a mapped segment".to_owned()),
        ("sync", synced.to_owned()),
        ("io", log_options.io.to_string()),
        ("record_cache_bytes", log_options.cache_bytes.to_string()),
        ("checksums", "CRC-32C of each record, verified whenever it is read from a file or a mapping".to_owned()),
        ("index", "adaptive radix tree in memory".to_owned()),
        ("space_amplification", own.space_amplification.to_string()),
        ("checkpoint_records", own.checkpoint_records.to_string()),
        ("cleaning", if own.cleaning && threads { "in the background" } else { "by compact alone" }.to_owned()),
    ];
    let all_in_memory = standing.gone.is_none();
    let core = Arc::new(Core {
        cleaner: Mutex::new(Cleaner::new(own, log.flusher())),
        writer: Mutex::new(Writer {
            log,
            seq,
            accounts,
            standing,
            is_broken: false,
            at: Vec::new(),
            segment: None,
            felt: Felt::default(),
            lister: Lister::default(),
            listed: None,
        }),
        allowance: Allowance::unlimited(),
        checkpointing: Mutex::new(()),
        freezing: AtomicBool::new(false),
        loaded: AtomicBool::new(all_in_memory),
        reader,
        index,
        versions: Versions::default(),
        snapshots: Mutex::new(Live::default()),
        visible: AtomicU64::new(seq),
        changing: AtomicU64::new(0),
        typical_bytes: AtomicU64::new(0),
    });
    let flushing = threads.then(|| {
        let (flusher, core) = (core.lock_writer().log.flusher(), Arc::downgrade(&core));
        // What has become durable may be read directly from now on.
        let mut synced = move || {
            if let Some(core) = core.upgrade().filter(|core| core.reader.is_direct()) {
                core.lock_writer().log.reclaim();
            }
        };
        let run = move || drop(flusher.run_and(&mut synced));
        std::thread::Builder::new().name("biombo-log-sync".to_owned()).spawn(run)
    });
    let flushing = flushing.transpose().map_err(|e| Error::io("start the thread that syncs segments", e))?;
    let preparing = threads.then(|| PreparingAhead::start(&core)).transpose()?;
    let cleaning = (own.cleaning && threads).then(|| Cleaning::start(&core)).transpose()?;
    let records = own.checkpoint_records;
    let indexing = threads.then(|| Checkpointing::start(&core, &io, &options.dir, records)).transpose()?;
    Ok(Arc::new_cyclic(|me| LogEngine {
        indexing,
        cleaning,
        _preparing: preparing,
        core,
        _flushing: flushing.map(|thread| Flushing(Some(thread))),
        me: me.clone(),
        combiner: Combiner::default(),
        io,
        capabilities: capabilities(),
        opened: (used, (monotonic_ns() - begun_ns) as f64 / 1e9),
        options: described.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        dir: options.dir.clone(),
        checkpoint_records: records,
    }))
}

impl Engine for LogEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        self.find(key, |found| found.map(value))
    }

    #[inline]
    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        self.capabilities.check_key(key)?;
        self.find(key, |found| {
            into.clear();
            match found {
                Some(stored) => {
                    into.extend_from_slice(stored.record().value);
                    true
                }
                None => false,
            }
        })
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.capabilities.check_key(key)?;
        self.find(key, |found| found.is_some())
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        keys.chunks(WARMED).for_each(|keys| self.ask_ahead(keys, self.typical_bytes()));
    }

    fn reserve(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let level = if durability == Durability::Sync { LogDurability::Sync } else { LogDurability::Os };
        let lengths = ops.iter().map(|op| {
            let Record { key, value, .. } = Record::of(op, 0);
            HEADER_BYTES + key.len() + value.len()
        });
        let mut writer = self.lock_writer();
        self.index_takes(ops, true)?;
        writer.log.reserve(lengths, level)
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        for op in ops {
            self.capabilities.check(op)?;
        }
        // Of what several callers write together the index refuses all: whoever asks for too much is told before.
        self.index_takes(ops, false)?;
        match durability {
            Durability::Sync => self.combiner.commit(ops, durability, |ops, durability| self.write(ops, durability)),
            _ => self.write(ops, durability),
        }
    }

    fn sync(&self) -> Result<()> {
        let (flusher, until) = {
            let mut writer = self.lock_writer();
            writer.log.begin_sync()?;
            (writer.log.flusher(), writer.log.next_lsn())
        };
        // Without the writer's lock: others write meanwhile, and what they write need not be waited for.
        loop {
            let has_more = flusher.flush_one()?;
            let mut writer = self.lock_writer();
            if writer.log.durable_lsn() < until {
                if has_more {
                    continue;
                }
                writer.log.sync()?;
            }
            writer.log.after_sync();
            return Ok(());
        }
    }

    fn written_back(&self) {
        self.lock_writer().log.written_back();
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(View::open(self))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(View::open(self).cursor()))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        self.copy_to(dest)
    }

    fn compact(&self) -> Result<()> {
        self.clean_all()
    }

    fn stats(&self) -> Result<Stats> {
        let (cleaned, tail) = self.lock_cleaner().figures();
        let writer = self.lock_writer();
        let log = writer.log.stats();
        let (used, opened_seconds) = self.opened;
        let index = IndexFigures {
            memory_bytes: self.index.memory_bytes() as u64,
            checkpoints: writer.standing.count,
            checkpoint_written_bytes: writer.standing.written_bytes,
            checkpoint_seconds: writer.standing.busy_ns as f64 / 1e9,
            checkpoint_bytes: writer.standing.image_bytes,
            opened_seconds,
            opened_from_checkpoint: writer.standing.gone.map(|_| used.checkpoint_keys),
            opened_from_log: used.records,
            is_loaded: self.is_loaded(),
        };
        Ok(Stats {
            keys: Some(self.index.len() as u64),
            logical_bytes: Some(writer.accounts.logical_bytes()),
            physical_bytes: Some(log.file_bytes + writer.standing.image_bytes),
            written_bytes: Some(log.written_bytes + cleaned.bytes + writer.standing.written_bytes),
            unflushed_bytes: Some(log.ahead_bytes + self.image_bytes_on_closing(&writer).unwrap_or(0)),
            cache_bytes: self.reader.is_direct().then_some(log.cache_bytes),
            cache_hits_misses: self.reader.is_direct().then_some((log.cache_hits, log.cache_misses)),
            compaction: Some(cleaned),
            compaction_tail: Some(tail),
            segments: Some(self.segments(&writer)),
            index: Some(index),
            options: self.options.clone(),
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.verify_all(&self.dir.join(LOG_DIR), report)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use biombo_base::ErrorKind;
    use biombo_base::io::sim::{Fault, FaultKind, SimIo, When};

    use super::*;

    fn engine_on(sim: &SimIo) -> Arc<LogEngine> {
        open_with(Arc::new(sim.clone()), &OpenOptions::new("db"), &LogEngineOptions::default(), false).expect("open")
    }

    #[test]
    fn a_full_index_refuses_new_keys_before_the_log_has_them() {
        let sim = SimIo::new(1);
        sim.create_dir_all(Path::new("db")).expect("a directory");
        let engine = engine_on(&sim);
        let kind = |result: Result<()>| result.map_err(|error| error.kind());
        let put = |key: &[u8], value: &[u8]| engine.apply(&[Op::Put { key, value }], Durability::Os);
        put(b"old", b"1").expect("room");
        engine.index.limit(15);
        let log_bytes = engine.lock_writer().log.appended_bytes();
        assert_eq!(kind(put(b"new", b"1")), Err(ErrorKind::Full));
        let both = [Op::Put { key: b"old", value: b"2" }, Op::Put { key: b"new", value: b"2" }];
        assert_eq!(kind(engine.apply(&both, Durability::Sync)), Err(ErrorKind::Full));
        assert_eq!(kind(engine.reserve(&both, Durability::Os)), Err(ErrorKind::Full));
        let range = Op::DeleteRange { from: b"ol", to: Some(b"ole") };
        for deleted in [Op::Delete { key: b"old" }, range, Op::DeleteRange { from: b"a", to: None }] {
            let again = [deleted, Op::Put { key: b"old", value: b"3" }];
            assert_eq!(kind(engine.apply(&again, Durability::Os)), Err(ErrorKind::Full), "{deleted:?}");
        }
        for others in [Op::Delete { key: b"new" }, Op::DeleteRange { from: b"olda", to: None }] {
            // As the mark that a partition keeps is written with what is deleted.
            let beside = [others, Op::Put { key: b"old", value: b"1" }];
            engine.reserve(&beside, Durability::Os).expect("what deletes, and puts what stays, needs no room");
        }
        assert_eq!(engine.lock_writer().log.appended_bytes(), log_bytes, "a refused record is in the log");
        put(b"old", b"4").expect("a new value of an old key needs no room");
        engine.reserve(&both[..1], Durability::Os).expect("the same for one that is to come");
        drop(engine);
        let engine = engine_on(&sim);
        let found = [b"old", b"new"].map(|key| engine.get(key).expect("get").map(|value| value.to_vec()));
        assert_eq!(found, [Some(b"4".to_vec()), None]);
        engine.index.limit(0);
        engine.apply(&[Op::Delete { key: b"old" }], Durability::Os).expect("deleting makes room");
    }

    #[test]
    fn an_index_near_its_end_takes_keys_again_when_others_are_gone() {
        let sim = SimIo::new(1);
        sim.create_dir_all(Path::new("db")).expect("a directory");
        let engine = engine_on(&sim);
        let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let put = |i: u64| engine.apply(&[Op::Put { key: &key(i), value: b"" }], Durability::Os);
        (0..40_000).for_each(|i| put(i).expect("room"));
        engine.index.limit(63);
        // What nodes left that grew is used up first.
        let error = (40_000..60_000).find_map(|i| put(i).err()).expect("a full index");
        assert!(error.kind() == ErrorKind::Full && error.to_string().contains("partitions"), "{error}");
        for i in 0..40_000 {
            engine.apply(&[Op::Delete { key: &key(i) }], Durability::Os).expect("deleting makes room");
        }
        (0..10_000).for_each(|i| put(i).expect("room that others have left"));
        assert!(engine.contains(&key(9_999)).expect("get") && !engine.contains(&key(39_999)).expect("get"));
    }

    /// Where much of the index is free few chunks need be left, and many where it is not. (Mutations: as much is asked for ahead as at once.)
    #[test]
    fn what_was_asked_for_ahead_is_taken_when_others_took_room_meanwhile() {
        for (is_filled, taken) in [(false, 8), (true, 32)] {
            let sim = SimIo::new(1);
            sim.create_dir_all(Path::new("db")).expect("a directory");
            let engine = engine_on(&sim);
            if is_filled {
                let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                let put = |i: u64| engine.apply(&[Op::Put { key: &key(i), value: b"" }], Durability::Os);
                (0..40_000).for_each(|i| put(i).expect("room"));
                engine.index.limit(63);
                (40_000..60_000).find_map(|i| put(i).err()).expect("a full index");
            }
            let batch: Vec<[u8; 8]> = (0..1_000_u64).map(|i| (i << 8 | 1).to_be_bytes()).collect();
            let ops: Vec<Op<'_>> = batch.iter().map(|key| Op::Put { key, value: b"" }).collect();
            let least = (0..2_000).find(|room| {
                engine.index.limit(*room);
                engine.reserve(&ops, Durability::Os).is_ok()
            });
            engine.index.limit(least.expect("some room is enough") - taken);
            engine.apply(&ops, Durability::Os).expect("what was promised");
        }
    }

    #[test]
    fn a_sync_keeps_nobody_from_writing() {
        let sim = SimIo::new(1);
        sim.create_dir_all(Path::new("db")).expect("a directory");
        let engine = engine_on(&sim);
        engine.apply(&[Op::Put { key: b"key", value: b"value" }], Durability::Os).expect("apply");
        let (free, held) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (engine_of_sync, free_of_sync, held_of_sync) =
            (Arc::downgrade(&engine), Arc::clone(&free), Arc::clone(&held));
        let look = move |event: &biombo_base::io::sim::EventInfo| {
            if let Some(engine) = engine_of_sync.upgrade().filter(|_| event.label == "sync #.seg") {
                let writer = engine.writer.try_lock();
                if writer.is_ok() { &free_of_sync } else { &held_of_sync }.fetch_add(1, Ordering::Relaxed);
            }
            false
        };
        sim.inject(Fault { when: When::Matches(Arc::new(look)), kind: FaultKind::Eio, times: u32::MAX });
        engine.sync().expect("sync");
        assert_eq!((free.load(Ordering::Relaxed), held.load(Ordering::Relaxed)), (1, 0));
        let writer = engine.lock_writer();
        assert_eq!(writer.log.durable_lsn(), writer.log.next_lsn());
    }
}
