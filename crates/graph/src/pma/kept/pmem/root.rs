//! The root: which image counts, and which records it lacks.
//!
//! ```text
//! line 0:     0 "BIOMBOPM"   8 u32 version   16 u64 identity                 60 u32 checksum
//! line 1, 2:  0 u64 generation   8 u64 applied: the first record that the image lacks   60 u32 checksum
//! ```
//!
//! The slot of an even generation is line 1, of an odd one line 2. Checksums are CRC-32C of a line's first 60 bytes; those of slots
//! are seeded with the identity.
//!
//! Crash argument: a slot is stored over zeros or over another whole one, so that a torn one fails its checksum. What a crash left of a torn
//! one is cleared before the next is stored: words of both might make a slot that nobody stored.

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::{Error, Result};

use super::Place;
use crate::media::Backing;
use crate::media::persistent::{LINE_BYTES, Region};

/// The root's name, which is that of the graph.
pub(super) const NAME: &str = "graph.pmem";
/// Its name while the graph is made.
const NAME_NEW: &str = "graph.pmem.new";

const MAGIC: &[u8; 8] = b"BIOMBOPM";
const VERSION: u32 = 1;
/// A page, of which three lines are used.
const ROOT_BYTES: u64 = 4096;
const LINE: usize = LINE_BYTES as usize;

/// What counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// The number of the image.
    pub(super) generation: u64,
    /// The first record that is not in it.
    pub(super) applied: u64,
}

impl Slot {
    /// That of a new graph.
    pub(super) const FIRST: Self = Self { generation: 1, applied: 1 };

    fn offset(self) -> u64 {
        LINE_BYTES * (1 + self.generation % 2)
    }

    fn encode(self, identity: u64) -> [u8; LINE] {
        let mut line = [0; LINE];
        put_u64(&mut line, 0, self.generation);
        put_u64(&mut line, 8, self.applied);
        let checksum = crc32c_append(crc32c(&identity.to_le_bytes()), &line[..LINE - 4]);
        put_u32(&mut line, LINE - 4, checksum);
        line
    }

    /// The slot in a line of the root; `None` when it was never stored, or torn.
    fn decode(root: &[u8], line: u64, identity: u64) -> Option<Self> {
        let bytes = root.get((line * LINE_BYTES) as usize..)?.get(..LINE)?;
        let slot = Self { generation: get_u64(bytes, 0)?, applied: get_u64(bytes, 8)? };
        (slot.encode(identity) == bytes && slot.offset() == line * LINE_BYTES).then_some(slot)
    }
}

/// The root; see the module.
pub(super) struct Root {
    region: Box<dyn Region>,
    identity: u64,
    slot: Slot,
    /// Why nobody knows which slot counts.
    failed: Option<String>,
}

impl Root {
    /// A graph is there from when this returns.
    pub(super) fn create(place: &Place, identity: u64) -> Result<Backing> {
        let mut header = [0; LINE];
        header[..8].copy_from_slice(MAGIC);
        put_u32(&mut header, 8, VERSION);
        put_u64(&mut header, 16, identity);
        let checksum = crc32c(&header[..LINE - 4]);
        put_u32(&mut header, LINE - 4, checksum);
        let make = || {
            let mut region = place.medium.create(NAME_NEW, ROOT_BYTES)?;
            region.store(0, &header);
            region.store(Slot::FIRST.offset(), &Slot::FIRST.encode(identity));
            region.write_back(0, 3 * LINE_BYTES);
            region.fence()?;
            place.medium.rename(NAME_NEW, NAME)?;
            Ok(region.backing())
        };
        make().map_err(place.refused("write", NAME))
    }

    /// The one that is there.
    pub(super) fn open(place: &Place) -> Result<Self> {
        let mut region = place.open(NAME)?;
        let bytes = region.bytes();
        let Some(header) = bytes.get(..LINE) else {
            return Err(place.damaged(NAME, bytes.len() as u64, "the file is shorter than its header"));
        };
        if !header.starts_with(MAGIC) {
            return Err(place.damaged(NAME, 0, "this is no graph of biombo"));
        }
        let version = get_u32(header, 8).unwrap_or_default();
        if version != VERSION {
            let path = place.dir.join(NAME);
            let path = path.display();
            let message =
                format!("{path} has version {version} of its format, this program knows {VERSION}: use a newer one");
            return Err(Error::unsupported(message));
        }
        if get_u32(header, LINE - 4) != Some(crc32c(&header[..LINE - 4])) {
            return Err(place.damaged(NAME, 0, "the header's checksum does not fit"));
        }
        if bytes.len() as u64 != ROOT_BYTES {
            let what = format!("the file has {} bytes, and not {ROOT_BYTES}", bytes.len());
            return Err(place.damaged(NAME, bytes.len() as u64, what));
        }
        let identity = get_u64(header, 16).unwrap_or_default();
        let slots = (1..=2).filter_map(|line| Slot::decode(bytes, line, identity));
        let slot = slots.max_by_key(|slot| slot.generation);
        let slot = slot.ok_or_else(|| place.damaged(NAME, LINE_BYTES, "neither slot has a checksum that fits"))?;
        let other = Slot { generation: slot.generation.wrapping_add(1), ..slot }.offset();
        if Slot::decode(bytes, other / LINE_BYTES, identity).is_none() {
            region.store(other, &[0; LINE]);
        }
        // Whoever stored the slot may have died before it was persistent; what it replaces is about to go.
        region.write_back(0, 3 * LINE_BYTES);
        region.fence().map_err(place.refused("write", NAME))?;
        Ok(Self { region, identity, slot, failed: None })
    }

    /// The graph's own number, which its records' checksums are seeded with.
    pub(super) fn identity(&self) -> u64 {
        self.identity
    }

    pub(super) fn slot(&self) -> Slot {
        self.slot
    }

    /// Whether there may be another slot.
    pub(super) fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(Error::poisoned(why)))
    }

    /// Another slot counts, the next in sequence, from when this returns: one store of a line, one write-back, one fence. Until then either may.
    pub(super) fn store(&mut self, slot: Slot) -> std::io::Result<()> {
        // Also where a panic ends it: who stored another image under the name that this slot leads to would take its image away.
        self.failed = Some("a thread ended in the middle of saving".to_owned());
        self.region.store(slot.offset(), &slot.encode(self.identity));
        self.region.write_back(slot.offset(), LINE_BYTES);
        self.region.fence().inspect_err(|error| self.failed = Some(error.to_string()))?;
        (self.slot, self.failed) = (slot, None);
        Ok(())
    }
}
