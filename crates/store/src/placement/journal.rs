//! The placements of a store, and the moves between them, through any crash.
//!
//! A move of units from one partition to another stands in the journal as its begin, its flip and its end. A partition may hold keys
//! of units that it does not own: the target until the flip, the source after it. Such keys are garbage; the move is *left over* until they
//! are gone.
//!
//! | record | says |
//! |---|---|
//! | placement | all of it; whatever moves came before are settled, but for the records that follow it in the same batch |
//! | move | from here on the target (flipped: the source) may hold garbage of the units |
//! | flip | the target owns the units, and the source may hold garbage of them |
//! | clean | nothing is left over of the move |
//! | cut | ranges are split and merged: nobody's owner changes |
//!
//! Invariants:
//!
//! 1. A record is appended and synced before what it allows is done: the first copy into the target after the begin; writes to the target
//!    after the flip.
//! 2. The owner of a unit is never one of which a leftover says that it may hold garbage of it: leftovers that are in the way of a
//!    move are cleaned before it begins.
//! 3. A begin that no flip follows is a move that was given up, whether somebody said so or the process died.
//! 4. The placement does not change between the begin of a move and its flip, nor is a range split or merged: one thread at a time moves. So what the
//!    flip is to say is known before. After the flip, what is left over is named by bounds that may be none any more.
//!
//! Crash argument: a record is whole or not there. Without the begin the target holds nothing of the units. With it and no flip the source
//! owns them, as before. With the flip the target does, which held all of them durably before the flip was appended. Records are dropped
//! only before a whole placement with all its leftovers, one batch of the journal.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_engine::{Error, ErrorKind, Result};
use biombo_journal::{Durability, Journal, JournalOptions};

use super::cuts::Cuts;
use super::record::{Input, RECORD_PLACEMENT};
use super::units::UnitSet;
use super::{PartitionId, Placement};

const RECORD_MOVE: u8 = 2;
const RECORD_FLIP: u8 = 3;
const RECORD_CLEAN: u8 = 4;
const RECORD_CUT: u8 = 5;
/// Bytes of moves after which the journal begins anew with a whole placement, unless that takes more: then as many as it takes. So what is written
/// is at most twice the moves, however many keys are pinned, and what is read at opening at most twice the placement.
const MOVES_BYTES_MAX: usize = 256 << 10;
/// A synced record takes blocks of its own in the journal.
const BLOCK_BYTES: usize = 4096;

/// The number of a move, unique among those that the journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MoveId(u64);

/// A move of which a partition may hold garbage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) units: Arc<UnitSet>,
    from: PartitionId,
    to: PartitionId,
    flipped: bool,
}

impl Leftover {
    /// The partition that may hold keys of the units and does not own them.
    pub(crate) fn holder(&self) -> PartitionId {
        if self.flipped { self.from } else { self.to }
    }

    /// Whether its holder owns one of the units by `placement`: invariant 2 does not hold.
    fn contradicts(&self, placement: &Placement) -> bool {
        self.units.any_is_owned_by(self.holder(), placement)
    }

    /// Whether keys of the units come to, leave or lie in `partition`.
    pub(crate) fn is_about(&self, partition: PartitionId) -> bool {
        self.from == partition || self.to == partition
    }

    fn encode(&self, id: MoveId) -> Vec<u8> {
        let mut out = vec![RECORD_MOVE];
        out.extend_from_slice(&id.0.to_le_bytes());
        out.push(u8::from(self.flipped));
        out.extend_from_slice(&self.from.0.to_le_bytes());
        out.extend_from_slice(&self.to.0.to_le_bytes());
        self.units.encode(&mut out);
        out
    }
}

fn encode_flip(id: MoveId, placement: &Placement) -> Vec<u8> {
    [&[RECORD_FLIP][..], &id.0.to_le_bytes(), &placement.epoch().0.to_le_bytes()].concat()
}

fn encode_clean(id: MoveId) -> Vec<u8> {
    [&[RECORD_CLEAN][..], &id.0.to_le_bytes()].concat()
}

fn encode_cut(cuts: &Cuts, placement: &Placement) -> Vec<u8> {
    let mut out = vec![RECORD_CUT];
    out.extend_from_slice(&placement.epoch().0.to_le_bytes());
    cuts.encode(&mut out);
    out
}

/// What a record takes in the journal, about.
fn taken(record: &[u8]) -> usize {
    record.len().next_multiple_of(BLOCK_BYTES)
}

/// What the records up to one of them say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Replayed {
    placement: Option<Placement>,
    leftovers: BTreeMap<MoveId, Leftover>,
    last: u64,
}

impl Replayed {
    fn take(&mut self, record: &[u8], partitions: u32) -> Result<()> {
        let mut input = Input(record);
        let kind = input.byte()?;
        if kind == RECORD_PLACEMENT {
            self.placement = Some(Placement::decode(record, partitions)?);
            self.leftovers.clear();
            return Ok(());
        }
        if !(RECORD_MOVE..=RECORD_CUT).contains(&kind) {
            return Err(Error::unsupported("of a kind that this version does not know"));
        }
        // What came before the first whole placement is history of which the beginning was dropped.
        let Some(placement) = &self.placement else { return Ok(()) };
        if kind == RECORD_CUT {
            let epoch = input.u64()?;
            let cut = placement.recut(&Cuts::decode(&mut input)?)?;
            if cut.epoch().0 != epoch || !input.0.is_empty() {
                return Err(Error::invalid("a cut to another placement than the next"));
            }
            self.placement = Some(cut);
            return Ok(());
        }
        let id = MoveId(input.u64()?);
        let unknown = || Error::invalid("about a move that did not begin");
        match kind {
            RECORD_MOVE => {
                let flipped = input.byte()? != 0;
                let (from, to) = (PartitionId(input.u16()?), PartitionId(input.u16()?));
                if from.0.max(to.0) as u32 >= partitions {
                    return Err(Error::invalid("a move that names a partition which the store does not have"));
                }
                let units = Arc::new(UnitSet::decode(&mut input)?);
                self.last = self.last.max(id.0);
                self.leftovers.insert(id, Leftover { units, from, to, flipped });
            }
            RECORD_FLIP => {
                let epoch = input.u64()?;
                let leftover = self.leftovers.get_mut(&id).filter(|leftover| !leftover.flipped).ok_or_else(unknown)?;
                let moved = placement.moved(&leftover.units, leftover.to)?;
                if moved.epoch().0 != epoch {
                    return Err(Error::invalid("a flip to another placement than the next"));
                }
                leftover.flipped = true;
                self.placement = Some(moved);
            }
            _ => drop(self.leftovers.remove(&id).ok_or_else(unknown)?),
        }
        if input.0.is_empty() { Ok(()) } else { Err(Error::invalid("longer than what it says")) }
    }
}

impl Replayed {
    /// Whether invariant 2 holds: else what a partition owns would be deleted as garbage.
    fn is_sound(&self) -> bool {
        let Some(placement) = &self.placement else { return true };
        !self.leftovers.values().any(|leftover| leftover.contradicts(placement))
    }
}

/// The open journal of a store's placements.
pub(crate) struct PlacementJournal {
    journal: Journal,
    placement: Placement,
    leftovers: BTreeMap<MoveId, Leftover>,
    last: u64,
    /// Bytes of records since the last whole placement.
    moves_bytes: usize,
    /// Bytes of that.
    whole_bytes: usize,
}

impl PlacementJournal {
    /// Open the journal in `dir`, or create it with `new`.
    pub(crate) fn open(
        io: Arc<dyn Io>,
        dir: &Path,
        options: JournalOptions,
        partitions: u32,
        new: Option<Placement>,
    ) -> Result<Self> {
        let mut replayed = Replayed::default();
        let (mut moves_bytes, mut whole_bytes) = (0, 0);
        let journal = Journal::open(io, dir, options, &mut |lsn, record| {
            if record.first() == Some(&RECORD_PLACEMENT) {
                (moves_bytes, whole_bytes) = (0, taken(record));
            } else {
                moves_bytes += taken(record);
            }
            replayed.take(record, partitions).map_err(|e| {
                let what = format!("{}: record {lsn} is {}", dir.display(), e.message());
                let kind = if e.kind() == ErrorKind::Unsupported { e.kind() } else { ErrorKind::Corruption };
                Error::new(kind, what)
            })
        })?;
        if let Some(new) = new {
            let record = new.encode();
            journal.append(&record, Durability::Sync)?;
            replayed = Replayed { placement: Some(new), ..Replayed::default() };
            (moves_bytes, whole_bytes) = (0, taken(&record));
        }
        if !replayed.is_sound() {
            let what = "the placement journal calls keys garbage that their partition owns";
            return Err(Error::corruption(dir, 0, what));
        }
        let nothing = || Error::corruption(dir, 0, "the placement journal holds no placement");
        let Replayed { placement, leftovers, last } = replayed;
        let placement = placement.ok_or_else(nothing)?;
        Ok(Self { journal, placement, leftovers, last, moves_bytes, whole_bytes })
    }

    /// The present placement.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Moves of which something is left over, in the order of their numbers.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = (MoveId, &Leftover)> {
        self.leftovers.iter().map(|(id, leftover)| (*id, leftover))
    }

    /// A move begins: from now on the target may hold garbage.
    pub(crate) fn begin(&mut self, units: Arc<UnitSet>, from: PartitionId, to: PartitionId) -> Result<MoveId> {
        self.shorten()?;
        let id = MoveId(self.last + 1);
        let leftover = Leftover { units, from, to, flipped: false };
        self.append(&leftover.encode(id))?;
        self.last = id.0;
        self.leftovers.insert(id, leftover);
        Ok(id)
    }

    /// The placement by which the target of a move owns its units. With many pins that takes milliseconds: it is made before anybody is held back.
    pub(crate) fn flipped(&self, id: MoveId) -> Result<Placement> {
        let leftover = self.under_way(id)?;
        self.placement.moved(&leftover.units, leftover.to)
    }

    /// Give the units of a move to its target; `moved` is what [`flipped`](PlacementJournal::flipped) made of the present placement. `Full`: nothing
    /// happened. Any other error: the next opening finds out.
    pub(crate) fn flip(&mut self, id: MoveId, moved: Placement) -> Result<&Placement> {
        self.under_way(id)?;
        if moved.epoch().0 != self.placement.epoch().0 + 1 {
            return Err(Error::invalid("a flip to a placement that was made of another than the present one"));
        }
        self.append(&encode_flip(id, &moved))?;
        if let Some(leftover) = self.leftovers.get_mut(&id) {
            leftover.flipped = true;
        }
        self.placement = moved;
        Ok(&self.placement)
    }

    /// Bytes written since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.journal.stats().written_bytes
    }

    fn under_way(&self, id: MoveId) -> Result<&Leftover> {
        let strange = || Error::invalid("a flip of a move that is not under way");
        self.leftovers.get(&id).filter(|leftover| !leftover.flipped).ok_or_else(strange)
    }

    /// Nothing is left over of a move: `holder` durably holds none of its units. Refused if it is not the holder: what another partition does not
    /// hold says nothing of what this move left over.
    pub(crate) fn clean(&mut self, id: MoveId, holder: PartitionId) -> Result<()> {
        if self.leftovers.get(&id).is_none_or(|leftover| leftover.holder() != holder) {
            return Err(Error::invalid("a partition was cleaned of what a move left over elsewhere"));
        }
        self.append(&encode_clean(id))?;
        self.leftovers.remove(&id);
        Ok(())
    }

    /// Split and merge ranges. An error: nothing happened, or the next opening finds out; whichever it is, no key changes its owner.
    pub(crate) fn recut(&mut self, cuts: &Cuts) -> Result<()> {
        self.shorten()?;
        let cut = self.placement.recut(cuts)?;
        self.append(&encode_cut(cuts, &cut))?;
        self.placement = cut;
        Ok(())
    }

    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.journal.append(record, Durability::Sync)?;
        self.moves_bytes += taken(record);
        Ok(())
    }

    /// Begin anew with a whole placement when the moves outgrew it, so that opening stays short.
    fn shorten(&mut self) -> Result<()> {
        if self.moves_bytes <= MOVES_BYTES_MAX.max(self.whole_bytes) {
            return Ok(());
        }
        let mut records = vec![self.placement.encode()];
        records.extend(self.leftovers.iter().map(|(id, leftover)| leftover.encode(*id)));
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let first = self.journal.append_batch(&records, Durability::Sync)?;
        (self.moves_bytes, self.whole_bytes) = (0, taken(records[0]));
        self.journal.trim(first)
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
