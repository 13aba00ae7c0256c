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

use biombo::{Batch, Durability, Partitioning, Store};

use crate::failure::{Done, Failure};

/// A chunk ends at so many lines: acknowledgements come at least as often.
pub(crate) const CHUNK_LINES_MAX: usize = 1000;
/// And at so many bytes.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Pieces that may wait for a worker; together with the chunk's size this bounds the memory.
const PIECES_WAITING_MAX: usize = 16;
/// Waiting pieces are joined up to so many bytes.
const JOINED_BYTES_MAX: usize = 4 << 20;
/// Workers overlap the syncs of several partitions; more than this gain nothing.
const SYNCING_WORKERS_MAX: usize = 8;

struct Piece {
    chunk: u64,
    partition: usize,
    batch: Batch,
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
    workers: Vec<SyncSender<Piece>>,
    reports: Sender<Report>,
    stop: &'a AtomicBool,
    pieces: Vec<Batch>,
    chunk: u64,
    lines: usize,
    bytes: usize,
}

impl Feeder<'_> {
    /// Take a record; it is written soon. `false`: a write has failed, or nobody reads the acknowledgements: stop.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let partition = self.store.placement().owner(key).index();
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
                let _ = worker.send(Piece { chunk: self.chunk, partition, batch: std::mem::take(piece) });
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
}

/// Write what `feed` pushes into `store`; `acked` hears the growing number of acknowledged lines. Returns what `feed` returned
/// beside the outcome of the writes.
pub(crate) fn run<T>(
    store: &Store,
    durability: Durability,
    feed: impl FnOnce(&mut Feeder<'_>) -> T,
    acked: impl FnMut(u64) -> Done + Send,
) -> Done<(T, Loaded)> {
    let stop = AtomicBool::new(false);
    let (reports, heard) = channel();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..workers_for(store, durability) {
            let (sender, pieces) = sync_channel(PIECES_WAITING_MAX);
            let (reports, stop) = (reports.clone(), &stop);
            scope.spawn(move || work(store, durability, &pieces, &reports, stop));
            workers.push(sender);
        }
        let stopping = &stop;
        let listener = scope.spawn(move || listen(&heard, stopping, acked));
        let mut feeder =
            Feeder { store, workers, reports, stop: &stop, pieces: Vec::new(), chunk: 0, lines: 0, bytes: 0 };
        let fed = feed(&mut feeder);
        feeder.flush();
        drop(feeder);
        let loaded = listener.join().map_err(|_| Failure::failed("the thread that counts acknowledgements died"))??;
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

fn work(store: &Store, durability: Durability, pieces: &Receiver<Piece>, reports: &Sender<Report>, stop: &AtomicBool) {
    let mut waiting: Option<Piece> = None;
    while let Some(first) = waiting.take().or_else(|| pieces.recv().ok()) {
        let mut chunks = vec![first.chunk];
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
fn listen(heard: &Receiver<Report>, stop: &AtomicBool, mut acked: impl FnMut(u64) -> Done) -> Done<Loaded> {
    let mut open: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let mut loaded = Loaded { acked: 0, failed: None };
    let mut refused = None;
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
                if loaded.acked > before
                    && refused.is_none()
                    && let Err(failure) = acked(loaded.acked)
                {
                    stop.store(true, Ordering::Relaxed);
                    refused = Some(failure);
                }
            }
            Report::Failed { error } => drop(loaded.failed.get_or_insert(error)),
        }
    }
    refused.map_or(Ok(loaded), Err)
}
