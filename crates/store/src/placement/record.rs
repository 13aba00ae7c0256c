//! How placements and moves stand in the placement journal: `docs/format/store.md`. What is damaged is an `Invalid` error here,
//! for the caller to place.

use biombo_engine::{Error, Result};

use super::pins::Pins;
use super::{Epoch, PINNED_KEY_BYTES_MAX, PartitionId, Placement, SLOTS, Units};
use crate::PlacementKind;
use crate::bounds::Bounds;

pub(super) const RECORD_PLACEMENT: u8 = 1;

impl Placement {
    /// The record of the placement journal: see `docs/format/store.md`.
    pub(in crate::placement) fn encode(&self) -> Vec<u8> {
        let mut out = vec![RECORD_PLACEMENT, self.kind() as u8];
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        let (starts, owners): (&[Vec<u8>], &[PartitionId]) = match &self.units {
            Units::Hash { owners, .. } => (&[], owners),
            Units::Range { bounds, owners } => (bounds.starts(), owners),
        };
        out.extend_from_slice(&(owners.len() as u32).to_le_bytes());
        for owner in owners {
            out.extend_from_slice(&owner.0.to_le_bytes());
        }
        for start in starts {
            out.extend_from_slice(&(start.len() as u32).to_le_bytes());
            out.extend_from_slice(start);
        }
        if let Units::Hash { pins, .. } = &self.units {
            out.extend_from_slice(&(pins.len() as u32).to_le_bytes());
            for (key, partition) in pins.iter() {
                out.extend_from_slice(&partition.0.to_le_bytes());
                out.extend_from_slice(&(key.len() as u32).to_le_bytes());
                out.extend_from_slice(key);
            }
        }
        out
    }

    /// The placement of a journal record; `Corruption`-worthy damage is an `Invalid` error here, for the caller to place.
    pub(in crate::placement) fn decode(record: &[u8], partitions: u32) -> Result<Self> {
        let mut input = Input(record);
        if input.byte()? != RECORD_PLACEMENT {
            return Err(Error::unsupported(
                "the placement journal holds a record of a kind that this version does not know",
            ));
        }
        let kind = input.byte()?;
        let epoch = Epoch(input.u64()?);
        let count = input.u32()? as usize;
        if count == 0 || count > record.len() {
            return Err(Error::invalid("a placement without units, or with more than its record holds"));
        }
        let owners = (0..count).map(|_| input.u16().map(PartitionId)).collect::<Result<Vec<_>>>()?;
        if owners.iter().any(|owner| u32::from(owner.0) >= partitions) {
            return Err(Error::invalid("a placement that names a partition which the store does not have"));
        }
        let units = match kind {
            k if k == PlacementKind::Hash as u8 && count == SLOTS => {
                let mut pins = Vec::new();
                for _ in 0..input.u32()? {
                    let partition = PartitionId(input.u16()?);
                    let key = input.slice()?;
                    if u32::from(partition.0) >= partitions || key.is_empty() || key.len() > PINNED_KEY_BYTES_MAX {
                        return Err(Error::invalid("a pin of a key or to a partition that cannot be"));
                    }
                    pins.push((key, Some(partition)));
                }
                Units::hash(owners.into(), Pins::default().with(pins))
            }
            k if k == PlacementKind::Range as u8 => {
                let starts = (1..count).map(|_| input.slice().map(<[u8]>::to_vec)).collect::<Result<Vec<_>>>()?;
                if !starts.is_sorted_by(|a, b| a < b) {
                    return Err(Error::invalid("a placement whose ranges are out of order"));
                }
                Units::Range { bounds: Bounds::new(starts), owners }
            }
            _ => return Err(Error::unsupported("a placement of a kind that this version does not know")),
        };
        Ok(Self { epoch, units })
    }
}

/// Where the tests cut a record of so many bytes: at each of them, but in the middle of a long one (a table of slots, whose bytes are all alike)
/// at one of 61, which `lot` chooses. Cut at each, 256 of them took half a minute.
#[cfg(test)]
pub(super) fn cuts(record_bytes: usize, lot: usize) -> impl Iterator<Item = usize> {
    (0..record_bytes).filter(move |cut| *cut < 64 || cut + 1024 > record_bytes || (cut + lot).is_multiple_of(61))
}

/// A reader of little-endian fields that never reads past its end.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (head, rest) =
            self.0.split_at_checked(bytes).ok_or_else(|| Error::invalid("a record that ends too early"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("invariant: take returned N bytes"))
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length of 4 bytes and that many bytes.
    pub(crate) fn slice(&mut self) -> Result<&'a [u8]> {
        let bytes = self.u32()? as usize;
        self.take(bytes)
    }
}
