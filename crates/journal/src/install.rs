//! Segments that go, and cold ones that come in their place.
//!
//! Each is one edit of the manifest, in three parts: the log begins it, the edit is made without the log while that goes on, the log takes
//! in what came of it. Nobody else drops the same segments meanwhile. A crash meets the edit or not; the files go after it.

use std::sync::Arc;

use biombo_base::Result;

use crate::cold::{ColdSegment, ColdWriter};
use crate::failure::Failure;
use crate::files::{Exchange, Live};
use crate::log::Log;
use crate::recovery::Found;
use crate::{Lsn, SegmentKind, SegmentNumber};

/// Dropped segments whose records the owner may still be looking for; see [`Log::install`].
#[must_use = "the space of replaced segments is reused only after Log::release"]
#[derive(Debug)]
pub struct Replaced(Vec<SegmentNumber>);

impl Log {
    /// Drop segments, in any order, durably. Everything up to their end is made durable before. Who was pinned before this
    /// can still read them; their space is reused after that.
    ///
    /// `Invalid`, and nothing is done, when one of them does not exist or is the last of the log's order (which is never
    /// dropped). `Full`: nothing was changed.
    pub fn drop_segments(&mut self, numbers: &[SegmentNumber]) -> Result<()> {
        let dropping = self.begin_drop(numbers)?;
        let dropped = self.installed(dropping)?;
        self.release(dropped);
        Ok(())
    }

    /// Drop the segments of the log's order whose records are all before `before`, whether they were synced or not: nobody
    /// needs them any more. The last one is kept. Errors as for [`drop_segments`](Self::drop_segments).
    ///
    /// Crash argument: until the manifest's record is durable, they are segments that may wait for their sync, like any; from then on
    /// the log begins after them, and everything before that counts as durable because there is nothing.
    pub(crate) fn trim(&mut self, before: Lsn) -> Result<()> {
        self.flush.check()?;
        let hot: Vec<_> = self.files.hot().map(|live| live.found.header).collect();
        let old: Vec<_> = hot.windows(2).filter(|pair| pair[1].base_lsn <= before).collect();
        let Some(first_kept) = old.last().map(|pair| pair[1].base_lsn) else { return Ok(()) };
        let numbers: Vec<_> = old.iter().map(|pair| pair[0].number).collect();
        self.files.check_droppable(&numbers)?;
        let durable_lsn = self.durable_lsn().max(first_kept);
        let exchange = self.files.exchange(&numbers, None, durable_lsn);
        let dropped = self.installed(Installing { exchange, cold: None, done: None })?;
        self.flush.discard(first_kept);
        self.release(dropped);
        Ok(())
    }

    /// Begin a segment apart from the log's order, for records that are moved. It can be written on any thread while the
    /// log goes on, and counts when it is [installed](Self::install).
    pub fn cold_writer(&mut self) -> Result<ColdWriter> {
        self.flush.check()?;
        let number = self.files.take_number()?;
        ColdWriter::create(Arc::clone(&self.files.io), self.files.dir.clone(), number)
    }

    /// Add a finished cold segment and drop those that it `replaces`, in one durable step. Readers find the new positions
    /// from now on, and the old ones until [`release`](Self::release): move the index in between. Errors as for
    /// [`drop_segments`](Self::drop_segments); without success the cold segment is gone.
    pub fn install(&mut self, cold: ColdSegment, replaces: &[SegmentNumber]) -> Result<Replaced> {
        let installing = self.begin_install(cold, replaces)?;
        self.installed(installing)
    }

    /// The same in three parts, of which the second, [`Installing::run`], does without the log while that goes on. Nobody else
    /// drops what is replaced meanwhile.
    pub fn begin_install(&mut self, cold: ColdSegment, replaces: &[SegmentNumber]) -> Result<Installing> {
        let exchange = self.begin_exchange(replaces, Some(cold.found))?;
        Ok(Installing { exchange, cold: Some(cold), done: None })
    }

    /// The same with no segment to put in their place; errors as for [`drop_segments`](Self::drop_segments).
    pub fn begin_drop(&mut self, numbers: &[SegmentNumber]) -> Result<Installing> {
        let exchange = self.begin_exchange(numbers, None)?;
        Ok(Installing { exchange, cold: None, done: None })
    }

    /// Take in what came of it.
    pub fn installed(&mut self, mut installing: Installing) -> Result<Replaced> {
        installing.run();
        let Installing { exchange, done, .. } = installing;
        let added = done.expect("invariant: it was run").map_err(|failure| self.fail(failure))?;
        self.files.exchanged(&exchange.numbers, added);
        Ok(Replaced(exchange.numbers))
    }

    /// Nobody will look for records in the replaced segments any more, but who is pinned now. Their space is reused after
    /// that.
    pub fn release(&mut self, replaced: Replaced) {
        self.files.release(&replaced.0);
        self.reclaim();
    }

    fn begin_exchange(&mut self, numbers: &[SegmentNumber], cold: Option<Found>) -> Result<Exchange> {
        self.flush.check()?;
        self.files.check_droppable(numbers)?;
        let hot = numbers.iter().filter_map(|number| self.files.live.get(number)).map(|live| live.found);
        let hot = hot.filter(|found| found.header.kind == SegmentKind::Hot);
        let end_lsn = hot.map(|found| found.seal.end_lsn).max().unwrap_or(Lsn::FIRST);
        // A recovered segment may wait for its sync though all of it is known to be durable; its file must not go before.
        while self.flush.oldest().is_some_and(|oldest| oldest <= end_lsn) && self.flush.flush_one()? {}
        if self.durable_lsn() < end_lsn {
            self.make_durable().map_err(|failure| self.fail(failure))?;
        }
        Ok(self.files.exchange(numbers, cold, self.durable_lsn()))
    }
}

/// A cold segment on its way into the log, and what it replaces on its way out; see [`Log::begin_install`].
#[must_use = "Log::installed takes it in"]
pub struct Installing {
    exchange: Exchange,
    cold: Option<ColdSegment>,
    done: Option<Result<Option<Live>, Failure>>,
}

impl Installing {
    /// Do it; what came of it is known to [`Log::installed`].
    pub fn run(&mut self) {
        if self.done.is_some() {
            return;
        }
        let done = self.exchange.run(self.cold.as_mut());
        if let Some(cold) = self.cold.take_if(|_| !matches!(done, Err(Failure::Full(_)))) {
            // If it failed in the middle, the manifest may name it.
            cold.installed();
        }
        self.done = Some(done);
    }
}

impl std::fmt::Debug for Installing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Installing").field("replaces", &self.exchange.numbers).finish_non_exhaustive()
    }
}
