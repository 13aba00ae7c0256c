//! Bytes as they were before compression, told by their first bytes: gzip, Zstandard, or neither.
//!
//! Both formats may hold several members (frames) one after the other, and Zstandard frames to be skipped. What ends in the
//! middle of one is an error, not the end of the data; checksums are compared where the file has them.
//!
//! Memory: a Zstandard decoder keeps what later data may point back to, at most [`WINDOW_BYTES_MAX`]; the official one refuses more too unless it
//! is told otherwise. What one damaged block may grow to is the decoder's to bound, and it does not.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How much is read of the compressed file at once.
const READ_BYTES: usize = 128 << 10;

/// How much a Zstandard decoder gathers before it hands on.
const GATHER_BYTES: usize = 256 << 10;

/// How far back Zstandard data may point.
const WINDOW_BYTES_MAX: usize = 128 << 20;

/// `source` without its compression.
pub(super) fn decompressed(source: Box<dyn Read>) -> Result<Box<dyn Read>> {
    let mut source = BufReader::with_capacity(READ_BYTES, source);
    // A pipe may give few bytes at first: gather what tells the formats apart without losing it.
    let mut head = Vec::new();
    source.by_ref().take(4).read_to_end(&mut head)?;
    let is_gzip = head.starts_with(&[0x1f, 0x8b]);
    let is_zstd = head == [0x28, 0xb5, 0x2f, 0xfd] || matches!(head.as_slice(), [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
    let source = BufReader::with_capacity(READ_BYTES, std::io::Cursor::new(head).chain(source));
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(source))
    } else if is_zstd {
        Box::new(Zstd { source, decoder: FrameDecoder::new(), is_open: false, held: 0 })
    } else {
        Box::new(source)
    })
}

/// Zstandard frames, one after the other.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether `decoder` is within a frame.
    is_open: bool,
    /// Bytes decoded since anything was handed out, at least.
    held: usize,
}

impl<R: BufRead> Zstd<R> {
    /// Begin the next frame that is not to be skipped; false at the end of the file.
    fn open_frame(&mut self) -> Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            // One that has decoded a frame refuses windows in the next that it takes in the first.
            self.decoder = FrameDecoder::new();
            self.held = 0;
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = std::io::copy(&mut self.source.by_ref().take(length.into()), &mut std::io::sink())?;
                    if skipped < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(broken(&error)),
            }
        }
    }

    /// The frame is decoded and handed out: compare its checksum.
    fn close_frame(&mut self) -> Result<()> {
        let (stored, found) = (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
        if stored.is_some() && stored != found {
            return Err(Error::new(ErrorKind::InvalidData, "a checksum of the compressed data does not fit"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_open {
                self.is_open = self.open_frame()?;
                if !self.is_open {
                    return Ok(0);
                }
            }
            if self.decoder.can_collect() > 0 {
                self.held = 0;
                return self.decoder.read(buffer);
            }
            if self.decoder.is_finished() {
                self.close_frame()?;
                self.is_open = false;
                continue;
            }
            if self.held > WINDOW_BYTES_MAX {
                let what = "its Zstandard data points back further than 128 MiB: compress it with --long=27 or less";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            let strategy = BlockDecodingStrategy::UptoBytes(GATHER_BYTES);
            // The decoder panics on some blocks that are damaged.
            let decode = AssertUnwindSafe(|| self.decoder.decode_blocks(&mut self.source, strategy));
            match catch_unwind(decode) {
                Ok(decoded) => drop(decoded.map_err(|error| broken(&error))?),
                Err(_) => {
                    (self.decoder, self.is_open) = (FrameDecoder::new(), false);
                    return Err(Error::new(ErrorKind::InvalidData, "a block of the Zstandard data is damaged"));
                }
            }
            self.held += GATHER_BYTES;
        }
    }
}

/// An error of the decoder; the end of the file within a frame is told apart from damage.
fn broken(error: &FrameDecoderError) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<Error>().is_some_and(|io| io.kind() == ErrorKind::UnexpectedEof) {
            return ErrorKind::UnexpectedEof.into();
        }
        cause = error.source();
    }
    Error::new(ErrorKind::InvalidData, format!("the Zstandard data is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn text() -> Vec<u8> {
        (0..200_000).flat_map(|n: u32| format!("{n} {}\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        decompressed(Box::new(Cursor::new(bytes)))?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn every_compression_gives_back_what_went_in() {
        let text = text();
        for bytes in [text.clone(), gzip(&text), zstd(&text)] {
            assert!(read(bytes).unwrap() == text);
        }
        assert_eq!(read(Vec::new()).unwrap(), b"");
        assert_eq!(read(b"1".to_vec()).unwrap(), b"1");
    }

    #[test]
    fn several_frames_follow_each_other_and_frames_to_be_skipped_are() {
        let text = text();
        let twice = [text.clone(), text.clone()].concat();
        assert!(read([gzip(&text), gzip(&text)].concat()).unwrap() == twice);
        let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        assert!(read([skipped.clone(), zstd(&text), skipped, zstd(&text)].concat()).unwrap() == twice);
    }

    #[test]
    fn a_file_that_is_cut_off_is_never_taken_for_a_shorter_one() {
        let text = text();
        for bytes in [gzip(&text), zstd(&text)] {
            for length in [5, 9, 20, bytes.len() / 2, bytes.len() - 5, bytes.len() - 1] {
                let error = read(bytes[..length].to_vec()).expect_err("an error");
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{length}: {error}");
            }
        }
    }

    /// A frame of blocks that each repeat a byte 128 Ki times, which takes four bytes; its window is as large as `window` says.
    fn repeating(window: &[u8], blocks: u32) -> Vec<u8> {
        let mut frame = [&[0x28, 0xb5, 0x2f, 0xfd][..], window].concat();
        for number in 1..=blocks {
            let header = (128u32 << 10) << 3 | 0b010 | u32::from(number == blocks);
            frame.extend(&header.to_le_bytes()[..3]);
            frame.push(b'7');
        }
        frame
    }

    /// Fails when nothing is handed out until a window of any size is in memory.
    #[test]
    fn data_that_points_back_further_than_the_bound_is_refused_and_all_below_is_read() {
        // One segment of 2^40 bytes.
        let content = [&[0b1110_0000][..], &(1u64 << 40).to_le_bytes()].concat();
        let error = read(repeating(&content, 2_000)).expect_err("too large");
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("--long=27"), "{error}");
        // A window of 128 MiB (2^(10 + 17)), twice: the second frame is read as the first.
        let twice = [repeating(&[0, 17 << 3], 3), repeating(&[0, 17 << 3], 5)].concat();
        assert!(read(twice).unwrap() == vec![b'7'; 8 * (128 << 10)]);
        let large = read(repeating(&[0, 17 << 3], 1_100)).unwrap();
        assert_eq!(large.len(), 1_100 * (128 << 10));
    }

    #[test]
    fn flipped_bits_are_found() {
        let text = text();
        for bytes in [gzip(&text), zstd(&text)] {
            for at in [bytes.len() / 3, bytes.len() / 2, bytes.len() - 6] {
                let mut bytes = bytes.clone();
                bytes[at] ^= 0x10;
                let found = read(bytes);
                assert!(found.is_err() || found.is_ok_and(|found| found == text), "damage at {at} passed");
            }
        }
    }
}
