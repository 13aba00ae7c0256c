//! What the owner of a log gets to see when it is opened.

use biombo_base::Result;

use crate::{Lsn, Position, SegmentInfo};

/// How an owner takes up a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Every record. The whole segment is read and verified.
    Frames,
    /// The footer alone; where there is none, or it is damaged, every record instead.
    Footer,
    /// Nothing: the owner knows what is in it (from a checkpoint, say). It is not read.
    Nothing,
}

/// Takes up a log that is opened: cold segments first, then the log's own, each in the order of their numbers.
///
/// A closure over position, lsn and bytes takes up every record. An error ends the opening and is returned.
pub trait Replay {
    /// The log is locked, and nothing of it was taken up yet: what the owner keeps beside it can be looked at now.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// How to take up `segment`. Asked only of sealed segments that are known to be durable: the others are read in any
    /// case, to find where the log ends, and every record of theirs is handed over.
    fn wants(&mut self, segment: &SegmentInfo) -> Result<Wants> {
        let _ = segment;
        Ok(Wants::Frames)
    }

    /// A record. Of a cold segment, `lsn` counts from 1 in that segment.
    fn record(&mut self, at: Position, lsn: Lsn, record: &[u8]) -> Result<()>;

    /// The footer of a segment, as it was given when that was sealed. After `Corruption` the segment is taken up as if it had
    /// none.
    fn footer(&mut self, segment: &SegmentInfo, footer: &[u8]) -> Result<()> {
        let _ = (segment, footer);
        Ok(())
    }
}

impl<F: FnMut(Position, Lsn, &[u8]) -> Result<()>> Replay for F {
    fn record(&mut self, at: Position, lsn: Lsn, record: &[u8]) -> Result<()> {
        self(at, lsn, record)
    }
}
