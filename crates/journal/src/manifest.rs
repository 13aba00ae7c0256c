//! Which segments exist: a file of edits, each durable before what it says is relied on. `docs/format/journal.md` draws it.
//!
//! Invariants:
//! 1. An edit is written whole, in blocks of its own, by one direct synchronous write behind the one before; it counts if its
//!    checksum holds and its number is the next. So a torn edit is none.
//! 2. A segment's records count only after the edit that names it is durable, and its file goes only after the edit
//!    that drops it is.
//! 3. A full manifest is written anew beside the old one, synced, and renamed over it: one of the two is always there. An edit is appended only to one
//!    whose name is durable: a second edit proves that it was.
//!
//! A segment that is named and has no file is damage; a file that is not named is what a crash left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::io::{AlignedBuf, BLOCK_BYTES, File, Io, OpenMode};
use biombo_base::{Error, Result};

use crate::failure::Failure;
use crate::format::{FORMAT_VERSION, check_version};
use crate::names::manifest_path;
use crate::{Lsn, SegmentKind, SegmentNumber};

const MAGIC: [u8; 8] = *b"BIOMBOLM";
const EDIT_HEADER_BYTES: usize = 16;
const OP_BYTES: usize = 40;
/// The room of a manifest, unless what it says needs more, in bytes.
const ROOM_BYTES: usize = 16 * BLOCK_BYTES;

/// Where a sealed segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    pub end_lsn: Lsn,
    /// Where its frames end.
    pub data_bytes: u64,
    pub footer: Option<FooterAt>,
}

impl Seal {
    /// Where all of it ends, its footer included.
    pub fn end_bytes(&self) -> u64 {
        self.footer.map_or(self.data_bytes, |footer| {
            let bytes = crate::format::FRAME_HEADER_BYTES + crate::format::record_bytes(footer.bytes as usize);
            footer.offset + bytes as u64
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FooterAt {
    /// Where its frame begins.
    pub offset: u64,
    pub bytes: u32,
}

/// A segment that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: SegmentKind,
    pub base_lsn: Lsn,
    /// `None`: it was the last one of the log when this was written.
    pub seal: Option<Seal>,
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// The segment exists from now on.
    Made { number: SegmentNumber, kind: SegmentKind, base_lsn: Lsn },
    /// It is written no more.
    Sealed { number: SegmentNumber, seal: Seal },
    /// It exists no more.
    Dropped { number: SegmentNumber },
    /// All records of the log before this are durable, and so are all cold segments.
    Durable(Lsn),
    /// Numbers below this were given.
    NextNumber(SegmentNumber),
}

/// What all edits together say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub entries: BTreeMap<SegmentNumber, Entry>,
    pub durable_lsn: Lsn,
    pub next_number: SegmentNumber,
}

impl Default for State {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), durable_lsn: Lsn::FIRST, next_number: SegmentNumber(1) }
    }
}

impl State {
    pub fn apply(&mut self, op: &Op) {
        match *op {
            Op::Made { number, kind, base_lsn } => {
                self.entries.insert(number, Entry { kind, base_lsn, seal: None });
                self.next_number = self.next_number.max(SegmentNumber(number.0.saturating_add(1)));
            }
            Op::Sealed { number, seal } => {
                if let Some(entry) = self.entries.get_mut(&number) {
                    entry.seal = Some(seal);
                }
            }
            Op::Dropped { number } => drop(self.entries.remove(&number)),
            Op::Durable(lsn) => self.durable_lsn = self.durable_lsn.max(lsn),
            Op::NextNumber(number) => self.next_number = self.next_number.max(number),
        }
    }

    fn ops(&self) -> Vec<Op> {
        let mut ops = vec![Op::NextNumber(self.next_number), Op::Durable(self.durable_lsn)];
        for (&number, entry) in &self.entries {
            ops.push(Op::Made { number, kind: entry.kind, base_lsn: entry.base_lsn });
            ops.extend(entry.seal.map(|seal| Op::Sealed { number, seal }));
        }
        ops
    }
}

impl Op {
    fn encode(&self, into: &mut [u8]) {
        let (tag, kind, number) = match *self {
            Self::Made { number, kind, base_lsn } => {
                put_u64(into, 8, base_lsn.0);
                (1, u32::from(kind == SegmentKind::Cold), number.0)
            }
            Self::Sealed { number, seal } => {
                put_u64(into, 8, seal.end_lsn.0);
                put_u64(into, 16, seal.data_bytes);
                put_u64(into, 24, seal.footer.map_or(0, |footer| footer.offset));
                put_u64(into, 32, seal.footer.map_or(0, |footer| u64::from(footer.bytes)));
                (2, 0, number.0)
            }
            Self::Dropped { number } => (3, 0, number.0),
            Self::Durable(lsn) => {
                put_u64(into, 8, lsn.0);
                (4, 0, 0)
            }
            Self::NextNumber(number) => (5, 0, number.0),
        };
        put_u32(into, 0, tag | kind << 8);
        put_u32(into, 4, number);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, number) = (get_u32(bytes, 0)?, SegmentNumber(get_u32(bytes, 4)?));
        let lsn = Lsn(get_u64(bytes, 8)?);
        Some(match tag {
            0x001 => Self::Made { number, kind: SegmentKind::Hot, base_lsn: lsn },
            0x101 => Self::Made { number, kind: SegmentKind::Cold, base_lsn: lsn },
            2 => {
                let (offset, bytes_of_footer) = (get_u64(bytes, 24)?, get_u64(bytes, 32)?.try_into().ok()?);
                let footer = (offset > 0).then_some(FooterAt { offset, bytes: bytes_of_footer });
                Self::Sealed { number, seal: Seal { end_lsn: lsn, data_bytes: get_u64(bytes, 16)?, footer } }
            }
            3 => Self::Dropped { number },
            4 => Self::Durable(lsn),
            5 => Self::NextNumber(number),
            _ => return None,
        })
    }
}

fn edit_bytes(ops: usize) -> usize {
    (EDIT_HEADER_BYTES + ops * OP_BYTES).next_multiple_of(BLOCK_BYTES)
}

fn encode_edit(into: &mut AlignedBuf, id: u64, sequence: u64, ops: &[Op]) {
    let start = into.len();
    into.resize(start + edit_bytes(ops.len()));
    let edit = &mut into[start..];
    let end = EDIT_HEADER_BYTES + ops.len() * OP_BYTES;
    put_u32(edit, 4, (ops.len() * OP_BYTES) as u32);
    put_u64(edit, 8, sequence);
    for (op, place) in ops.iter().zip(edit[EDIT_HEADER_BYTES..end].chunks_exact_mut(OP_BYTES)) {
        op.encode(place);
    }
    let crc = crc32c_append(crc32c(&id.to_le_bytes()), &edit[4..end]);
    put_u32(edit, 0, crc);
}

/// The number of the edit at the beginning of `bytes`, its operations, and the bytes that it takes.
fn decode_edit(id: u64, bytes: &[u8]) -> Option<(u64, Vec<Op>, usize)> {
    let payload = get_u32(bytes, 4)? as usize;
    let end = EDIT_HEADER_BYTES.checked_add(payload)?;
    let sealed = bytes.get(4..end)?;
    if crc32c_append(crc32c(&id.to_le_bytes()), sealed) != get_u32(bytes, 0)? || !payload.is_multiple_of(OP_BYTES) {
        return None;
    }
    let ops = sealed[EDIT_HEADER_BYTES - 4..].chunks_exact(OP_BYTES).map(Op::decode).collect::<Option<_>>()?;
    Some((get_u64(bytes, 8)?, ops, edit_bytes(payload / OP_BYTES)))
}

/// A manifest as it was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub state: State,
    id: u64,
    /// Of the last edit.
    sequence: u64,
    last: std::ops::Range<usize>,
    bytes: Vec<u8>,
}

impl Loaded {
    /// Read it; `None` where there is none.
    pub fn read(io: &dyn Io, dir: &Path) -> Result<Option<Self>> {
        let path = manifest_path(dir);
        let failed = |e| Error::io(format_args!("read {}", path.display()), e);
        if !io.exists(&path).map_err(failed)? {
            return Ok(None);
        }
        let file = io.open(&path, OpenMode::READ).map_err(failed)?;
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        let got = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(got);
        Self::parse(&path, bytes).map(Some)
    }

    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        let damaged = |offset: usize, what: &str| Err(Error::corruption(path, offset as u64, what));
        let (Some(head), Some(crc)) = (bytes.get(..60), get_u32(&bytes, 60)) else {
            return damaged(0, "the file is too short for a manifest");
        };
        if head[..8] != MAGIC {
            return damaged(0, "this is no manifest of a log");
        }
        if crc32c(head) != crc {
            return damaged(60, "the checksum of the manifest's header differs");
        }
        let header = "invariant: 60 bytes are there";
        check_version(path, get_u32(&bytes, 8).expect(header))?;
        let id = get_u64(&bytes, 16).expect(header);
        let mut loaded =
            Self { state: State::default(), id, sequence: 0, last: BLOCK_BYTES..BLOCK_BYTES, bytes: Vec::new() };
        while let Some((sequence, ops, count)) = decode_edit(id, &bytes[loaded.last.end.min(bytes.len())..])
            && sequence == loaded.sequence + 1
        {
            ops.iter().for_each(|op| loaded.state.apply(op));
            loaded.sequence = sequence;
            loaded.last = loaded.last.end..loaded.last.end + count;
        }
        // A later edit was begun only when all before it were durable.
        let end = loaded.last.end;
        for at in (end..bytes.len()).step_by(BLOCK_BYTES) {
            if decode_edit(id, &bytes[at..]).is_some_and(|(sequence, ..)| sequence > loaded.sequence) {
                return damaged(end, "an edit of the manifest cannot be read, and a later one can");
            }
        }
        if loaded.sequence == 0 {
            return damaged(BLOCK_BYTES, "the manifest's first edit cannot be read");
        }
        loaded.bytes = bytes;
        Ok(loaded)
    }

    /// Where an edit would be that is torn or damaged.
    pub fn end(&self) -> u64 {
        self.last.end as u64
    }
}

/// What can be read of a manifest, however damaged it is.
#[derive(Debug, Default)]
pub(crate) struct Salvaged {
    pub path: PathBuf,
    pub state: State,
    /// Where something is lost, and what.
    pub losses: Vec<(u64, &'static str)>,
}

impl Salvaged {
    /// Apply every edit that can be read, in order. `Unsupported` when another version wrote it.
    pub fn read(io: &dyn Io, dir: &Path) -> Result<Self> {
        let path = manifest_path(dir);
        let failed = |e| Error::io(format_args!("read {}", path.display()), e);
        let mut salvaged = Self { path: path.clone(), ..Self::default() };
        if !io.exists(&path).map_err(failed)? {
            salvaged.losses.push((0, "the manifest is missing"));
            return Ok(salvaged);
        }
        let file = io.open(&path, OpenMode::READ).map_err(failed)?;
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        let got = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(got);
        let head = bytes.get(..60).filter(|head| head[..8] == MAGIC && get_u32(&bytes, 60) == Some(crc32c(head)));
        match head.and_then(|head| get_u32(head, 8)) {
            Some(version) => check_version(&path, version)?,
            None => salvaged.losses.push((0, "the header of the manifest is damaged")),
        }
        // The id proves itself by the edits that it seals.
        let id = get_u64(&bytes, 16).unwrap_or(0);
        let (mut at, mut last) = (BLOCK_BYTES, 0);
        while at < bytes.len() {
            match decode_edit(id, &bytes[at..]).filter(|(sequence, ..)| *sequence > last) {
                Some((sequence, ops, count)) => {
                    if sequence != last + 1 {
                        salvaged.losses.push((at as u64, "edits of the manifest before this one cannot be read"));
                    }
                    ops.iter().for_each(|op| salvaged.state.apply(op));
                    last = sequence;
                    at += count;
                }
                None => at += BLOCK_BYTES,
            }
        }
        if last == 0 {
            salvaged.losses.push((BLOCK_BYTES as u64, "no edit of the manifest can be read"));
        }
        Ok(salvaged)
    }
}

/// The manifest, to be changed.
pub(crate) struct Manifest {
    io: Arc<dyn Io>,
    path: PathBuf,
    file: Arc<dyn File>,
    id: u64,
    sequence: u64,
    end: usize,
    room: usize,
    /// Bytes written since it was opened.
    pub written_bytes: u64,
    pub state: State,
}

impl Manifest {
    /// Go on with the one that was read, or make the first one, which is durable then.
    pub fn open(io: Arc<dyn Io>, dir: &Path, loaded: Option<Loaded>) -> Result<Self, Failure> {
        let path = manifest_path(dir);
        let Some(loaded) = loaded else { return Self::make(io, path, State::default(), 0) };
        if loaded.sequence == 1 {
            // Nothing was said after it got its name: the sync of that may have failed and lost it for good, though it is seen. Edits of a file
            // without a durable name would go with it.
            return Self::make(io, path, loaded.state, 0);
        }
        let failed = |e| Failure::fatal(Error::io(format_args!("open {}", path.display()), e));
        let mode = OpenMode { direct_sync: true, write: true, ..OpenMode::READ };
        let file = io.open(&path, mode).map_err(failed)?;
        // What a failed write left may be visible and not durable: write the last edit once more, the same bytes.
        let mut last = AlignedBuf::with_capacity(loaded.last.len());
        let there = loaded.last.start..loaded.last.end.min(loaded.bytes.len());
        last.extend_from_slice(&loaded.bytes[there]);
        // A file that was cut in the zeros that fill its last edit has all of it.
        last.resize(loaded.last.len());
        file.write_at(&last, loaded.last.start as u64).map_err(failed)?;
        let Loaded { state, id, sequence, last, bytes } = loaded;
        let written_bytes = last.len() as u64;
        Ok(Self { io, path, file, id, sequence, end: last.end, room: bytes.len(), written_bytes, state })
    }

    /// A fresh one that says `state`, in the place of whatever there is; durable when this returns.
    pub fn open_as(io: Arc<dyn Io>, dir: &Path, state: State) -> Result<Self, Failure> {
        Self::make(io, manifest_path(dir), state, 0)
    }

    /// A fresh one that says `state`, with room for `more` bytes of edits at least.
    fn make(io: Arc<dyn Io>, path: PathBuf, state: State, more: usize) -> Result<Self, Failure> {
        let id = io.random_u64();
        let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES);
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, FORMAT_VERSION);
        put_u64(&mut bytes, 16, id);
        let crc = crc32c(&bytes[..60]);
        put_u32(&mut bytes, 60, crc);
        encode_edit(&mut bytes, id, 1, &state.ops());
        let end = bytes.len();
        let room = (2 * end + more).max(ROOM_BYTES);
        let new = path.with_extension("new");
        let mode = OpenMode { direct_sync: true, ..OpenMode::CREATE_NEW };
        let before = |e| Failure::before(Error::io(format_args!("write {}", new.display()), e));
        // One that a crash left may be longer, or be read back in part.
        if io.exists(&new).map_err(before)? {
            io.remove_file(&new).map_err(before)?;
        }
        let written = io.open(&new, mode).and_then(|file| {
            file.allocate(room as u64)?;
            file.write_at(&bytes, 0)?;
            file.sync()?;
            Ok(file)
        });
        let file = written.map_err(before).inspect_err(|_| drop(io.remove_file(&new)))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        io.rename(&new, &path)
            .and_then(|()| io.sync_dir(dir))
            .map_err(|e| Failure::fatal(Error::io(format_args!("name {}", path.display()), e)))?;
        Ok(Self { io, path, file, id, sequence: 1, end, room, written_bytes: end as u64, state })
    }

    /// Make sure that an edit of so many operations can be appended. `Full`: nothing was changed.
    pub fn reserve(&mut self, ops: usize) -> Result<(), Failure> {
        let needed = edit_bytes(ops);
        if self.end + needed > self.room {
            let before = self.written_bytes;
            *self = Self::make(Arc::clone(&self.io), self.path.clone(), self.state.clone(), needed)?;
            self.written_bytes += before;
        }
        Ok(())
    }

    /// Append an edit, for which room was [reserved](Self::reserve); it is durable when this returns.
    pub fn append(&mut self, ops: &[Op]) -> Result<(), Error> {
        let mut bytes = AlignedBuf::new();
        encode_edit(&mut bytes, self.id, self.sequence + 1, ops);
        self.file
            .write_at(&bytes, self.end as u64)
            .map_err(|e| crate::failure::unknown(Error::io(format_args!("write {}", self.path.display()), e)))?;
        self.sequence += 1;
        self.end += bytes.len();
        self.written_bytes += bytes.len() as u64;
        ops.iter().for_each(|op| self.state.apply(op));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use biombo_base::ErrorKind;
    use biombo_base::io::sim::{Crash, Fault, FaultKind, SimIo};

    use super::*;

    fn ops(n: u32) -> Vec<Op> {
        let seal = Seal {
            end_lsn: Lsn(u64::from(n) + 1),
            data_bytes: 8192,
            footer: Some(FooterAt { offset: 8192, bytes: n }),
        };
        vec![
            Op::Made { number: SegmentNumber(n), kind: SegmentKind::Hot, base_lsn: Lsn(u64::from(n)) },
            Op::Sealed {
                number: SegmentNumber(n),
                seal: if n.is_multiple_of(2) { seal } else { Seal { footer: None, ..seal } },
            },
            Op::Made { number: SegmentNumber(n + 1000), kind: SegmentKind::Cold, base_lsn: Lsn(1) },
            Op::Dropped { number: SegmentNumber(n / 2) },
            Op::Durable(Lsn(u64::from(n))),
        ]
    }

    fn read(sim: &SimIo) -> Result<Option<Loaded>> {
        Loaded::read(sim, Path::new(""))
    }

    #[test]
    fn a_manifest_says_after_any_crash_what_its_durable_edits_said() {
        let sim = SimIo::new(1);
        let mut manifest = Manifest::open(Arc::new(sim.clone()), Path::new(""), None).unwrap();
        let mut states = vec![(0, manifest.state.clone()), (sim.event_count(), manifest.state.clone())];
        for n in 1..40 {
            manifest.reserve(5).unwrap();
            manifest.append(&ops(n)).unwrap();
            states.push((sim.event_count(), manifest.state.clone()));
        }
        assert!(
            sim.labels().iter().filter(|label| label.starts_with("rename")).count() > 2,
            "it was never written anew"
        );
        let mut points = sim.crash_points();
        loop {
            let promised = states.partition_point(|(event, _)| *event <= points.cut()) - 1;
            for crash in [Crash::Nothing, Crash::Everything, Crash::Kill].into_iter().chain((0..8).map(Crash::Random)) {
                let image = points.image(crash);
                match read(&image).unwrap() {
                    None => assert_eq!(promised, 0),
                    Some(loaded) => {
                        let next = states.get(promised + 1).map(|(_, state)| state);
                        assert!(
                            loaded.state == states[promised].1 || Some(&loaded.state) == next,
                            "{}",
                            points.label()
                        );
                        let state = loaded.state.clone();
                        // As opening a log does.
                        image.sync_dir(Path::new("")).unwrap();
                        let again = Manifest::open(Arc::new(image.clone()), Path::new(""), Some(loaded)).unwrap();
                        assert_eq!(again.state, state);
                        let cut_again = image.crash(usize::MAX, Crash::Nothing);
                        assert_eq!(read(&cut_again).unwrap().unwrap().state, state, "what was read stays");
                    }
                }
            }
            if !points.advance() {
                break;
            }
        }
    }

    /// Mutation: edits that are appended to what was read, whatever that is.
    #[test]
    fn a_manifest_whose_name_was_lost_by_a_failed_sync_is_made_anew_before_it_says_more() {
        let written = |sim: &SimIo| {
            let mut manifest = Manifest::open(Arc::new(sim.clone()), Path::new(""), None).unwrap();
            for n in 1..40 {
                if let Err(failure) = manifest.reserve(5) {
                    return (manifest, Err(failure.into_error()));
                }
                manifest.append(&ops(n)).unwrap();
            }
            (manifest, Ok(()))
        };
        let sim = SimIo::new(1);
        written(&sim).1.unwrap();
        let names: Vec<_> = (0..sim.event_count()).filter(|at| sim.labels()[*at].starts_with("rename")).collect();
        assert!(names.len() > 2);
        for name in &names[1..] {
            let sim = SimIo::new(1);
            sim.inject(Fault::at(name + 1, FaultKind::LostNames));
            let (manifest, failed) = written(&sim);
            assert!(failed.is_err());
            sim.clear_faults();
            let loaded = read(&sim).unwrap();
            assert_eq!(loaded.as_ref().unwrap().state, manifest.state);
            // As opening a log does.
            sim.sync_dir(Path::new("")).unwrap();
            let mut again = Manifest::open(Arc::new(sim.clone()), Path::new(""), loaded).unwrap();
            again.reserve(5).unwrap();
            again.append(&ops(50)).unwrap();
            let image = sim.crash(usize::MAX, Crash::Nothing);
            assert_eq!(read(&image).unwrap().unwrap().state, again.state);
        }
    }

    #[test]
    fn a_manifest_that_was_cut_anywhere_is_damage_or_goes_on_with_the_edits_that_are_whole() {
        let sim = SimIo::new(1);
        let mut manifest = Manifest::open(Arc::new(sim.clone()), Path::new(""), None).unwrap();
        let mut states = vec![manifest.state.clone()];
        for n in 1..4 {
            manifest.append(&ops(n)).unwrap();
            states.push(manifest.state.clone());
        }
        let mut whole = 0;
        for bytes in (0..5 * BLOCK_BYTES as u64).step_by(100) {
            let image = sim.crash(usize::MAX, Crash::Kill);
            let mode = OpenMode { write: true, ..OpenMode::READ };
            image.open(Path::new("MANIFEST"), mode).unwrap().set_len(bytes).unwrap();
            let loaded = match read(&image) {
                Ok(loaded) => loaded.unwrap(),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption);
                    continue;
                }
            };
            assert!(states.contains(&loaded.state), "cut to {bytes}");
            let mut manifest = Manifest::open(Arc::new(image.clone()), Path::new(""), Some(loaded)).unwrap();
            manifest.reserve(5).unwrap();
            manifest.append(&ops(50)).unwrap();
            assert_eq!(read(&image).unwrap().unwrap().state, manifest.state, "cut to {bytes}");
            whole += 1;
        }
        assert!(whole > 100, "{whole}");
    }

    #[test]
    fn a_flipped_bit_is_damage_or_takes_the_last_edit_only() {
        let sim = SimIo::new(1);
        let mut manifest = Manifest::open(Arc::new(sim.clone()), Path::new(""), None).unwrap();
        for n in 1..4 {
            manifest.append(&ops(n)).unwrap();
        }
        let (mut damaged, mut shorter) = (0, 0);
        for bit in (0..8 * 5 * BLOCK_BYTES as u64).step_by(3) {
            let image = sim.crash(usize::MAX, Crash::Kill);
            image.flip_bit(Path::new("MANIFEST"), bit / 8, bit as u8 % 8).unwrap();
            match read(&image) {
                Ok(loaded) => {
                    let loaded = loaded.unwrap();
                    if loaded.state != manifest.state {
                        assert!(bit / 8 >= 4 * BLOCK_BYTES as u64, "{bit}");
                        assert_eq!(loaded.end(), 4 * BLOCK_BYTES as u64);
                        shorter += 1;
                    }
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption);
                    damaged += 1;
                }
            }
        }
        assert!(damaged > 500 && shorter > 300, "{damaged} {shorter}");
    }
}
