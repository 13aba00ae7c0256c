//! Opening and creating instances.

use std::sync::{Arc, Mutex, RwLock};

use biombo_base::io::{Io, IoMode, RealIo};
use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::combine::Combiner;
use biombo_engine::{Capabilities, EngineKind, Op, OpenOptions};
use biombo_journal::{JournalOptions, Lsn};

use super::engine::{MicroBtree, Writer, apply_to};
use super::meta::{META_PAGES, Meta};
use super::page::{PAGE_BYTES, Run};
use super::pages::Pages;
use super::space::Space;
use super::tree::Tree;
use crate::Behaviour;
use crate::home::Home;
use crate::journaled;
use crate::poison::Poison;

/// The file of pages, in the directory of the instance.
pub(crate) const PAGES_FILE: &str = "tree.pages";

const KEY_BYTES_MAX: usize = 512;

/// Options of this engine alone.
#[derive(Debug, Clone, PartialEq)]
pub struct BtreeOptions {
    /// Clean pages that are kept in memory.
    pub cache_pages: usize,
    /// How many pages may be dirty before the older half of them is written back.
    pub dirty_pages_max: usize,
    /// Bytes of records in the journal after which a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// Its journal's.
    pub journal: JournalOptions,
}

impl BtreeOptions {
    /// What follows from the options of all engines: a quarter of the memory may be dirty, and a checkpoint comes after twice all of it has
    /// been journaled (8 MiB to 256 MiB).
    pub fn of(options: &OpenOptions) -> Self {
        let pages = (options.cache_bytes / PAGE_BYTES as u64).max(32) as usize;
        Self {
            cache_pages: pages - pages / 4,
            dirty_pages_max: pages / 4,
            checkpoint_bytes: options.cache_bytes.saturating_mul(2).clamp(8 << 20, 256 << 20),
            journal: journaled::options(),
        }
    }

    pub(super) fn describe(&self, behaviour: Behaviour) -> Vec<(String, String)> {
        let pages_bytes = |pages: usize| (pages * PAGE_BYTES).to_string();
        let mut all = vec![
            ("page_bytes", PAGE_BYTES.to_string()),
            ("page_cache_bytes", pages_bytes(self.cache_pages)),
            ("io", "O_DIRECT, where the file system has it".to_owned()),
            ("checksums", "CRC-32C of each page and value, verified when it is read from the file".to_owned()),
        ];
        all.extend(match behaviour {
            Behaviour::Published => vec![
                ("behaviour", "published: every put writes the pages that it changed, no journal".to_owned()),
                ("sync", "fdatasync of the file of pages".to_owned()),
            ],
            Behaviour::Honest => vec![
                ("behaviour", "honest: journal, write-back, checkpoints".to_owned()),
                ("dirty_bytes_max", pages_bytes(self.dirty_pages_max)),
                ("checkpoint_bytes", self.checkpoint_bytes.to_string()),
                ("journal_segment_bytes", self.journal.segment_bytes.to_string()),
            ],
        });
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The entry for the registry.
pub fn kind(behaviour: Behaviour) -> EngineKind {
    let (name, summary): (_, &str) = match behaviour {
        Behaviour::Honest => {
            ("micro-btree", "the laboratory's B+tree: a journal, 4 KiB pages, write-back, checkpoints")
        }
        Behaviour::Published => {
            ("micro-btree-published", "the laboratory's B+tree without a journal: each put writes its page of 4 KiB")
        }
    };
    EngineKind {
        name,
        summary,
        version: || env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: match behaviour {
            Behaviour::Honest => || capabilities(Behaviour::Honest),
            Behaviour::Published => || capabilities(Behaviour::Published),
        },
        io_modes: &[IoMode::Direct],
        open: Arc::new(move |options| Ok(open_with(RealIo::shared(), options, &BtreeOptions::of(options), behaviour)?)),
        repair: None,
    }
}

fn capabilities(behaviour: Behaviour) -> Capabilities {
    Capabilities {
        snapshots: false,
        atomic_batches: behaviour == Behaviour::Honest,
        key_bytes_max: KEY_BYTES_MAX,
        ..journaled::capabilities(behaviour)
    }
}

/// The tree does whatever there is.
pub(super) fn is_own(_: &Op<'_>) -> bool {
    true
}

/// Open or create an instance on a file system.
///
/// # Errors
/// `Busy` while another instance has the directory, `Invalid` when it holds something else, `Corruption` when what was durable is
/// damaged (published behaviour: or was not closed), `Unsupported` when a newer version wrote it.
pub fn open_with(
    io: Arc<dyn Io>,
    options: &OpenOptions,
    own: &BtreeOptions,
    behaviour: Behaviour,
) -> Result<Arc<MicroBtree>> {
    let home = Home::take(&io, &options.dir, kind(behaviour).name)?;
    let path = options.dir.join(PAGES_FILE);
    if home.is_new() {
        home.clear()?;
    }
    let file = Pages::open_file(&*io, &path, home.is_new()).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::corruption(&path, 0, "it is missing; restore the directory from a copy"),
        _ => e,
    })?;
    let meta = match home.is_new() {
        true => Meta {
            id: io.random_u64(),
            generation: 0,
            root: 0,
            space: Run { page: 0, value_bytes: 0 },
            keys: 0,
            logical_bytes: 0,
            lsn: Lsn::FIRST,
            is_open: false,
        },
        false => Meta::read(&*file, &path)?,
    };
    if meta.is_open {
        let why = "it was not closed, and the engine keeps no journal by which it could be mended; load it anew";
        return Err(Error::corruption(&path, 0, why));
    }
    let pages = Pages::new(file, &path, &meta, own.cache_pages);
    let mut tree = match home.is_new() {
        true => new_tree(behaviour)?,
        false => {
            // The head that was found is the one to keep, though who wrote it may have been killed before its sync; and where that failed, no other
            // sync writes it: so it is written once more. From here on pages are given away that only the head before it leads to.
            pages.write_bytes(meta.place(), &meta.encode())?;
            pages.sync()?;
            found_tree(&pages, &meta, behaviour)?
        }
    };
    let (journal, journaled_bytes) = match behaviour {
        Behaviour::Honest => {
            let take_up =
                |ops: &[Op<'_>]| apply_to(&mut tree, &pages, ops, own.dirty_pages_max).map_err(|cut| cut.error);
            let (journal, taken_bytes) = journaled::open(&io, &home, &own.journal, meta.lsn, is_own, take_up)?;
            (Some(journal), taken_bytes)
        }
        Behaviour::Published => (None, 0),
    };
    let is_new = home.is_new();
    if is_new {
        // The names of the file and of the journal: the marker says that they are there.
        home.sync_dir()?;
    }
    let mut engine = MicroBtree {
        tree: RwLock::new(tree),
        pages,
        // What was taken up is in no checkpoint either: who is killed again and again shall not journal without bound.
        writer: Mutex::new(Writer { meta, journaled_bytes, record: Vec::new() }),
        journal,
        combiner: Combiner::default(),
        poison: Poison::default(),
        capabilities: capabilities(behaviour),
        own: own.clone(),
        behaviour,
        home,
    };
    if is_new {
        engine.create().map_err(|e| engine.poison.after(e))?;
    }
    engine.mark_open().map_err(|e| engine.poison.after(e))?;
    Ok(Arc::new(engine))
}

impl MicroBtree {
    /// Write the first checkpoint, and say that there is one.
    fn create(&mut self) -> Result<()> {
        {
            let mut writer = self.writer.lock().expect("invariant: nobody else knows of it yet");
            self.write_checkpoint(&mut writer, false)?;
        }
        self.home.created()
    }
}

fn new_tree(behaviour: Behaviour) -> Result<Tree> {
    let mut space = Space::default();
    space.take(META_PAGES);
    let mut tree = Tree::new(0, 0, 0, space, behaviour);
    tree.plant()?;
    Ok(tree)
}

fn found_tree(pages: &Pages, meta: &Meta, behaviour: Behaviour) -> Result<Tree> {
    let mut image = Vec::new();
    pages.read_run(meta.space, &mut image)?;
    let used = image.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("invariant: 8 bytes")));
    let mut used: Vec<u64> = used.collect();
    // What only fills the last page of the map says nothing.
    used.truncate(used.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
    let space = match behaviour {
        Behaviour::Honest => Space::of_checkpoint(used),
        Behaviour::Published => Space::in_place(used),
    };
    Ok(Tree::new(meta.root, meta.keys, meta.logical_bytes, space, behaviour))
}
