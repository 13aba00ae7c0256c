//! The journal of placements: what it says when it is opened again, through any cut.

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
        let error = journal.clean(moved, to).expect_err("it owns them");
        assert_eq!((error.kind(), journal.leftovers().count()), (ErrorKind::Invalid, 2));
        journal.clean(given_up, elsewhere).expect("clean");
        journal.clean(moved, from).expect("clean");
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
            assert!(!begun && (is_half || acknowledged == 0 || allowed.any(|(_, state)| *state == found)), "{what}");
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
        journal.clean(id, from).expect("clean");
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
        journal.clean(id, from).expect("clean");
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
