//! The room ahead of the writer of a mapped segment, made present before it is written.
//!
//! A store to a page that is not in memory waits until the kernel has found one and made it zeros. It takes memory in large pieces
//! then, and finding them is slow where a host has to give them (0.4 to 0.9 GB/s on the virtual machine that this was measured
//! on). A program decides how large the pieces are when it writes: so room that was never written is filled with zeros by writes
//! (6 GB/s there), and mapped after that.
//!
//! Invariants:
//! 1. Zeros are written at and above `filled` only, and the writer stores below it only. It moves under `filling`, which is held
//!    while zeros are written.
//! 2. Nothing is filled once the segment is not its writer's any more ([`Ahead::close`]): its file may be cut off, get a footer or
//!    serve another segment.
//! 3. The room of a file that had a former life is not filled: it is in memory or costs a read.
//! 4. What was made ready is dirty until the next sync, and `touched` lies behind it: a sync writes it, though it holds no record.
//!
//! **Syncs.** A page that is made ready is dirty, whether it is filled with zeros or only made present for storing; a sync writes what of it
//! stands ahead of the writer in vain, and takes the right to store to it away. To make the same 4 MiB ready after each sync again would
//! write them again with the next one, however little was stored between. So after a sync room is made ready for as much as was stored
//! between the last two (the rhythm), and only when the writer goes on; behind that for a quarter of what was stored since. A sync then
//! writes a quarter more than was stored since the one before, where they keep a rhythm. A writer that is not synced has all of the room.
//!
//! Crash argument: room that was allocated and not written reads as zeros; it does with zeros written to it, whether they reach
//! the device or not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::io::{BLOCK_BYTES, File, Mapping};

/// Pages are made present in such pieces: the writer, and others of the process who want to change its mappings, wait for one at
/// most.
const STEP_BYTES: u64 = 512 << 10;
/// How far ahead: what the writer writes while a thread that was woken waits for a processor. More would be written back in vain
/// when the segment is not written to its end.
const AHEAD_BYTES: u64 = 4 << 20;
/// After a sync: less ahead than this is not worth waking a thread, or, to be filled, a call.
const WORTH_BYTES: u64 = 64 << 10;
/// After a sync, as much as was stored since by this is made ready behind the rhythm.
const SHARE: u64 = 4;
/// Before the first sync.
const NEVER: u64 = u64::MAX;

/// How far the pages of a segment are present.
pub(crate) struct Ahead {
    mapping: Arc<Mapping>,
    file: Arc<dyn File>,
    /// Pages before this are present.
    present: AtomicU64,
    filled: AtomicU64,
    filling: Mutex<()>,
    /// Behind this the writer asks for more.
    short_at: AtomicU64,
    /// Pages before this were made dirty since the last sync; 0: none.
    touched: AtomicU64,
    /// Where the writer was at the last sync, and what is expected to be stored until the next.
    synced_at: AtomicU64,
    rhythm: AtomicU64,
}

impl Ahead {
    /// Of a segment that is going to be written to `mapping`, which is of `file`; `is_written`: its room was written before.
    pub fn new(mapping: &Arc<Mapping>, file: &Arc<dyn File>, is_written: bool) -> Self {
        let start = mapping.committed();
        Self {
            mapping: Arc::clone(mapping),
            file: Arc::clone(file),
            present: AtomicU64::new(start),
            filled: AtomicU64::new(if is_written { u64::MAX } else { start }),
            filling: Mutex::default(),
            short_at: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            synced_at: AtomicU64::new(start),
            rhythm: AtomicU64::new(NEVER),
        }
    }

    fn filling(&self) -> MutexGuard<'_, ()> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much is made ready ahead of a writer that has come to `at`.
    fn ahead_bytes(&self, at: u64) -> u64 {
        let rhythm = self.rhythm.load(Ordering::Relaxed);
        if rhythm == NEVER {
            return AHEAD_BYTES;
        }
        let since = at.saturating_sub(self.synced_at.load(Ordering::Relaxed));
        let ahead = rhythm.saturating_sub(since).max(since / SHARE).min(AHEAD_BYTES);
        if ahead < WORTH_BYTES { 0 } else { ahead }
    }

    /// The end of the step that begins at `from`, no further than to `goal` (whole blocks) once there was a sync.
    fn step_end(&self, from: u64, goal: u64) -> u64 {
        let end = (from / STEP_BYTES + 1) * STEP_BYTES;
        let is_free = self.rhythm.load(Ordering::Relaxed) == NEVER;
        if is_free { end } else { end.min(goal.next_multiple_of(BLOCK_BYTES as u64)) }
    }

    /// The writer is going to store at places before `end`.
    #[inline]
    pub fn reach(&self, end: u64) {
        if end > self.filled.load(Ordering::Acquire) {
            self.fill(end, end + self.ahead_bytes(end).max(WORTH_BYTES));
        }
    }

    /// Fill steps until `end` is reached, as far as to `goal` where steps are cut.
    #[cold]
    fn fill(&self, end: u64, goal: u64) {
        let _held = self.filling();
        loop {
            let from = self.filled.load(Ordering::Relaxed);
            if from >= end.min(self.mapping.capacity()) {
                return;
            }
            let next = self.step_end(from, goal).min(self.mapping.capacity());
            // Only time is at stake: what is not present is faulted in.
            let _ = self.file.fill(from, next - from);
            let _ = self.mapping.populate(from, next - from);
            self.touched.fetch_max(next, Ordering::Relaxed);
            self.filled.store(next, Ordering::Release);
        }
    }

    /// Whether the writer, who has come to `offset`, has used half of what was made ready, or was synced: to be told once to who
    /// [populates](Self::populate).
    #[inline]
    pub fn is_short(&self, offset: u64) -> bool {
        let is_short = offset > self.short_at.load(Ordering::Relaxed);
        if is_short {
            self.short_at.store(u64::MAX, Ordering::Relaxed);
        }
        is_short
    }

    /// Whether the writer has asked for more, or needs no more.
    pub fn is_asked(&self) -> bool {
        self.short_at.load(Ordering::Relaxed) == u64::MAX
    }

    /// All that was made dirty is written: pages take a fault again, and whatever is made ready from now on will be written again.
    pub fn again(&self) {
        let at = self.mapping.committed();
        let since = at.saturating_sub(self.synced_at.swap(at, Ordering::Relaxed));
        let before = self.rhythm.load(Ordering::Relaxed).min(AHEAD_BYTES);
        // One sync that follows another soon is not yet a rhythm.
        self.rhythm.store(since.max(before / SHARE), Ordering::Relaxed);
        self.present.store(at, Ordering::Relaxed);
        self.touched.store(0, Ordering::Relaxed);
        self.short_at.store(self.next_at(at), Ordering::Relaxed);
    }

    /// Pages before this were made dirty since the last sync; 0: none.
    pub fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed).min(self.mapping.capacity())
    }

    /// Where a writer at `at`, ahead of whom nothing is ready, asks for more.
    fn next_at(&self, at: u64) -> u64 {
        let worth_at = self.synced_at.load(Ordering::Relaxed) + SHARE * WORTH_BYTES;
        if self.ahead_bytes(at) > 0 { at } else { worth_at }
    }

    /// Make the pages ahead of the writer present, on whatever thread.
    pub fn populate(&self) {
        loop {
            let (present, committed) = (self.present.load(Ordering::Relaxed), self.mapping.committed());
            let (start, ahead) = (present.max(committed), self.ahead_bytes(committed));
            let goal = (committed + ahead).min(self.mapping.capacity());
            let short_at = match start {
                _ if start >= self.mapping.capacity() => u64::MAX,
                _ if ahead == 0 => self.next_at(committed),
                _ => start.saturating_sub(ahead / 2),
            };
            self.short_at.store(short_at, Ordering::Relaxed);
            if start >= goal {
                return;
            }
            let next = self.step_end(start, goal);
            if next > self.filled.load(Ordering::Acquire) {
                self.fill(next, next);
            }
            let _ = self.mapping.populate(start, next - start);
            self.touched.fetch_max(next, Ordering::Relaxed);
            // Unless it began again meanwhile.
            let _ = self.present.compare_exchange(present, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The file serves something else from now on.
    pub fn close(&self) {
        let _held = self.filling();
        self.filled.store(u64::MAX, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use biombo_base::io::sim::SimIo;
    use biombo_base::io::{Io, OpenMode, RealIo};

    use super::*;

    const START: u64 = 4096;

    fn segment(io: &dyn Io, dir: &std::path::Path, bytes: u64) -> (Arc<dyn File>, Arc<Mapping>, Ahead) {
        io.create_dir_all(dir).unwrap();
        let mode = OpenMode { write: true, create: true, ..OpenMode::READ };
        let file = io.open(&dir.join("segment"), mode).unwrap();
        file.allocate(bytes).unwrap();
        let mapping = file.map(bytes, START, true).unwrap();
        let ahead = Ahead::new(&mapping, &file, false);
        (file, mapping, ahead)
    }

    #[test]
    fn what_is_written_stays_whoever_fills() {
        const BYTES: u64 = 32 << 20;
        let dir = tempfile::tempdir().unwrap();
        for round in 1..4 {
            let (file, mapping, ahead) = segment(&RealIo::new(), &dir.path().join(round.to_string()), BYTES);
            let is_done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        ahead.populate();
                        ahead.again();
                    }
                });
                let mut writer = mapping.writer().unwrap();
                let record = vec![round; 20_000];
                let mut at = START;
                while at < BYTES {
                    let record = &record[..record.len().min((BYTES - at) as usize)];
                    ahead.reach(at + record.len() as u64);
                    writer.append_at(at, &[record]).unwrap();
                    at += record.len() as u64;
                }
                is_done.store(true, Ordering::Relaxed);
            });
            let mut stored = vec![0; (BYTES - START) as usize];
            assert_eq!(file.read_at(&mut stored, START).unwrap(), stored.len());
            let lost = stored.iter().position(|byte| *byte != round);
            assert_eq!(lost, None, "a stored byte is gone");
        }
    }

    /// A segment of less than a step ahead, and one that is written further than anybody filled.
    #[test]
    fn whatever_is_filled_was_never_written() {
        // The simulated disk refuses to fill anything else.
        for bytes in [64 << 10, 3 << 20, 9 << 20] {
            let (_, mapping, ahead) = segment(&SimIo::new(1), "/d".as_ref(), bytes);
            let mut writer = mapping.writer().unwrap();
            let mut at = START;
            for record in [1, 40_000, 1_000_000, 3_000_000].iter().cycle() {
                let record = vec![7; *record];
                let end = at + record.len() as u64;
                if end > bytes {
                    break;
                }
                ahead.reach(end);
                writer.append_at(at, &[&record]).unwrap();
                ahead.populate();
                at = end;
            }
            ahead.again();
            ahead.populate();
        }
    }

    /// Store `bytes` in small records, with somebody who makes room ready whenever it is asked for.
    fn store(ahead: &Ahead, writer: &mut biombo_base::io::MappingWriter, bytes: u64) -> u64 {
        let record = vec![7; 4_000];
        let mut at = writer.mapping().committed();
        for _ in 0..bytes / record.len() as u64 {
            at += record.len() as u64;
            ahead.reach(at);
            writer.append_at(at - record.len() as u64, &[&record]).unwrap();
            if ahead.is_short(at) {
                ahead.populate();
            }
        }
        at
    }

    /// Fails if a sync makes all of the room ahead dirty again: it would write 4 MiB for each of these.
    #[test]
    fn a_sync_writes_little_more_than_was_stored_since_the_one_before() {
        for (rhythm, syncs) in [(20_000, 100), (300_000, 30), (1 << 20, 20), (6 << 20, 8)] {
            let (_, mapping, ahead) = segment(&SimIo::new(1), "/d".as_ref(), 64 << 20);
            let mut writer = mapping.writer().unwrap();
            for sync in 0..syncs {
                let at = store(&ahead, &mut writer, rhythm);
                let in_vain = ahead.touched().saturating_sub(at);
                // What is made ready before the first sync, and before there is a rhythm, is more.
                if sync >= 4 {
                    let spare = rhythm / SHARE + WORTH_BYTES + 2 * BLOCK_BYTES as u64;
                    assert!(in_vain <= spare, "{in_vain} bytes in vain at sync {sync} after {rhythm} each");
                }
                ahead.again();
                assert!(ahead.touched() == 0 && !ahead.is_short(at), "nobody works for a writer who stores no more");
            }
        }
    }

    /// Fails if less is ready for who is never synced than there was, or if each append wakes whoever is to make it so.
    #[test]
    fn a_writer_that_is_not_synced_has_all_of_the_room_and_asks_once() {
        let (_, mapping, ahead) = segment(&SimIo::new(1), "/d".as_ref(), 64 << 20);
        let mut writer = mapping.writer().unwrap();
        assert!(ahead.is_short(START + 1) && !ahead.is_short(START + 2), "it asks at once, and once");
        ahead.populate();
        for _ in 0..20 {
            let at = store(&ahead, &mut writer, 1 << 20);
            assert!(ahead.touched() >= at + AHEAD_BYTES / 2 - 4_000, "{} at {at}", ahead.touched());
            assert!(ahead.touched() <= at + AHEAD_BYTES + STEP_BYTES);
        }
        assert!(!ahead.is_short(ahead.touched() - AHEAD_BYTES / 2));
        assert!(ahead.is_short(ahead.touched() - AHEAD_BYTES / 2 + 1));
    }

    /// Fails if a writer that is synced once stays with the little that it began with.
    #[test]
    fn the_room_ahead_grows_again_after_a_sync() {
        let (_, mapping, ahead) = segment(&SimIo::new(1), "/d".as_ref(), 64 << 20);
        let mut writer = mapping.writer().unwrap();
        store(&ahead, &mut writer, 10_000);
        ahead.again();
        let at = store(&ahead, &mut writer, 30 << 20);
        assert!(ahead.touched() >= at + AHEAD_BYTES / 2 - 4_000, "{} at {at}", ahead.touched());
        // To the end of the segment, and then no more is asked for.
        let at = store(&ahead, &mut writer, 33 << 20);
        assert!(ahead.touched() == 64 << 20 && !ahead.is_short(at));
    }

    #[test]
    fn a_closed_one_leaves_the_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, _, ahead) = segment(&RealIo::new(), &dir.path().join("d"), 8 << 20);
        ahead.close();
        file.set_len(START).unwrap();
        ahead.populate();
        ahead.reach(1 << 20);
        assert_eq!(file.len().unwrap(), START);
    }
}
