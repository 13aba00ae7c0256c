//! Right checksums for damaged bytes: what is behind a checksum is read only when that is right, so damage that is to be found
//! deeper gets one. Written from the pages in `docs/format/`, beside the code that writes these files.

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, get_u64, put_u32};
use biombo_base::io::BLOCK_BYTES;
use biombo_journal::format::{FRAME_HEADER_BYTES, FRAME_MAGIC, RECORD_HEADER_BYTES, record_bytes};
use biombo_log::index::CHUNK_BYTES;

/// Put the checksum of `bytes[from..end]`, begun with `seed`, at `at`.
fn put(bytes: &mut [u8], at: usize, seed: u32, from: usize, end: usize) {
    if let Some(sealed) = bytes.get(from..end) {
        let crc = crc32c_append(seed, sealed);
        if bytes.len() >= at + 4 {
            put_u32(bytes, at, crc);
        }
    }
}

/// A segment: its header, and every frame that begins with the magic of one.
pub fn segment(bytes: &mut [u8]) {
    put(bytes, 60, 0, 0, 60);
    let seed = crc32c(bytes.get(16..24).unwrap_or_default());
    let mut at = BLOCK_BYTES;
    while at + FRAME_HEADER_BYTES <= bytes.len() {
        if get_u32(bytes, at + 4) == Some(FRAME_MAGIC) {
            at += frame(seed, &mut bytes[at..]).max(8);
        } else {
            at += 8;
        }
    }
}

/// A frame at the beginning of `bytes`, with all of its records that lie in them; returns its length.
pub fn frame(seed: u32, bytes: &mut [u8]) -> usize {
    let (Some(payload), Some(flags), Some(count)) = (get_u32(bytes, 16), get_u32(bytes, 8), get_u32(bytes, 20)) else {
        return bytes.len();
    };
    let end = bytes.len().min(FRAME_HEADER_BYTES.saturating_add(payload as usize));
    let count = if flags & 2 != 0 { 1 } else { count };
    let (mut at, mut headers_crc) = (FRAME_HEADER_BYTES, 0);
    for _ in 0..count {
        let Some(length) = get_u32(&bytes[..end], at).filter(|_| at + RECORD_HEADER_BYTES <= end) else { break };
        let record_end = (at + RECORD_HEADER_BYTES).saturating_add(length as usize);
        let Some(record) = bytes[..end].get(at + RECORD_HEADER_BYTES..record_end) else { break };
        let crc = crc32c_append(crc32c_append(seed, &length.to_le_bytes()), record);
        put_u32(bytes, at + 4, crc);
        headers_crc = crc32c_append(headers_crc, &bytes[at..at + RECORD_HEADER_BYTES]);
        at += record_bytes(length as usize);
    }
    if bytes.len() >= FRAME_HEADER_BYTES {
        put_u32(bytes, 12, headers_crc);
        put(bytes, 0, seed, 4, FRAME_HEADER_BYTES);
    }
    end
}

/// The manifest of a log: its header, and every edit.
pub fn log_manifest(bytes: &mut [u8]) {
    put(bytes, 60, 0, 0, 60);
    let seed = crc32c(bytes.get(16..24).unwrap_or_default());
    let mut at = BLOCK_BYTES;
    while at < bytes.len() {
        let payload = get_u32(bytes, at + 4).unwrap_or(0) as usize;
        let end = at + 16 + payload;
        if payload == 0 || end > bytes.len() {
            at += BLOCK_BYTES;
            continue;
        }
        put(&mut bytes[at..], 0, seed, 4, end - at);
        at = end.next_multiple_of(BLOCK_BYTES);
    }
}

/// A checkpoint of the index: its chunks, the header of the image in its tail, the tail, its header.
pub fn checkpoint(bytes: &mut [u8]) {
    let (Some(tail_at), Some(tail_bytes)) = (get_u64(bytes, 24), get_u64(bytes, 32)) else { return };
    let (Ok(tail_at), Ok(tail_bytes)) = (usize::try_from(tail_at), usize::try_from(tail_bytes)) else { return };
    let (chunks, tail) = bytes.split_at_mut(tail_at.min(bytes.len()));
    let tail_bytes = tail_bytes.min(tail.len());
    let tail = &mut tail[..tail_bytes];
    if let Some(count) = get_u32(tail, 16) {
        let image_at = (count as usize).saturating_mul(96).saturating_add(24);
        if let Some(image) = tail.get_mut(image_at..) {
            image_header(image, chunks.get(BLOCK_BYTES..).unwrap_or_default());
        }
    }
    let crc = crc32c(tail);
    if bytes.len() >= 48 {
        put_u32(bytes, 40, crc);
        put(bytes, 44, 0, 0, 44);
    }
}

/// The header of an image of the index, for these chunks.
pub fn image_header(header: &mut [u8], chunks: &[u8]) {
    for (number, chunk) in chunks.chunks_exact(CHUNK_BYTES).enumerate() {
        let at = 40 + number * 4;
        if at + 8 <= header.len() {
            put_u32(header, at, crc32c(chunk));
        }
    }
    if let Some(end) = header.len().checked_sub(4) {
        put(header, end, 0, 0, end);
    }
}

/// The manifest of a store: its last line is made that of what is before it.
pub fn store_manifest(text: &[u8]) -> Vec<u8> {
    const LINE: &[u8] = b"# crc32c ";
    let end = text.windows(LINE.len()).rposition(|window| window == LINE).unwrap_or(text.len());
    let mut sealed = text[..end].to_vec();
    let crc = crc32c(&sealed);
    sealed.extend_from_slice(LINE);
    sealed.extend_from_slice(format!("{crc:08x}\n").as_bytes());
    sealed
}

/// A backup: every block that its length says.
pub fn backup(bytes: &mut [u8]) {
    let mut at = 16;
    while let Some(length) = get_u64(bytes, at) {
        let end = usize::try_from(length).ok().and_then(|length| (at + 12).checked_add(length));
        let Some(end) = end.filter(|end| *end <= bytes.len()) else { return };
        let crc = crc32c_append(crc32c(&length.to_le_bytes()), &bytes[at + 12..end]);
        put_u32(bytes, at + 8, crc);
        at = end;
    }
}
