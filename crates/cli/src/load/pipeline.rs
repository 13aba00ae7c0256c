//! From records to acknowledgements: the calling thread cuts the input into chunks, workers write them, one thread says how
//! far everything is written.
//!
//! Invariants:
//!
//! 1. Lines are acknowledged in order: `acked N` is said only when the writes of the first N lines have all returned at the
//!    durability asked for.
//! 2. Records of one partition are written by one worker in the order of their lines, so that of two lines with one key the
//!    later wins.
//! 3. After a failed write nothing more is written, and the count of acknowledged lines stops before the failed one.
//!
//! A chunk is divided by partition; each piece is one `write_each`, which costs one commit (and one sync) for all its
//! lines. Pieces of a partition that wait are written together: the slower the device, the larger the groups.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};

use biombo::{Batch, Durability, Partitioning, Store};

use crate::failure::{Done, Failure};

/// A chunk ends at so many lines: acknowledgements come at least as often.
pub(crate) const CHUNK_LINES_MAX: usize = 1000;
/// And at so many bytes.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Pieces that may wait for a worker.
const PIECES_WAITING_MAX: usize = 16;
/// Bytes of all pieces that are not written yet; a larger piece waits until it is the only one.
const BYTES_UNDER_WAY_MAX: usize = 64 << 20;
/// Waiting pieces are joined up to so many bytes.
const JOINED_BYTES_MAX: usize = 4 << 20;
/// Workers overlap the syncs of several partitions; more than this gain nothing.
const SYNCING_WORKERS_MAX: usize = 8;

/// Bounds the memory that pieces take together.
struct Room {
    bytes_max: usize,
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// Room of a piece, given back when it is written, or dropped.
struct Taken<'r> {
    room: &'r Room,
    bytes: usize,
}

impl Room {
    fn new(bytes_max: usize) -> Self {
        Self { bytes_max, taken: Mutex::new(0), given_back: Condvar::new() }
    }

    /// Wait until there is room for so many bytes, or nobody else has any.
    fn take(&self, bytes: usize) -> Taken<'_> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken > 0 && *taken + bytes > self.bytes_max {
            taken = self.given_back.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += bytes;
        Taken { room: self, bytes }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.room.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.room.given_back.notify_one();
    }
}

struct Piece<'r> {
    chunk: u64,
    partition: usize,
    batch: Batch,
    taken: Taken<'r>,
}

enum Report {
    /// A chunk of so many lines was handed out in so many pieces.
    Begun { chunk: u64, lines: u64, pieces: usize },
    /// A piece is written.
    Written { chunk: u64 },
    /// A piece is not; nothing more will be.
    Failed { error: biombo::Error },
}

/// Where records go in. Made by [`run`].
pub(crate) struct Feeder<'a> {
    store: &'a Store,
    workers: Vec<SyncSender<Piece<'a>>>,
    reports: Sender<Report>,
    stop: &'a AtomicBool,
    room: &'a Room,
    pieces: Vec<Batch>,
    chunk: u64,
    lines: usize,
    bytes: usize,
}

impl Feeder<'_> {
    /// Take a record; it is written soon. `false`: a write has failed: stop.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let partition = self.store.route(key).index();
        if partition >= self.pieces.len() {
            self.pieces.resize_with(partition + 1, Batch::new);
        }
        self.pieces[partition].put(key, value);
        self.lines += 1;
        self.bytes += key.len() + value.len();
        if self.lines >= CHUNK_LINES_MAX || self.bytes >= CHUNK_BYTES_MAX {
            return self.flush();
        }
        true
    }

    /// Hand out what has gathered.
    pub(crate) fn flush(&mut self) -> bool {
        if self.lines > 0 {
            let count = self.pieces.iter().filter(|piece| !piece.is_empty()).count();
            // The receivers live until the senders are gone, so that sending cannot fail.
            let _ = self.reports.send(Report::Begun { chunk: self.chunk, lines: self.lines as u64, pieces: count });
            for (partition, piece) in self.pieces.iter_mut().enumerate().filter(|(_, piece)| !piece.is_empty()) {
                let worker = &self.workers[partition % self.workers.len()];
                let taken = self.room.take(piece.bytes());
                let _ = worker.send(Piece { chunk: self.chunk, partition, batch: std::mem::take(piece), taken });
            }
            self.chunk += 1;
            (self.lines, self.bytes) = (0, 0);
        }
        !self.stop.load(Ordering::Relaxed)
    }
}

/// What came of it.
pub(crate) struct Loaded {
    /// Lines acknowledged.
    pub(crate) acked: u64,
    /// The first write that failed.
    pub(crate) failed: Option<biombo::Error>,
    /// Why an acknowledgement could not be said. Lines are written all the same: that nobody reads it changes nothing of what was asked for.
    pub(crate) unsaid: Option<Failure>,
}

/// Write what `feed` pushes into `store`; `acked` hears the growing number of acknowledged lines. Returns what `feed` returned
/// beside the outcome of the writes.
pub(crate) fn run<T>(
    store: &Store,
    durability: Durability,
    feed: impl FnOnce(&mut Feeder<'_>) -> T,
    acked: impl FnMut(u64) -> Done + Send,
) -> Done<(T, Loaded)> {
    let (stop, room) = (AtomicBool::new(false), Room::new(BYTES_UNDER_WAY_MAX));
    let (reports, heard) = channel();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..workers_for(store, durability) {
            let (sender, pieces) = sync_channel(PIECES_WAITING_MAX);
            let (reports, stop) = (reports.clone(), &stop);
            scope.spawn(move || work(store, durability, &pieces, &reports, stop));
            workers.push(sender);
        }
        let listener = scope.spawn(move || listen(&heard, acked));
        let mut feeder = Feeder {
            store,
            workers,
            reports,
            stop: &stop,
            room: &room,
            pieces: Vec::new(),
            chunk: 0,
            lines: 0,
            bytes: 0,
        };
        let fed = feed(&mut feeder);
        feeder.flush();
        drop(feeder);
        let loaded = listener.join().map_err(|_| Failure::failed("the thread that counts acknowledgements died"))?;
        Ok((fed, loaded))
    })
}

fn workers_for(store: &Store, durability: Durability) -> usize {
    if store.partitioning() == Partitioning::None {
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let useful = if durability == Durability::Sync { SYNCING_WORKERS_MAX.max(cores) } else { cores };
    useful.min(store.partitions() as usize).max(1)
}

fn work(
    store: &Store,
    durability: Durability,
    pieces: &Receiver<Piece<'_>>,
    reports: &Sender<Report>,
    stop: &AtomicBool,
) {
    let mut waiting: Option<Piece<'_>> = None;
    while let Some(first) = waiting.take().or_else(|| pieces.recv().ok()) {
        let mut chunks = vec![first.chunk];
        // Given back when all of them are written.
        let mut taken = vec![first.taken];
        let mut batch = first.batch;
        // Join what waits for the same partition: one commit for all of it.
        while batch.bytes() < JOINED_BYTES_MAX
            && let Ok(next) = pieces.try_recv()
        {
            if next.partition != first.partition {
                waiting = Some(next);
                break;
            }
            for op in next.batch.iter() {
                batch.push(op);
            }
            chunks.push(next.chunk);
            taken.push(next.taken);
        }
        if stop.load(Ordering::Relaxed) {
            continue;
        }
        match store.write_each(&batch, durability) {
            Ok(()) => chunks.into_iter().for_each(|chunk| drop(reports.send(Report::Written { chunk }))),
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                let _ = reports.send(Report::Failed { error });
            }
        }
    }
}

/// Follow the chunks and acknowledge the lines of those that are whole, in order.
fn listen(heard: &Receiver<Report>, mut acked: impl FnMut(u64) -> Done) -> Loaded {
    let mut open: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let mut loaded = Loaded { acked: 0, failed: None, unsaid: None };
    while let Ok(report) = heard.recv() {
        match report {
            Report::Begun { chunk, lines, pieces } => drop(open.insert(chunk, (lines, pieces))),
            Report::Written { chunk } => {
                if let Some((_, left)) = open.get_mut(&chunk) {
                    *left -= 1;
                }
                let before = loaded.acked;
                while let Some(first) = open.first_entry().filter(|first| first.get().1 == 0) {
                    loaded.acked += first.remove().0;
                }
                if loaded.acked > before && loaded.unsaid.is_none() {
                    loaded.unsaid = acked(loaded.acked).err();
                }
            }
            Report::Failed { error } => drop(loaded.failed.get_or_insert(error)),
        }
    }
    loaded
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Fails when large records fill the memory while the device is slow.
    #[test]
    fn pieces_under_way_take_no_more_than_the_room_and_a_larger_one_goes_alone() {
        let room = Room::new(16);
        let (taken, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let (sender, pieces) = sync_channel::<(Taken<'_>, usize)>(PIECES_WAITING_MAX);
            let (taken, most) = (&taken, &most);
            scope.spawn(move || {
                while let Ok((room, bytes)) = pieces.recv() {
                    std::thread::yield_now();
                    taken.fetch_sub(bytes, Ordering::SeqCst);
                    drop(room);
                }
            });
            for bytes in (0..200).map(|number| [3, 8, 40, 1][number % 4]) {
                let permit = room.take(bytes);
                let now = taken.fetch_add(bytes, Ordering::SeqCst) + bytes;
                assert!(now <= 16 || now == bytes, "{now} bytes are under way");
                most.fetch_max(now, Ordering::SeqCst);
                sender.send((permit, bytes)).expect("it is heard");
            }
        });
        assert_eq!((most.into_inner(), *room.taken.lock().expect("nobody panicked")), (40, 0));
    }
}
