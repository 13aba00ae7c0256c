//! Opening and creating instances.

use std::sync::{Arc, Mutex, RwLock};

use biombo_base::io::{Io, IoMode, RealIo, raise_open_files_limit};
use biombo_base::{ErrorKind, Result};
use biombo_engine::combine::Combiner;
use biombo_engine::{EngineKind, Op, OpenOptions};
use biombo_journal::{JournalOptions, Lsn};
use quick_cache::OptionsBuilder;
use quick_cache::sync::Cache;

use super::engine::{MicroLsm, View, Writer};
use super::levels::{Head, Levels, read_manifest, remove_strays, write_manifest};
use super::memtable::Memtable;
use super::table::{BlockBytes, Shared};
use crate::Behaviour;
use crate::figures::Figures;
use crate::home::Home;
use crate::journaled;
use crate::poison::Poison;

/// The memtable of the published behaviour, in records.
const PUBLISHED_RECORDS: usize = 1000;

/// Options of this engine alone.
#[derive(Debug, Clone, PartialEq)]
pub struct LsmOptions {
    /// Blocks in memory, and what leads to them (first keys of blocks, filters), in bytes.
    pub cache_bytes: u64,
    /// The memtable is full at so many keys,
    pub memtable_records_max: usize,
    /// or at so many bytes of memory, which small entries fill many times as fast as tables.
    pub memtable_bytes_max: usize,
    /// or when its journal has so many bytes of records, which may name the same few keys again and again.
    pub journaled_bytes_max: u64,
    /// About so many bytes has a table that a compaction writes.
    pub table_bytes: u64,
    /// At so many tables level 0 is merged into level 1.
    pub level0_tables_max: usize,
    /// Bytes of level 1 past which it is merged into level 2.
    pub level1_bytes_max: u64,
    /// How much more each further level may hold.
    pub level_factor: u64,
    /// Its journal's.
    pub journal: JournalOptions,
}

impl LsmOptions {
    /// What follows from the options of all engines: a quarter of the memory for the memtable (64 KiB to 64 MiB), and a journal of twice
    /// that; or the 1,000 records that were published.
    pub fn of(options: &OpenOptions, behaviour: Behaviour) -> Self {
        let memtable_bytes = ((options.cache_bytes / 4) as usize).clamp(64 << 10, 64 << 20);
        let records = if behaviour == Behaviour::Published { PUBLISHED_RECORDS } else { usize::MAX };
        Self {
            cache_bytes: options.cache_bytes.saturating_sub(memtable_bytes as u64).max(64 << 10),
            memtable_records_max: records,
            memtable_bytes_max: if behaviour == Behaviour::Published { usize::MAX } else { memtable_bytes },
            journaled_bytes_max: memtable_bytes as u64 * 2,
            table_bytes: 4 << 20,
            level0_tables_max: 4,
            level1_bytes_max: (memtable_bytes as u64 * 4).max(4 << 20),
            level_factor: 10,
            journal: journaled::options(),
        }
    }

    pub(super) fn describe(&self, behaviour: Behaviour) -> Vec<(String, String)> {
        let (described, memtable) = match behaviour {
            Behaviour::Honest => ("honest: a journal", format!("{} bytes of memory", self.memtable_bytes_max)),
            Behaviour::Published => ("published: no journal", format!("{} records", self.memtable_records_max)),
        };
        let mut all = vec![
            ("behaviour", described.to_owned()),
            ("memtable", memtable),
            ("block_cache_bytes", format!("{}, first keys and filters included", self.cache_bytes)),
            ("block_bytes", "4096, or more for one large entry".to_owned()),
            ("bloom", "10 bits per key".to_owned()),
            ("compaction", "levelled, by who writes".to_owned()),
            ("table_bytes", self.table_bytes.to_string()),
            ("level0_tables_max", self.level0_tables_max.to_string()),
            ("level1_bytes_max", self.level1_bytes_max.to_string()),
            ("level_factor", self.level_factor.to_string()),
            ("io", "O_DIRECT, where the file system has it".to_owned()),
            ("checksums", "CRC-32C of each block, verified when it is read from the file".to_owned()),
        ];
        if behaviour == Behaviour::Honest {
            all.push(("journaled_bytes_max", self.journaled_bytes_max.to_string()));
            all.push(("journal_segment_bytes", self.journal.segment_bytes.to_string()));
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The entry for the registry.
pub fn kind(behaviour: Behaviour) -> EngineKind {
    let (name, summary): (_, &str) = match behaviour {
        Behaviour::Honest => {
            ("micro-lsm", "the laboratory's LSM-tree: a journal, sorted tables of 4 KiB blocks, levels")
        }
        Behaviour::Published => (
            "micro-lsm-published",
            "the laboratory's LSM-tree without a journal: 1,000 records in memory, then a table",
        ),
    };
    EngineKind {
        name,
        summary,
        version: || env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: match behaviour {
            Behaviour::Honest => || journaled::capabilities(Behaviour::Honest),
            Behaviour::Published => || journaled::capabilities(Behaviour::Published),
        },
        io_modes: &[IoMode::Direct],
        open: Arc::new(move |options| {
            // Each table keeps its file open.
            raise_open_files_limit();
            Ok(open_with(RealIo::shared(), options, &LsmOptions::of(options, behaviour), behaviour)?)
        }),
        repair: None,
    }
}

/// Ranges were resolved into their keys before they were journaled.
pub(super) fn is_own(op: &Op<'_>) -> bool {
    !matches!(op, Op::DeleteRange { .. })
}

/// Open or create an instance on a file system.
///
/// # Errors
/// `Busy` while another instance has the directory, `Invalid` when it holds something else, `Corruption` when what was durable is
/// damaged, `Unsupported` when a newer version wrote it.
pub fn open_with(
    io: Arc<dyn Io>,
    options: &OpenOptions,
    own: &LsmOptions,
    behaviour: Behaviour,
) -> Result<Arc<MicroLsm>> {
    let mut home = Home::take(&io, &options.dir, kind(behaviour).name)?;
    let mut cache = OptionsBuilder::new();
    cache.estimated_items_capacity((own.cache_bytes / 4096).max(1) as usize).weight_capacity(own.cache_bytes);
    let cache = cache.build().expect("invariant: both capacities are given");
    let shared = Arc::new(Shared {
        io: Arc::clone(&io),
        dir: options.dir.clone(),
        cache: Cache::with_options(cache, BlockBytes, Default::default(), Default::default()),
        figures: Figures::default(),
    });
    let (head, levels) = match home.is_new() {
        true => {
            home.clear()?;
            let (head, levels) = (Head { lsn: Lsn::FIRST, next_number: 1 }, Levels::default());
            write_manifest(&shared, head, &levels)?;
            (head, levels)
        }
        false => {
            let (head, levels) = read_manifest(&shared)?;
            // Who wrote it may have been killed before its name was durable; and where that sync failed, no other makes it so. It is written anew
            // before anything goes that only the one before it names. Where there is no room for that, nothing goes.
            match write_manifest(&shared, head, &levels) {
                Ok(()) => remove_strays(&shared, &levels)?,
                Err(e) if e.kind() == ErrorKind::Full => {}
                Err(e) => return Err(e),
            }
            (head, levels)
        }
    };
    levels.leave_room(&shared, own.cache_bytes);
    let memtable = Memtable::default();
    let (journal, journaled_bytes) = match behaviour {
        Behaviour::Honest => {
            let take_up = |ops: &[Op<'_>]| {
                memtable.apply(ops);
                Ok(())
            };
            let (journal, taken_bytes) = journaled::open(&io, &home, &own.journal, head.lsn, is_own, take_up)?;
            (Some(journal), taken_bytes)
        }
        Behaviour::Published => (None, 0),
    };
    if home.is_new() {
        // The journal's name: the marker says that it is there.
        home.sync_dir()?;
        home.created()?;
    }
    Ok(Arc::new_cyclic(|me| MicroLsm {
        view: RwLock::new(Arc::new(View { memtable: Arc::new(memtable), levels: Arc::new(levels) })),
        // What was taken up is in no table either: who is killed again and again shall not journal without bound.
        writer: Mutex::new(Writer {
            head,
            journaled_bytes,
            compacted_to: Default::default(),
            has_compacted: false,
            record: Vec::new(),
        }),
        shared,
        journal,
        combiner: Combiner::default(),
        poison: Poison::default(),
        capabilities: journaled::capabilities(behaviour),
        own: own.clone(),
        behaviour,
        me: me.clone(),
        home,
    }))
}
