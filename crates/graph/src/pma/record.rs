//! A batch as a record of the journal: runs of updates of one kind.
//!
//! ```text
//! run:  u8 kind, + 4 when ids have 8 bytes instead of 4 | u32 count | the ids of each update: two of an edge, one of a vertex
//! kind: 0 edge inserted, 1 edge deleted, 2 vertex inserted, 3 vertex deleted; all integers little-endian
//! ```

use biombo_base::coding::{get_u32, get_u64};

use super::update::Update;

const WIDE: u8 = 4;

fn kind(update: &Update) -> u8 {
    match update {
        Update::InsertEdge(..) => 0,
        Update::DeleteEdge(..) => 1,
        Update::InsertVertex(_) => 2,
        Update::DeleteVertex(_) => 3,
    }
}

fn ids(update: &Update) -> (u64, Option<u64>) {
    match *update {
        Update::InsertEdge(a, b) | Update::DeleteEdge(a, b) => (a, Some(b)),
        Update::InsertVertex(a) | Update::DeleteVertex(a) => (a, None),
    }
}

fn is_wide(update: &Update) -> bool {
    let (a, b) = ids(update);
    (a | b.unwrap_or(0)) > u64::from(u32::MAX)
}

/// The record of a batch.
pub(super) fn encode(updates: &[Update]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(updates.len() * 8 + 5);
    let tag = |update: &Update| kind(update) | if is_wide(update) { WIDE } else { 0 };
    for run in updates.chunk_by(|a, b| tag(a) == tag(b)).flat_map(|run| run.chunks(u32::MAX as usize)) {
        let tag = tag(&run[0]);
        bytes.push(tag);
        bytes.extend_from_slice(&(run.len() as u32).to_le_bytes());
        for update in run {
            let (a, b) = ids(update);
            for id in std::iter::once(a).chain(b) {
                let bytes_of = id.to_le_bytes();
                bytes.extend_from_slice(if tag & WIDE != 0 { &bytes_of[..] } else { &bytes_of[..4] });
            }
        }
    }
    bytes
}

/// Updates that are few: their batch is encoded where it stands, and taken in without memory of its own.
pub(super) const FEW: usize = 4;

/// What a batch of one update takes at most: a run of its own, with ids of 8 bytes.
const UPDATE_BYTES_MAX: usize = 5 + 2 * 8;

/// Room before the record of few updates, for what the log says of it.
pub(super) const ROOM: usize = 8;

/// The record of a batch of few updates.
pub(super) struct Few {
    bytes: [u8; ROOM + FEW * UPDATE_BYTES_MAX],
    end: usize,
}

impl Few {
    /// That of at most [`FEW`] updates: the same bytes as [`encode`] gives.
    #[inline]
    pub(super) fn of(updates: &[Update]) -> Self {
        let mut few = Self { bytes: [0; ROOM + FEW * UPDATE_BYTES_MAX], end: ROOM };
        let mut run = None;
        for update in updates {
            let tag = kind(update) | if is_wide(update) { WIDE } else { 0 };
            match run {
                Some((begin, of)) if of == tag => few.bytes[begin + 1] += 1,
                _ => {
                    run = Some((few.end, tag));
                    few.put([tag, 1, 0, 0, 0]);
                }
            }
            let (a, b) = ids(update);
            for id in std::iter::once(a).chain(b) {
                if tag & WIDE != 0 { few.put(id.to_le_bytes()) } else { few.put((id as u32).to_le_bytes()) }
            }
        }
        few
    }

    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.end..self.end + N].copy_from_slice(&bytes);
        self.end += N;
    }

    /// Without the room before it.
    pub(super) fn batch(&self) -> &[u8] {
        &self.bytes[ROOM..self.end]
    }

    /// With the room before it.
    pub(super) fn whole(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.end]
    }
}

/// The batch of a record; `None` when it is none.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<Update>> {
    let mut updates = Vec::new();
    while let Some((tag, rest)) = bytes.split_first() {
        let (kind, width) = (tag & 3, if tag & WIDE != 0 { 8 } else { 4 });
        if *tag > 3 | WIDE {
            return None;
        }
        let ends = if kind < 2 { 2 } else { 1 };
        let count = get_u32(rest, 0)? as usize;
        let (run, after) = rest[4..].split_at_checked(count.checked_mul(ends * width)?)?;
        let id = |at: usize| if width == 8 { get_u64(run, at * 8) } else { get_u32(run, at * 4).map(u64::from) };
        updates.reserve(count);
        for update in 0..count {
            updates.push(match kind {
                0 => Update::InsertEdge(id(2 * update)?, id(2 * update + 1)?),
                1 => Update::DeleteEdge(id(2 * update)?, id(2 * update + 1)?),
                2 => Update::InsertVertex(id(update)?),
                _ => Update::DeleteVertex(id(update)?),
            });
        }
        bytes = after;
    }
    Some(updates)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id() -> impl Strategy<Value = u64> {
        prop_oneof![0..100u64, Just(u64::from(u32::MAX)), Just(u64::from(u32::MAX) + 1), any::<u64>()]
    }

    fn update() -> impl Strategy<Value = Update> {
        prop_oneof![
            (id(), id()).prop_map(|(a, b)| Update::InsertEdge(a, b)),
            (id(), id()).prop_map(|(a, b)| Update::DeleteEdge(a, b)),
            id().prop_map(Update::InsertVertex),
            id().prop_map(Update::DeleteVertex),
        ]
    }

    #[test]
    fn an_edge_of_small_ids_takes_8_bytes_in_a_batch() {
        let batch: Vec<Update> = (0..1000).map(|n| Update::InsertEdge(n, n + 1)).collect();
        assert_eq!(encode(&batch).len(), 5 + 8 * batch.len());
        assert_eq!(encode(&[]), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn batches_come_back_from_their_records(updates in proptest::collection::vec(update(), 0..50)) {
            let record = encode(&updates);
            prop_assert_eq!(decode(&record), Some(updates));
            if record.len() > 1 {
                prop_assert!(decode(&record[..record.len() - 1]).is_none(), "a record that was cut off is none");
            }
        }

        #[test]
        fn few_updates_have_the_record_that_many_would_have(updates in proptest::collection::vec(update(), 0..=FEW)) {
            let mut few = Few::of(&updates);
            prop_assert_eq!(few.batch(), encode(&updates));
            prop_assert_eq!(&few.whole()[ROOM..], encode(&updates));
        }

        #[test]
        fn any_bytes_are_a_batch_or_none(bytes in proptest::collection::vec(prop_oneof![0..8u8, any::<u8>()], 0..60)) {
            _ = decode(&bytes);
        }
    }
}
