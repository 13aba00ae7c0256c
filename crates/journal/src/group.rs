//! What waits for the next write: batches, copied the moment they arrive, to be laid out as frames by the leader.

use std::ops::Range;

use crate::Lsn;
use crate::frame::Batch;

/// The room that a buffer keeps from one group to the next.
const KEEP_BYTES: usize = 4 << 20;

/// One batch in a group.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// Who waits for it.
    pub ticket: u64,
    pub first_lsn: Lsn,
    /// Its records, in `Group::lengths`.
    records: Range<usize>,
    /// Their bytes, in `Group::bytes`.
    bytes: Range<usize>,
}

impl Member {
    pub fn record_count(&self) -> u64 {
        self.records.len() as u64
    }

    pub fn record_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Batches for one write.
#[derive(Debug, Default)]
pub(crate) struct Group {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    pub members: Vec<Member>,
    /// Somebody waits until it is on the device.
    pub sync: bool,
}

impl Group {
    /// Add a batch.
    pub fn push(&mut self, ticket: u64, first_lsn: Lsn, records: &[&[u8]]) {
        let (record, byte) = (self.lengths.len(), self.bytes.len());
        for bytes in records {
            self.lengths.push(bytes.len());
            self.bytes.extend_from_slice(bytes);
        }
        let (records, bytes) = (record..self.lengths.len(), byte..self.bytes.len());
        self.members.push(Member { ticket, first_lsn, records, bytes });
    }

    /// What is left of it, to be written.
    pub fn batches(&self) -> Vec<Gathered<'_>> {
        let gathered = |member: &Member| Gathered {
            lengths: &self.lengths[member.records.clone()],
            bytes: &self.bytes[member.bytes.clone()],
        };
        self.members.iter().map(gathered).collect()
    }

    /// Drop the first `count`, which were written.
    pub fn remove_front(&mut self, count: usize) {
        self.members.drain(..count);
    }

    pub fn clear(&mut self) {
        self.members.clear();
        self.lengths.clear();
        self.bytes.clear();
        self.sync = false;
        if self.bytes.capacity() > KEEP_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// A batch that lies in a group.
pub(crate) struct Gathered<'a> {
    lengths: &'a [usize],
    bytes: &'a [u8],
}

impl Batch for Gathered<'_> {
    fn count(&self) -> usize {
        self.lengths.len()
    }

    fn each(&self, record: &mut impl FnMut(&[&[u8]])) {
        let mut rest = self.bytes;
        for &length in self.lengths {
            let (bytes, behind) = rest.split_at(length);
            record(&[bytes]);
            rest = behind;
        }
    }
}

/// The batch that a caller brings, as it will be framed.
pub(crate) struct Records<'a>(pub &'a [&'a [u8]]);

impl Batch for Records<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn each(&self, record: &mut impl FnMut(&[&[u8]])) {
        self.0.iter().for_each(|bytes| record(&[bytes]));
    }
}
