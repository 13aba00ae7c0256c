//! What opening has to take up, as key lists: the footers of sealed segments, and lists made of the records of others.

use std::collections::BTreeSet;
use std::path::Path;

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{Lsn, Position, Replay, SegmentInfo, SegmentKind, SegmentNumber, Wants};

use crate::checkpoint::{self, Checkpoint};
use crate::engine::foreign;
use crate::keys::{Entries, KeyList, NoList};
use crate::record::Record;

/// What is taken up of one segment.
pub(crate) struct Taken {
    pub segment: SegmentNumber,
    pub is_cold: bool,
    /// A list of keys.
    pub list: Vec<u8>,
    /// Entries of it that a checkpoint knows.
    pub known: u64,
}

/// Collects it while the log is opened.
pub(crate) struct Gather<'a> {
    io: &'a dyn Io,
    /// The instance's directory, if a checkpoint is to be looked for.
    dir: Option<&'a Path>,
    pub checkpoint: Option<Checkpoint>,
    /// The number of the newest checkpoint, whatever it is worth.
    pub newest: u64,
    /// Why it is not used.
    pub distrusted: Option<Error>,
    cold: BTreeSet<SegmentNumber>,
    taken: Vec<Taken>,
    /// The list of the segment whose records come.
    current: Option<(SegmentNumber, KeyList)>,
}

impl<'a> Gather<'a> {
    pub fn new(io: &'a dyn Io, dir: Option<&'a Path>) -> Self {
        let (cold, taken) = Default::default();
        Self { io, dir, checkpoint: None, newest: 0, distrusted: None, cold, taken, current: None }
    }

    /// All that was collected: cold segments first, then the log's in order.
    pub fn finish(&mut self) -> Vec<Taken> {
        self.end_list();
        std::mem::take(&mut self.taken)
    }

    fn end_list(&mut self) {
        if let Some((segment, list)) = self.current.take() {
            let is_cold = self.cold.contains(&segment);
            self.taken.push(Taken { segment, is_cold, list: list.into_bytes(), known: 0 });
        }
    }
}

impl Replay for Gather<'_> {
    fn begin(&mut self) -> Result<()> {
        let Some(dir) = self.dir else { return Ok(()) };
        // Names may be left that a killed process gave or took, and that no sync has made durable. Once the newest checkpoint is relied on,
        // tombstones that an older one needs are dropped: after a power cut it must not be the newest again.
        self.io.sync_dir(dir).map_err(|e| Error::io(format_args!("sync {}", dir.display()), e))?;
        let Some(newest) = checkpoint::newest(self.io, dir)? else { return Ok(()) };
        self.newest = newest;
        // A sync that failed may have lost the name of the newest, and none after it says so. Then it is gone after a power cut, and must leave no
        // older one behind, whose ways may lead to what was cleaned since: without any, all is taken up out of the log.
        checkpoint::keep_alone(self.io, dir, newest)?;
        match Checkpoint::read(self.io, dir, newest) {
            Ok(checkpoint) => self.checkpoint = Some(checkpoint),
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported) => {
                self.distrusted = Some(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn wants(&mut self, segment: &SegmentInfo) -> Result<Wants> {
        if segment.kind == SegmentKind::Cold {
            self.cold.insert(segment.number);
        }
        Ok(match &self.checkpoint {
            Some(checkpoint) if checkpoint.covers(segment) => Wants::Nothing,
            _ => Wants::Footer,
        })
    }

    fn record(&mut self, at: Position, lsn: Lsn, bytes: &[u8]) -> Result<()> {
        let segment = at.segment();
        let is_known = |checkpoint: &Checkpoint| lsn < checkpoint.lsn && !self.cold.contains(&segment);
        if self.checkpoint.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        if self.current.as_ref().is_none_or(|(current, _)| *current != segment) {
            self.end_list();
        }
        let (_, list) = self.current.get_or_insert_with(|| (segment, KeyList::unbounded()));
        list.push(at, &Record::parse_sound(bytes).ok_or_else(|| foreign(at))?);
        Ok(())
    }

    fn footer(&mut self, segment: &SegmentInfo, footer: &[u8]) -> Result<()> {
        self.end_list();
        check_footer(segment, footer)
            .map_err(|what| Error::new(ErrorKind::Corruption, format!("segment {}: {what}", segment.number)))?;
        let is_cold = segment.kind == SegmentKind::Cold;
        let known = match &self.checkpoint {
            Some(checkpoint) if !is_cold => checkpoint.lsn.0.saturating_sub(segment.base_lsn.0),
            _ => 0,
        };
        self.taken.push(Taken { segment: segment.number, is_cold, list: footer.to_vec(), known });
        Ok(())
    }
}

/// Whether a footer lists the records of its segment.
pub(crate) fn check_footer(segment: &SegmentInfo, footer: &[u8]) -> Result<(), &'static str> {
    match Entries::count_all(footer) {
        Ok(count) if count == segment.end_lsn.0 - segment.base_lsn.0 => Ok(()),
        Ok(_) => Err("its footer lists another number of records than it has"),
        Err(NoList) => Err("its footer is no list of keys"),
    }
}
