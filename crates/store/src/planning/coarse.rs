//! Where ranges are split, because one bears more than could be balanced, and where they are merged, because nobody asks for them any more.
//!
//! A range is *coarse* where it bears more than a part of a partition's share, so that moving it moves too much or nothing. It is split where the known
//! keys' loads say that parts of a share end; a key that alone bears as much gets a range of its own. Neighbours of one partition that bear next to
//! nothing together are merged, once there are many ranges. Between the two bounds lies a gap, so that what was split is not merged for a little
//! less load.
//!
//! Neither moves anything: what is paid is a synced record.
//!
//! Invariant: what is given out splits or merges something, within what a store may have of ranges.

use std::collections::HashMap;

use biombo_engine::Result;
use biombo_tracker::Window;

use super::graph::load_of;
use crate::placement::{CUT_BYTES_MAX, Cuts};
use crate::{Placement, UnitId};

/// Ranges that bear the share of a partition, at least, once they are split.
const PIECES: f64 = 8.0;
/// A range that bears so many pieces' load is coarse.
const COARSE: f64 = 2.0;
/// Pieces of one range at a time.
const PIECES_MAX: usize = 32;
/// Known keys on each side of a split, unless one is hot.
const KEYS_MIN: usize = 2;
/// Neighbours that bear less than this part of a piece together are merged.
const COLD: f64 = 0.25;
/// Ranges for each partition from which on cold ones are merged, and of which no more are split.
const RANGES: (usize, usize) = (16, 64);

/// What would make ranges that can be balanced; none, where they can be, or nothing is known.
pub(super) fn cuts(window: &Window, placement: &Placement, partitions: u32) -> Result<Option<Cuts>> {
    let loads: HashMap<u32, f64> = window.units().map(|(unit, load)| (unit, load_of(load))).collect();
    let piece = loads.values().sum::<f64>() / (PIECES * f64::from(partitions.max(1)));
    if piece <= 0.0 {
        return Ok(None);
    }
    let most = RANGES.1 * partitions as usize;
    if placement.units() > RANGES.0 * partitions as usize {
        let cold = merges(&loads, placement, piece * COLD)?;
        // Not for a few: they come together.
        if cold.len() > partitions as usize || (placement.units() >= most && !cold.is_empty()) {
            return Ok(Some(cold));
        }
    }
    let keys = splits(window, &loads, placement, piece);
    let room = most.saturating_sub(placement.units());
    let cuts = Cuts::splits(placement, keys.into_iter().take(room))?;
    Ok(Some(cuts).filter(|cuts| !cuts.is_empty()))
}

fn merges(loads: &HashMap<u32, f64>, placement: &Placement, most: f64) -> Result<Cuts> {
    let load = |unit: u32| loads.get(&unit).copied().unwrap_or(0.0);
    // Of the range that grows, from its first piece on.
    let mut grown: Option<(u32, f64)> = None;
    Cuts::merges(placement, |start| {
        let unit = placement.unit_of(start).0;
        let before = grown.filter(|(last, _)| last + 1 == unit).map_or_else(|| load(unit - 1), |(_, sum)| sum);
        let sum = before + load(unit);
        grown = (sum < most).then_some((unit, sum));
        grown.is_some()
    })
}

/// Keys at which to split, those of the heaviest ranges first.
fn splits(window: &Window, loads: &HashMap<u32, f64>, placement: &Placement, piece: f64) -> Vec<Vec<u8>> {
    let mut coarse: Vec<_> = loads.iter().filter(|(_, load)| **load > COARSE * piece).collect();
    coarse.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(b.0)));
    if coarse.is_empty() {
        return Vec::new();
    }
    let mut known: HashMap<UnitId, Vec<(&[u8], f64)>> = HashMap::new();
    for view in window.keys().filter(|view| view.key.len() < CUT_BYTES_MAX) {
        known.entry(placement.unit_of(view.key)).or_default().push((view.key, load_of(view.load)));
    }
    let mut all = Vec::new();
    for (unit, load) in coarse {
        let Some(keys) = known.get_mut(&UnitId(*unit)) else { continue };
        keys.sort_unstable_by_key(|(key, _)| *key);
        let pieces = ((load / piece) as usize).clamp(2, PIECES_MAX);
        all.extend(split(keys, pieces));
    }
    all
}

/// Where so many pieces of equal load begin, among keys in order.
fn split(keys: &[(&[u8], f64)], pieces: usize) -> Vec<Vec<u8>> {
    let share = keys.iter().map(|(_, load)| load).sum::<f64>() / pieces as f64;
    let (mut cuts, mut sum, mut count) = (Vec::new(), 0.0, 0);
    for (at, (key, load)) in keys.iter().enumerate() {
        let end = || keys.get(at + 1).map_or_else(|| [key, &[0][..]].concat(), |(next, _)| next.to_vec());
        if *load >= share {
            // Alone, whatever lies before it and after it.
            cuts.extend([key.to_vec(), end()]);
            (sum, count) = (0.0, 0);
            continue;
        }
        (sum, count) = (sum + load, count + 1);
        if sum >= share && count >= KEYS_MIN && keys.len() - at > KEYS_MIN {
            cuts.push(end());
            (sum, count) = (0.0, 0);
        }
    }
    cuts
}

/// What share of each range of `old` lies in which ranges of `new`, by the loads of known keys, and evenly where none is known.
pub(super) fn pieces(window: &Window, old: &Placement, new: &Placement) -> Vec<Vec<(u32, f64)>> {
    let mut pieces: Vec<Vec<(u32, f64)>> =
        overlaps(old, new).map(|new| new.map(|unit| (unit, 0.0)).collect()).collect();
    for view in window.keys() {
        let (unit, part) = (old.unit_of(view.key).0, new.unit_of(view.key).0);
        let found = pieces.get_mut(unit as usize).and_then(|pieces| pieces.iter_mut().find(|piece| piece.0 == part));
        if let Some(found) = found {
            found.1 += view.load.total();
        }
    }
    for pieces in &mut pieces {
        let sum: f64 = pieces.iter().map(|(_, load)| load).sum();
        let count = pieces.len() as f64;
        pieces.iter_mut().for_each(|(_, load)| *load = if sum > 0.0 { *load / sum } else { 1.0 / count });
    }
    pieces
}

/// For each range of `of`, in order, the numbers of those of `among` that share keys with it.
pub(super) fn overlaps<'a>(of: &'a Placement, among: &'a Placement) -> impl Iterator<Item = std::ops::Range<u32>> + 'a {
    let starts = among.starts();
    let ranges = of.ranges();
    (0..ranges.len()).map(move |number| {
        let first = among.unit_of(ranges[number].0).0;
        let end = ranges.get(number + 1).map(|(start, _)| *start);
        let end = end.map_or(starts.len(), |end| starts.partition_point(|start| start.as_slice() < end));
        first..end as u32 + 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use biombo_tracker::{Limits, Rates, Tracker};

    fn key(number: u32) -> Vec<u8> {
        format!("key{number:05}").into_bytes()
    }

    fn window(placement: &Placement, accesses: impl Iterator<Item = u32>) -> Window {
        let mut window = Window::new(Limits::default());
        let tracker = Tracker::new(Rates { singles: 1, groups: 1, ring_bytes: 1 << 20, thinned_max: 1 });
        for number in accesses {
            tracker.write(&key(number));
            tracker.drain(|sample| window.note(sample, |key| placement.unit_of(key).0));
        }
        window
    }

    fn range(partitions: u32) -> Placement {
        Placement::range(partitions, (0..8000).map(key).collect())
    }

    #[test]
    fn what_bears_too_much_is_split_where_its_load_is_and_what_is_even_is_left_alone() {
        let placement = range(4);
        let even = window(&placement, (0..8000).step_by(7));
        let cuts = cuts(&even, &placement, 4).expect("ranges").expect("whole shares are coarse");
        let fine = placement.recut(&cuts).expect("splits");
        assert!((28..=40).contains(&fine.units()), "{}", fine.units());
        let again = window(&fine, (0..8000).step_by(7));
        assert_eq!(super::cuts(&again, &fine, 4).expect("ranges"), None);
        // All load on a hundredth of one range, which is split, and none of the others.
        let hot = window(&placement, (0..2000).map(|turn| 4100 + turn % 20));
        let cuts = super::cuts(&hot, &placement, 4).expect("ranges").expect("coarse");
        let fine = placement.recut(&cuts).expect("splits");
        let new: Vec<_> = fine.starts().iter().filter(|start| !placement.starts().contains(start)).collect();
        assert!(new.len() >= 9 && new.iter().all(|start| (key(4100)..=key(4120)).contains(start)), "{new:?}");
    }

    #[test]
    fn a_key_that_bears_as_much_as_a_range_gets_one_of_its_own() {
        let placement = range(2);
        let window = window(&placement, (0..4000).map(|turn| if turn % 2 == 0 { 5000 } else { 4000 + turn }));
        let cuts = cuts(&window, &placement, 2).expect("ranges").expect("coarse");
        let fine = placement.recut(&cuts).expect("splits");
        let alone = fine.unit_of(&key(5000));
        assert_ne!(fine.unit_of(&key(4999)), alone);
        assert_ne!(fine.unit_of(&key(5001)), alone);
        assert!(super::cuts(&window, &fine, 2).is_ok());
    }

    #[test]
    fn cold_neighbours_of_one_partition_come_together_once_there_are_many_and_hot_ones_stay() {
        let placement = range(2);
        let many = Cuts::splits(&placement, (0..8000).step_by(200).map(key)).expect("keys");
        let fine = placement.recut(&many).expect("splits");
        let window = window(&fine, (0..3000).map(|turn| 3000 + turn % 400));
        let cold = cuts(&window, &fine, 2).expect("ranges").expect("many are cold");
        let merged = fine.recut(&cold).expect("of one partition each");
        assert!(merged.units() < 12, "{} of {}", merged.units(), fine.units());
        assert_eq!(merged.unit_of(&key(3000)).0 + 1, merged.unit_of(&key(3200)).0, "what is hot stays apart");
        let few = range(2);
        let window = self::window(&few, (0..3000).step_by(2));
        let grown = cuts(&window, &few, 2).expect("ranges").expect("coarse");
        assert!(few.recut(&grown).expect("splits").units() > few.units(), "few are split before they are merged");
    }

    #[test]
    fn what_is_known_of_a_range_is_known_of_its_pieces_by_their_loads() {
        let old = range(2);
        let cuts = Cuts::splits(&old, [1000, 1100].map(key)).expect("keys");
        let new = old.recut(&cuts).expect("splits");
        let window = window(&old, (0..100).map(|turn| if turn < 75 { 10 + turn } else { 1000 + turn % 50 }));
        assert_eq!(pieces(&window, &old, &new), [vec![(0, 0.75), (1, 0.25), (2, 0.0)], vec![(3, 1.0)]]);
        assert_eq!(pieces(&window, &new, &old), [vec![(0, 1.0)], vec![(0, 1.0)], vec![(0, 1.0)], vec![(1, 1.0)]]);
        let nothing = Window::new(Limits::default());
        assert_eq!(pieces(&nothing, &old, &new)[0].iter().map(|(_, share)| share * 3.0).sum::<f64>(), 3.0);
    }
}
