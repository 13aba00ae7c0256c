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

    /// Nothing is left over of a move: its holder durably holds none of its units.
    pub(crate) fn clean(&mut self, id: MoveId) -> Result<()> {
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
mod tests {
    use super::*;
    use crate::UnitId;
    use biombo_base::io::sim::{Crash, SimIo};
    use proptest::prelude::*;

    const PARTITIONS: u32 = 3;

    fn open(io: &SimIo, new: Option<Placement>) -> Result<PlacementJournal> {
        let options = JournalOptions { segment_bytes: 16 << 10, ..JournalOptions::default() };
        PlacementJournal::open(Arc::new(io.clone()), Path::new("placement"), options, PARTITIONS, new)
    }

    fn range() -> Placement {
        Placement::range(PARTITIONS, ["", "g", "p"].map(|key| key.as_bytes().to_vec()).to_vec())
    }

    fn units(placement: &Placement, numbers: &[u32]) -> Arc<UnitSet> {
        let numbers: Vec<_> = numbers.iter().copied().map(UnitId).collect();
        Arc::new(UnitSet::of(placement, &numbers).expect("units"))
    }

    fn flip(journal: &mut PlacementJournal, id: MoveId) -> Result<()> {
        let moved = journal.flipped(id)?;
        journal.flip(id, moved).map(drop)
    }

    /// What it says, to be compared.
    fn said(journal: &PlacementJournal) -> (Placement, Vec<(MoveId, Leftover)>) {
        (journal.placement().clone(), journal.leftovers().map(|(id, leftover)| (id, leftover.clone())).collect())
    }

    #[test]
    fn what_is_reopened_says_the_same_after_each_record() {
        for new in [Placement::hash(PARTITIONS), range()] {
            let io = SimIo::new(1);
            let mut journal = open(&io, Some(new.clone())).expect("create");
            let (from, to) = (PartitionId(1), PartitionId(2));
            let check = |journal: PlacementJournal| {
                let before = said(&journal);
                drop(journal);
                let journal = open(&io, None).expect("open");
                assert_eq!(said(&journal), before);
                journal
            };
            let elsewhere = PartitionId(0);
            let given_up = journal.begin(units(&new, &[1]), from, elsewhere).expect("begin");
            journal = check(journal);
            let moved = journal.begin(units(&new, &[1]), from, to).expect("begin");
            assert!(moved > given_up);
            flip(&mut journal, moved).expect("flip");
            journal = check(journal);
            assert_eq!(journal.placement().owner_of(UnitId(1)), Some(to));
            let holders: Vec<_> = journal.leftovers().map(|(_, leftover)| leftover.holder()).collect();
            assert_eq!(holders, [elsewhere, from], "the one given up left copies, the other what it moved");
            assert_eq!(flip(&mut journal, moved).expect_err("twice").kind(), ErrorKind::Invalid);
            journal.clean(given_up).expect("clean");
            journal.clean(moved).expect("clean");
            journal = check(journal);
            assert_eq!(journal.leftovers().count(), 0);
        }
    }

    /// Ranges are cut between moves and through what they left over; each record is cut, and what is left stays known.
    #[test]
    fn ranges_that_are_cut_while_something_is_left_over_come_back_through_any_crash() {
        let io = SimIo::new(4);
        let mut journal = open(&io, Some(range())).expect("create");
        let mut states = vec![(io.event_count(), said(&journal))];
        let keys = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>();
        let mut step = |journal: &mut PlacementJournal, act: &dyn Fn(&mut PlacementJournal)| {
            act(journal);
            states.push((io.event_count(), said(journal)));
        };
        let splits = |journal: &mut PlacementJournal, at: &[&str]| {
            let cuts = Cuts::splits(journal.placement(), keys(at)).expect("keys");
            journal.recut(&cuts).expect("splits");
        };
        let moves = |journal: &mut PlacementJournal, number: u32, to: u16, flips: bool| {
            let from = journal.placement().owner_of(UnitId(number)).expect("a unit");
            let set = units(journal.placement(), &[number]);
            let id = journal.begin(set, from, PartitionId(to)).expect("begin");
            if flips {
                flip(journal, id).expect("flip");
            }
        };
        step(&mut journal, &|journal| splits(journal, &["c", "e", "k"]));
        step(&mut journal, &|journal| moves(journal, 1, 2, true));
        step(&mut journal, &|journal| moves(journal, 3, 0, false));
        // Through what moved, and through what was given up.
        step(&mut journal, &|journal| splits(journal, &["d", "h"]));
        step(&mut journal, &|journal| {
            let cuts = Cuts::merges(journal.placement(), |key| key != b"e").expect("ranges");
            journal.recut(&cuts).expect("merges");
        });
        assert_eq!(journal.leftovers().count(), 2);
        assert_eq!(journal.placement().owner(b"d"), PartitionId(2));
        // What partition 0 may hold garbage of it may not get back by a record: part of it is enough.
        let back = journal.placement().moved(&units(journal.placement(), &[1]), PartitionId(0)).expect("a unit");
        assert!(journal.leftovers().any(|(_, leftover)| leftover.contradicts(&back)));
        assert!(!journal.leftovers().any(|(_, leftover)| leftover.contradicts(journal.placement())));
        drop(journal);
        let mut points = io.crash_points();
        loop {
            let acknowledged = states.partition_point(|(at, _)| *at <= points.cut());
            for crash in [Crash::Kill, Crash::Nothing, Crash::Random(points.cut() as u64)] {
                let what = format!("cut {} ({}), {crash:?}", points.cut(), points.label());
                let Ok(journal) = open(&points.image(crash), None) else {
                    assert_eq!(acknowledged, 0, "{what}");
                    continue;
                };
                // A move that begins and flips is two records.
                let found = said(&journal);
                let begun = found.1.iter().any(|(_, leftover)| leftover.contradicts(&found.0));
                let mut allowed = states[acknowledged.saturating_sub(1)..].iter().take(2);
                let is_half = acknowledged == 2 && found.1.len() == 1;
                assert!(
                    !begun && (is_half || acknowledged == 0 || allowed.any(|(_, state)| *state == found)),
                    "{what}"
                );
            }
            if !points.advance() {
                return;
            }
        }
    }

    /// Moves of all slots back and forth outgrow the journal's bound some times; what is left over stays known, through any cut.
    #[test]
    fn a_journal_that_begins_anew_keeps_what_is_left_over_and_stays_short() {
        let io = SimIo::new(2);
        let all: Vec<u32> = (0..crate::SLOTS as u32).collect();
        let placement = Placement::hash(1);
        let mut journal = open(&io, Some(placement.clone())).expect("create");
        let left = journal.begin(units(&placement, &[7]), PartitionId(0), PartitionId(2)).expect("begin");
        let mut states = vec![(io.event_count(), said(&journal))];
        for round in 0..40u16 {
            let (from, to) = (PartitionId(round % 2), PartitionId((round + 1) % 2));
            let id = journal.begin(units(&placement, &all), from, to).expect("begin");
            states.push((io.event_count(), said(&journal)));
            flip(&mut journal, id).expect("flip");
            states.push((io.event_count(), said(&journal)));
            journal.clean(id).expect("clean");
            states.push((io.event_count(), said(&journal)));
        }
        let bytes: u64 = io.files().iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes < 400 << 10, "{bytes} bytes of 800 KiB that were appended");
        assert!(journal.leftovers().any(|(id, _)| id == left));
        drop(journal);
        let mut points = io.crash_points();
        loop {
            let acknowledged = states.partition_point(|(at, _)| *at <= points.cut());
            for crash in [Crash::Kill, Crash::Nothing, Crash::Random(points.cut() as u64)] {
                let what = format!("cut {} ({}), {crash:?}", points.cut(), points.label());
                let found = match open(&points.image(crash), None) {
                    Ok(journal) => said(&journal),
                    // Before the first placement is durable there is none.
                    Err(error) => {
                        assert_eq!(acknowledged, 0, "{what}: {error}");
                        continue;
                    }
                };
                let mut allowed = states[acknowledged.saturating_sub(1)..].iter().take(2);
                let is_right = allowed.any(|(_, state)| *state == found) || acknowledged == 0;
                assert!(is_right, "{what}: {:?}", found.1);
            }
            if !points.advance() {
                return;
            }
        }
    }

    /// Were a placement of many pins written anew after each 256 KiB of moves, its bytes would be most of what is written.
    #[test]
    fn a_placement_with_many_pins_is_written_anew_only_after_as_many_bytes_of_moves() {
        let io = SimIo::new(3);
        let options = || JournalOptions { segment_bytes: 4 << 20, ..JournalOptions::default() };
        let dir = Path::new("placement");
        let open = |new| PlacementJournal::open(Arc::new(io.clone()), dir, options(), PARTITIONS, new);
        let mut placement = Placement::hash(PARTITIONS);
        let keys: Vec<Vec<u8>> = (0..1100u32).map(|number| [&number.to_be_bytes()[..], &[7; 1000]].concat()).collect();
        let all = UnitSet::of_keys(&placement, keys.iter().map(Vec::as_slice)).expect("keys");
        placement = placement.moved(&all, PartitionId(2)).expect("keys");
        let whole = placement.encode().len();
        assert!(whole > 700 << 10, "{whole}");
        let mut journal = open(Some(placement.clone())).expect("create");
        let few = Arc::new(UnitSet::of_keys(&placement, keys[..50].iter().map(Vec::as_slice)).expect("keys"));
        let (mut anew, mut moves) = (0, 0);
        for round in 0..30u16 {
            let before = journal.moves_bytes;
            let (from, to) = (PartitionId(round % 2), PartitionId((round + 1) % 2));
            let id = journal.begin(Arc::clone(&few), from, to).expect("begin");
            anew += usize::from(journal.moves_bytes < before);
            flip(&mut journal, id).expect("flip");
            journal.clean(id).expect("clean");
            moves += 1;
            if round % 7 == 3 {
                let said_before = (said(&journal), journal.moves_bytes, journal.whole_bytes);
                drop(journal);
                journal = open(None).expect("open");
                assert_eq!((said(&journal), journal.moves_bytes, journal.whole_bytes), said_before);
            }
        }
        // Each takes some 60 KiB: by the bytes of moves alone it would be seven times.
        assert_eq!((anew, moves), (2, 30));
    }

    #[test]
    fn records_that_contradict_what_came_before_are_refused() {
        let new = Placement::hash(PARTITIONS);
        let id = MoveId(5);
        let begin = |from, to| {
            let leftover = Leftover { units: units(&new, &[0]), from, to, flipped: false };
            leftover.encode(id)
        };
        let whole = begin(PartitionId(0), PartitionId(1));
        let moved = new.moved(&units(&new, &[0]), PartitionId(1)).expect("units");
        let flip = encode_flip(id, &moved);
        let replay = |records: &[&[u8]]| {
            let mut replayed = Replayed::default();
            records.iter().try_for_each(|record| replayed.take(record, PARTITIONS)).map(|()| replayed)
        };
        let first = new.encode();
        assert_eq!(replay(&[&first, &whole, &flip]).expect("in order").placement, Some(moved.clone()));
        replay(&[&flip, &first]).expect("history of which the beginning was dropped");
        let (back, clean) = (encode_flip(id, &new), encode_clean(id));
        let nowhere = begin(PartitionId(0), PartitionId(3));
        let wrong: [&[&[u8]]; 6] = [
            &[&first, &flip],
            &[&first, &whole, &flip, &flip],
            &[&first, &whole, &back],
            &[&first, &clean],
            &[&first, &nowhere],
            &[&first, &[9, 0, 0]],
        ];
        for records in wrong {
            replay(records).expect_err("wrong");
        }
        // What partition 0 owns would be deleted: as left by a move from it, and as copied by one to it.
        assert!(replay(&[&first, &whole]).expect("whole").is_sound());
        let left = |units| Leftover { units, from: PartitionId(0), to: PartitionId(1), flipped: true }.encode(id);
        let key = (b'a'..).find(|key| new.owner(&[*key]) == PartitionId(0)).expect("a key of it");
        let alone = Arc::new(UnitSet::of_keys(&new, [&[key][..]]).expect("a key"));
        for wrong in [left(units(&new, &[0])), left(alone), begin(PartitionId(1), PartitionId(0))] {
            assert!(!replay(&[&first, &wrong]).expect("whole").is_sound());
        }
        for cut in 0..whole.len() {
            assert!(replay(&[&first, &whole[..cut]]).is_err(), "cut at {cut}");
        }
        let ranges = range();
        let first = ranges.encode();
        let cuts = Cuts::splits(&ranges, [b"k".to_vec()]).expect("a key");
        let split = ranges.recut(&cuts).expect("a key");
        let record = encode_cut(&cuts, &split);
        assert_eq!(replay(&[&first, &record]).expect("in order").placement, Some(split));
        let (longer, stale) = ([&record[..], &[0]].concat(), encode_cut(&cuts, &ranges));
        let wrong: [&[&[u8]]; 3] = [&[&first, &record, &record], &[&first, &stale], &[&first, &longer]];
        for records in wrong {
            replay(records).expect_err("wrong");
        }
        for cut in 0..record.len() {
            assert!(replay(&[&first, &record[..cut]]).is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_records_never_panic(records in proptest::collection::vec(proptest::collection::vec(0u8..6, 0..40), 0..6)) {
            let mut replayed = Replayed::default();
            let _ = replayed.take(&range().encode(), PARTITIONS);
            for record in records {
                let _ = replayed.take(&record, PARTITIONS);
            }
        }
    }
}
