//! A pass over the keys of some units in one partition, a chunk at a time.
//!
//! Copying and cleaning go by it. A chunk ends after so many keys that were looked at, or so many bytes that were gathered, and the next one begins
//! behind its last key, with a cursor of its own: nothing old is held on to between chunks.
//!
//! Invariant: each chunk looks at one key at least, whatever its bounds are, so that every pass ends.

use biombo_engine::{Cursor, Result};

use crate::placement::UnitSet;

/// Bounds of a chunk; 0 counts as 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// Keys that are looked at.
    pub(super) keys: usize,
    /// Bytes that are gathered.
    pub(super) bytes: usize,
}

/// Look at the stored keys behind `position` that may be of `units`; the position moves on. `take` is asked for each of which `is_wanted` holds, with
/// the cursor on it, and says how many bytes it has gathered by then. Says whether there may be more.
pub(super) fn walk(
    cursor: &mut dyn Cursor,
    units: &UnitSet,
    position: &mut Vec<u8>,
    chunk: Chunk,
    is_wanted: impl Fn(&[u8]) -> bool,
    mut take: impl FnMut(&[u8], &dyn Cursor) -> Result<usize>,
) -> Result<bool> {
    let Some(begin) = units.seek(position) else { return Ok(false) };
    cursor.seek(&begin)?;
    // Looked at before: were it counted again, a chunk of one key would never get past it.
    if cursor.key() == Some(position.as_slice()) {
        cursor.next()?;
    }
    let (mut looked, mut gathered) = (0, 0);
    while let Some(key) = cursor.key() {
        if looked >= chunk.keys.max(1) || gathered >= chunk.bytes.max(1) {
            return Ok(true);
        }
        looked += 1;
        position.clear();
        position.extend_from_slice(key);
        if is_wanted(key) {
            gathered = take(key, &*cursor)?;
            cursor.next()?;
            continue;
        }
        // Past the end of a range: on to the next one.
        match units.seek(key) {
            None => return Ok(false),
            Some(next) if *next > *key => {
                let next = next.into_owned();
                cursor.seek(&next)?;
            }
            Some(_) => cursor.next()?,
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use biombo_engine::memory::Memory;
    use biombo_engine::{Durability, Engine, Op};

    use super::*;
    use crate::{Placement, UnitId, keyspace};

    fn key(number: u32) -> Vec<u8> {
        [&[(number % 3) as u8][..], format!("key{number:03}").as_bytes()].concat()
    }

    /// Each key once, in as many chunks as there are keys at most: a chunk that looked at none would be the last that anybody sees.
    #[test]
    fn every_key_of_the_units_is_met_once_whatever_the_bounds_of_a_chunk_are() {
        let engine = Arc::new(Memory::new());
        let mut stored: Vec<Vec<u8>> = (0..200).map(|number| keyspace::encode(&key(number)).into_owned()).collect();
        stored.sort();
        for key in &stored {
            engine.apply(&[Op::Put { key, value: &[7; 10] }], Durability::Os).expect("a put");
        }
        let (hash, range) = (Placement::hash(3), Placement::range(8, (0..200).map(key).collect()));
        let few: Vec<Vec<u8>> = (0..200).step_by(9).map(key).collect();
        let sets = [
            UnitSet::of(&hash, &(0..2000).map(UnitId).collect::<Vec<_>>()).expect("slots"),
            UnitSet::of(&range, &[UnitId(1), UnitId(4), UnitId(7)]).expect("ranges"),
            UnitSet::of_keys(&hash, few.iter().map(Vec::as_slice)).expect("keys"),
        ];
        for units in &sets {
            let wanted: Vec<_> = stored.iter().filter(|key| units.holds(key)).cloned().collect();
            assert!(wanted.len() > 20, "{}", wanted.len());
            for (keys, bytes) in [(0, 0), (0, 1000), (1000, 0), (1, 1), (3, 50), (1000, 50), (1000, 100_000)] {
                let (mut met, mut position, mut chunks) = (Vec::new(), Vec::new(), 0);
                loop {
                    let engine: Arc<dyn Engine> = engine.clone();
                    let (mut cursor, mut gathered) = (engine.cursor().expect("a cursor"), 0);
                    let take = |key: &[u8], cursor: &dyn Cursor| {
                        gathered += key.len() + cursor.value().expect("a value").len();
                        met.push(key.to_vec());
                        Ok(gathered)
                    };
                    let chunk = Chunk { keys, bytes };
                    let more = walk(&mut *cursor, units, &mut position, chunk, |key| units.holds(key), take);
                    chunks += 1;
                    assert!(chunks <= stored.len() + 1, "{keys} keys, {bytes} bytes: it does not get on");
                    if !more.expect("no error") {
                        break;
                    }
                }
                assert_eq!(met, wanted, "{keys} keys, {bytes} bytes");
            }
        }
    }
}
