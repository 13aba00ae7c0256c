//! Opening: the index, the accounts and the engine's numbers out of what is on the disk.
//!
//! - [`gather`]: what has to be taken up: of a sealed segment its key list (`keys`), of others their records.
//! - [`apply`]: it is taken up, into an empty index or into that of a checkpoint (`checkpoint`).
//! - [`deleted`]: deletions that older records may follow.
//!
//! With a checkpoint at lsn L, only what it does not know is taken up: cold segments that it does not list, and records from L
//! on. Without one, everything is.
//!
//! Invariants:
//!
//! 1. What a checkpoint says is used only if its checksums hold and it fits the log: the log reaches L, and each segment that
//!    both know is the same. Whatever else goes wrong with it, the log is taken up once more without it.
//! 2. Nothing is written here; names that are relied on are made durable.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{Log, LogOptions, LogReader, Lsn};

use crate::accounts::Accounts;
use crate::checkpoint::{Checkpoint, Standing};
use crate::index::Index;

use apply::Recovered;
use gather::Gather;
pub(crate) use gather::check_footer;

mod apply;
mod deleted;
mod gather;

/// An opened log and what its records say together.
pub(crate) struct Opened {
    pub log: Log,
    pub reader: LogReader,
    pub index: Index,
    pub accounts: Accounts,
    /// The greatest number of a record.
    pub seq: u64,
    /// What checkpoints there are.
    pub standing: Standing,
    /// What was used.
    pub used: Used,
}

/// What an opening used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// The keys of a checkpoint, if there is one.
    pub checkpoint_keys: u64,
    /// Records that were taken up one by one.
    pub records: u64,
}

/// Open the log in `log_dir` of the instance in `dir`.
pub(crate) fn open_log(io: &Arc<dyn Io>, dir: &Path, log_dir: &Path, options: LogOptions) -> Result<Opened> {
    let mut gather = Gather::new(&**io, Some(dir));
    let (log, reader) = Log::open(Arc::clone(io), log_dir, options, &mut gather)?;
    let mut standing = Standing::found(gather.newest, gather.distrusted.take());
    if let Some(checkpoint) = gather.checkpoint.take() {
        let known = (checkpoint.seq, checkpoint.lsn, checkpoint.path.clone(), checkpoint.image_bytes());
        match from_checkpoint(checkpoint, &log, &reader, &mut gather) {
            Ok((Recovered { index, accounts, seq, used, .. }, gone)) => {
                standing.gone = Some(gone);
                standing.stands(known.0, known.1);
                standing.image_bytes = known.3;
                return Ok(Opened { log, reader, index, accounts, seq, standing, used });
            }
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported) => {
                if error.kind() == ErrorKind::Corruption {
                    standing.distrust(Error::corruption(known.2, 0, format!("not used: {}", error.message())));
                } else {
                    // It is sound, and another opening may use it.
                    standing.stands(known.0, Lsn::FIRST);
                }
                // What the checkpoint covers was passed over.
                gather = Gather::new(&**io, None);
                Log::read(&**io, log_dir, &mut gather)?;
            }
            Err(error) => return Err(error),
        }
    }
    let mut recovered = Recovered::new();
    recovered.take_up_all(&reader, &gather.finish())?;
    let Recovered { index, accounts, seq, used, .. } = recovered;
    Ok(Opened { log, reader, index, accounts, seq, standing, used })
}

fn from_checkpoint(
    checkpoint: Checkpoint,
    log: &Log,
    reader: &LogReader,
    gather: &mut Gather<'_>,
) -> Result<(Recovered, usize)> {
    let gone = checkpoint.fit(log.next_lsn(), &log.segments())?;
    let taken = gather.finish();
    let mut recovered = Recovered::over(checkpoint, &gone);
    if !gone.is_empty() {
        recovered.forget_moved(&gone, &taken)?;
    }
    recovered.take_up_all(reader, &taken)?;
    Ok((recovered, gone.len()))
}

/// Refuse a directory that holds something else than a log of this engine.
pub(crate) fn check_home(io: &dyn Io, dir: &Path, log: &str) -> Result<()> {
    let names = io.read_dir(dir).map_err(|e| Error::io(format_args!("open the directory {}", dir.display()), e))?;
    if !names.is_empty() && !names.iter().any(|name| name.file_name().is_some_and(|name| name == log)) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{} holds files that are not of the engine log; choose an empty directory", dir.display()),
        ));
    }
    Ok(())
}
