//! What both engines do alike with their journal in honest behaviour: how it is set, how a batch goes into it, what an opening takes up
//! from it, how it is verified; and what follows from it for those who use them.
//!
//! A batch is one record (`record`), so it is there whole or not at all. Both engines name in their own file the first record that is not in
//! it: `from` in [`open`]. The journal is synced before that is written, so it never ends before `from`, and it is trimmed after that, so it
//! never begins after it.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{Capabilities, Durability, Op};
use biombo_journal::{Journal, JournalOptions, Lsn, Modes};

use crate::Behaviour;
use crate::home::Home;
use crate::poison::Poison;
use crate::record::{decode, encode};

/// Its directory in that of the instance.
const DIR: &str = "journal";

const KEY_BYTES_MAX: usize = 4 << 10;
const VALUE_BYTES_MAX: usize = 16 << 20;

/// Options that suit both engines.
pub(crate) fn options() -> JournalOptions {
    JournalOptions {
        segment_bytes: 4 << 20,
        modes: Modes::ByDurability,
        unsynced_segments_max: 2,
        ..JournalOptions::default()
    }
}

/// What an engine over it offers, or one without it.
pub(crate) fn capabilities(behaviour: Behaviour) -> Capabilities {
    let survives = (behaviour == Behaviour::Honest).then_some(Durability::Os);
    Capabilities {
        ordered: true,
        snapshots: true,
        atomic_batches: true,
        survives_kill: survives,
        survives_power_cut: survives,
        // A sync is that of the write: callers who wait together gain by writing together.
        sync_apart: false,
        costly_transactions: false,
        checkpoints: true,
        persistent: true,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

/// Whether there is a journal: its directory alone is none.
fn exists(io: &dyn Io, dir: &Path) -> Result<bool> {
    match io.read_dir(dir) {
        Ok(names) => Ok(!names.is_empty()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(format_args!("open the directory {}", dir.display()), e)),
    }
}

fn not_own(dir: &Path, lsn: Lsn) -> Error {
    Error::corruption(dir, 0, format!("record {lsn} is none of this engine"))
}

/// Open the journal of the instance in `home`, or create that of a new one, and do to the engine what it has from `from` on: so many bytes of
/// records. `is_own`: operations that the engine journals.
pub(crate) fn open(
    io: &Arc<dyn Io>,
    home: &Home,
    options: &JournalOptions,
    from: Lsn,
    is_own: fn(&Op<'_>) -> bool,
    mut take_up: impl FnMut(&[Op<'_>]) -> Result<()>,
) -> Result<(Journal, u64)> {
    let dir = home.dir().join(DIR);
    if !home.is_new() && !exists(&**io, &dir)? {
        // A new one would begin at `from`, too, where nothing was checkpointed yet.
        return Err(Error::corruption(dir, 0, "it is missing; restore the directory from a copy"));
    }
    let mut taken_bytes = 0;
    let mut replay = |lsn: Lsn, record: &[u8]| {
        if lsn < from {
            return Ok(());
        }
        let ops = decode(record).filter(|ops| ops.iter().all(is_own));
        take_up(&ops.ok_or_else(|| not_own(&dir, lsn))?)?;
        taken_bytes += record.len() as u64;
        Ok(())
    };
    let journal = Journal::open(Arc::clone(io), &dir, options.clone(), &mut replay)?;
    if journal.first_lsn() > from || journal.next_lsn() < from {
        let why = format!("it does not have the records from {from} on; restore the directory from a copy");
        return Err(Error::corruption(dir, 0, why));
    }
    Ok((journal, taken_bytes))
}

/// Append `ops` as one record, as durable as asked; `scratch` is its bytes afterwards. `Full` and `Invalid`: nothing was written. After any
/// other error nothing is written any more.
pub(crate) fn append(
    journal: &Journal,
    poison: &Poison,
    ops: &[Op<'_>],
    durability: Durability,
    scratch: &mut Vec<u8>,
) -> Result<()> {
    let durability = match durability {
        Durability::Sync => biombo_journal::Durability::Sync,
        Durability::Os | Durability::Relaxed => biombo_journal::Durability::Os,
    };
    scratch.clear();
    encode(ops, scratch);
    let records: [&[u8]; 1] = [&scratch[..]];
    match journal.append_batch(if ops.is_empty() { &[] } else { &records }, durability) {
        Ok(_) => Ok(()),
        Err(e) if matches!(e.kind(), ErrorKind::Full | ErrorKind::Invalid) => Err(e),
        Err(e) => Err(poison.after(e)),
    }
}

/// Read the journal of the instance in `home` and look at every record.
pub(crate) fn verify(io: &dyn Io, home: &Path, is_own: fn(&Op<'_>) -> bool) -> Result<()> {
    let dir = home.join(DIR);
    let mut look = |lsn: Lsn, record: &[u8]| match decode(record).filter(|ops| ops.iter().all(is_own)) {
        Some(_) => Ok(()),
        None => Err(not_own(&dir, lsn)),
    };
    Journal::read(io, &dir, &mut look).map(drop)
}
