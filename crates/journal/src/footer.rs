//! Footers: bytes of the owner's at the end of a sealed segment, in a frame of their own that holds one record without an
//! lsn. The manifest says where it is; it begins at a block behind the last frame.

use std::path::Path;

use biombo_base::io::{AlignedBuf, BLOCK_BYTES, Io, OpenMode};
use biombo_base::{Error, Result};

use crate::Lsn;
use crate::format::{FLAG_FOOTER, FLAG_LAST_OF_WRITE, FRAME_HEADER_BYTES, FrameHeader, record_bytes, records};
use crate::frame::{Batch, encode_frame};
use crate::manifest::FooterAt;

/// The footer as the blocks to be written, behind records up to `end_lsn`.
pub(crate) fn encode_footer(seed: u32, end_lsn: Lsn, durable_lsn: Lsn, footer: &[u8]) -> AlignedBuf {
    let parts: [&[u8]; 1] = [footer];
    let batch: &[&[&[u8]]] = &[&parts];
    let bytes = batch.frame_bytes();
    let mut blocks = AlignedBuf::zeroed(bytes.next_multiple_of(BLOCK_BYTES));
    let flags = FLAG_FOOTER | FLAG_LAST_OF_WRITE;
    encode_frame(&mut blocks[..bytes], &batch, seed, flags, end_lsn, durable_lsn, &mut |_| {});
    blocks
}

/// How many bytes of blocks a footer takes.
pub(crate) fn footer_blocks_bytes(footer_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + record_bytes(footer_bytes)).next_multiple_of(BLOCK_BYTES)
}

/// Read it back. `Corruption` when it is not as it was written.
pub(crate) fn read_footer(io: &dyn Io, path: &Path, seed: u32, at: FooterAt) -> Result<Vec<u8>> {
    let failed = |e| Error::io(format_args!("read {}", path.display()), e);
    let file = io.open(path, OpenMode::READ).map_err(failed)?;
    let bytes = FRAME_HEADER_BYTES + record_bytes(at.bytes as usize);
    let mut frame = vec![0; bytes];
    let got = file.read_at(&mut frame, at.offset).map_err(failed)?;
    let whole = FrameHeader::decode(seed, &frame[..got]).filter(FrameHeader::is_footer).and_then(|header| {
        let payload = frame.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.payload_bytes as usize)?;
        records(seed, &header, payload)?.next().map(|(_, footer)| footer.to_vec())
    });
    match whole {
        Some(footer) if footer.len() == at.bytes as usize => Ok(footer),
        _ => Err(Error::corruption(path, at.offset, "the footer of a segment is not as it was written")),
    }
}
