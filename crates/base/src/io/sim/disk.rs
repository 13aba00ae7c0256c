//! The state of a simulated disk: what programs see, what is durable, and what lies between the two.
//!
//! Invariants:
//! 1. `data` is `durable` with all of `pending` applied in order (but for what a failed sync dropped, which stays visible and
//!    never becomes durable); the same holds for names, and what a failed sync of their directory dropped.
//! 2. Applying the same events to the same state gives the same state: a history can be replayed and cut anywhere.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::names::{Names, is_in};

/// The unit in which a device is assumed never to tear, in bytes.
pub const SECTOR_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Dir,
    File(usize),
}

#[derive(Debug, Clone)]
pub(super) enum DataOp {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLen(u64),
}

#[derive(Debug, Clone)]
pub(super) enum NameOp {
    Set(Arc<Path>, Entry),
    Rename(Arc<Path>, Arc<Path>, Entry),
    Remove(Arc<Path>),
}

/// A file's bytes, shared by all images in which they are the same; and their hash, once it was asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    hash: OnceLock<u64>,
}

impl Content {
    /// The bytes, to be changed for this holder alone.
    fn edit(this: &mut Arc<Self>) -> &mut Vec<u8> {
        let content = Arc::make_mut(this);
        content.hash.take();
        &mut content.bytes
    }

    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| xxh3_64(&self.bytes))
    }
}

impl std::ops::Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub path: Arc<Path>,
    pub data: Arc<Content>,
    durable: Arc<Content>,
    pub pending: Vec<DataOp>,
    /// A sync that failed has let `data` show what will never be durable.
    is_apart: bool,
}

/// Something that happened to a disk.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Create(Arc<Path>),
    Mkdir(Arc<Path>),
    Rename(Arc<Path>, Arc<Path>),
    Remove(Arc<Path>),
    Write {
        node: usize,
        offset: u64,
        bytes: Arc<[u8]>,
        durable: bool,
    },
    SetLen(usize, u64),
    Sync(usize),
    /// A sync that failed: of the pending operations those marked had reached the device, the others never will.
    FailedSync(usize, Vec<bool>),
    SyncDir(Arc<Path>),
    /// A sync of a directory that failed: what was pending of its names never becomes durable.
    FailedSyncDir(Arc<Path>),
    Flip {
        node: usize,
        offset: u64,
        bit: u8,
    },
}

/// What may or may not have survived, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending<'a> {
    /// A piece of a write that was not durable, within one unit of tearing.
    Bytes {
        /// The file.
        path: &'a Path,
        /// Where the piece begins.
        offset: u64,
        /// Its length.
        bytes: usize,
    },
    /// The file's new length (by a write past its end, or set), in bytes; what was not written shows zeros.
    Length {
        /// The file.
        path: &'a Path,
        /// The new length.
        bytes: u64,
    },
    /// A created, removed or renamed name (the new one, for a rename).
    Name {
        /// The name.
        path: &'a Path,
    },
}

#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub nodes: Vec<Node>,
    pub names: Names,
    durable_names: Names,
    pending_names: Vec<NameOp>,
}

fn apply_data(data: &mut Vec<u8>, op: &DataOp) {
    match op {
        DataOp::Write { offset, bytes } => write(data, *offset, bytes),
        DataOp::SetLen(bytes) => data.resize(*bytes as usize, 0),
    }
}

fn write(data: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[offset as usize..end].copy_from_slice(bytes);
}

fn apply_name(names: &mut Names, op: &NameOp) {
    match op {
        NameOp::Set(path, entry) => names.insert(path, *entry),
        NameOp::Rename(from, to, entry) => {
            if names.get(from) == Some(entry) {
                names.remove(from);
            }
            names.insert(to, *entry);
        }
        NameOp::Remove(path) => names.remove(path),
    }
}

impl NameOp {
    fn path(&self) -> &Path {
        match self {
            Self::Set(path, _) | Self::Remove(path) | Self::Rename(_, path, _) => path,
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        matches!(self, Self::Rename(from, ..) if is_in(from, dir)) || is_in(self.path(), dir)
    }
}

impl Node {
    fn new(path: Arc<Path>) -> Self {
        let (data, durable) = Default::default();
        Self { path, data, durable, pending: Vec::new(), is_apart: false }
    }

    /// All of it is durable.
    fn is_durable(&self) -> bool {
        self.pending.is_empty() && !self.is_apart
    }

    fn push(&mut self, op: DataOp) {
        apply_data(Content::edit(&mut self.data), &op);
        self.pending.push(op);
    }

    fn write_durable(&mut self, offset: u64, bytes: &[u8]) {
        if self.is_durable() {
            // Both are the same, and stay one.
            self.data = Arc::default();
            write(Content::edit(&mut self.durable), offset, bytes);
            self.data = Arc::clone(&self.durable);
            return;
        }
        // The kernel writes cached pages back before a direct write goes over them.
        let end = offset + bytes.len() as u64;
        let durable = Content::edit(&mut self.durable);
        self.pending.retain(|op| match op {
            DataOp::Write { offset: at, bytes } if *at < end && at + bytes.len() as u64 > offset => {
                apply_data(durable, op);
                false
            }
            _ => true,
        });
        write(durable, offset, bytes);
        write(Content::edit(&mut self.data), offset, bytes);
    }

    fn sync(&mut self) {
        if self.is_apart {
            let durable = Content::edit(&mut self.durable);
            self.pending.drain(..).for_each(|op| apply_data(durable, &op));
        } else {
            self.pending.clear();
            self.durable = Arc::clone(&self.data);
        }
    }
}

impl Disk {
    /// Carry out `event`. With `in_flight` it had begun and not ended: what it would have made durable is pending.
    pub fn apply(&mut self, event: &Event, in_flight: bool) {
        match event {
            Event::Create(path) => {
                let entry = Entry::File(self.nodes.len());
                self.nodes.push(Node::new(Arc::clone(path)));
                self.name(NameOp::Set(path.clone(), entry));
            }
            Event::Mkdir(path) => self.name(NameOp::Set(path.clone(), Entry::Dir)),
            Event::Rename(from, to) => {
                if let Some(&entry) = self.names.get(from) {
                    if let Entry::File(node) = entry {
                        self.nodes[node].path.clone_from(to);
                    }
                    self.name(NameOp::Rename(from.clone(), to.clone(), entry));
                }
            }
            Event::Remove(path) => self.name(NameOp::Remove(path.clone())),
            Event::Write { node, offset, bytes, durable } => {
                if *durable && !in_flight {
                    self.nodes[*node].write_durable(*offset, bytes);
                } else {
                    self.nodes[*node].push(DataOp::Write { offset: *offset, bytes: Arc::clone(bytes) });
                }
            }
            Event::SetLen(node, bytes) => self.nodes[*node].push(DataOp::SetLen(*bytes)),
            Event::Sync(_) | Event::SyncDir(_) | Event::FailedSync(..) | Event::FailedSyncDir(_) if in_flight => {}
            Event::Sync(node) => self.nodes[*node].sync(),
            Event::FailedSync(node, reached) => {
                let Node { durable, pending, is_apart, .. } = &mut self.nodes[*node];
                let durable = Content::edit(durable);
                *is_apart = true;
                for (op, reached) in pending.drain(..).zip(reached) {
                    if *reached {
                        apply_data(durable, &op);
                    }
                }
            }
            Event::SyncDir(dir) => {
                let durable = &mut self.durable_names;
                self.pending_names.retain(|op| {
                    let synced = op.is_in(dir);
                    if synced {
                        apply_name(durable, op);
                    }
                    !synced
                });
            }
            Event::FailedSyncDir(dir) => self.pending_names.retain(|op| !op.is_in(dir)),
            Event::Flip { node, offset, bit } => {
                let Node { data, durable, .. } = &mut self.nodes[*node];
                for copy in [data, durable] {
                    if let Some(byte) = Content::edit(copy).get_mut(*offset as usize) {
                        *byte ^= 1 << (bit % 8);
                    }
                }
            }
        }
    }

    fn name(&mut self, op: NameOp) {
        apply_name(&mut self.names, &op);
        self.pending_names.push(op);
    }

    /// The disk after a power cut: `keep` says of each thing that was not durable whether it survived. Writes tear at
    /// multiples of `unit_bytes`.
    pub fn after_power_cut(&self, unit_bytes: u64, keep: &mut dyn FnMut(Pending<'_>) -> bool) -> Disk {
        let mut after = Disk { nodes: Vec::with_capacity(self.nodes.len()), ..Disk::default() };
        for node in &self.nodes {
            let mut data = Arc::clone(&node.durable);
            for op in &node.pending {
                match op {
                    DataOp::Write { offset, bytes } => {
                        let end = offset + bytes.len() as u64;
                        let mut at = *offset;
                        while at < end {
                            let stop = (at + 1).next_multiple_of(unit_bytes).min(end);
                            let piece = &bytes[(at - offset) as usize..(stop - offset) as usize];
                            if keep(Pending::Bytes { path: &node.path, offset: at, bytes: piece.len() }) {
                                write(Content::edit(&mut data), at, piece);
                            }
                            at = stop;
                        }
                        if (data.len() as u64) < end && keep(Pending::Length { path: &node.path, bytes: end }) {
                            Content::edit(&mut data).resize(end as usize, 0);
                        }
                    }
                    DataOp::SetLen(bytes) => {
                        if keep(Pending::Length { path: &node.path, bytes: *bytes }) {
                            Content::edit(&mut data).resize(*bytes as usize, 0);
                        }
                    }
                }
            }
            let (path, durable) = (Arc::clone(&node.path), Arc::clone(&data));
            after.nodes.push(Node { path, data, durable, pending: Vec::new(), is_apart: false });
        }
        let mut names = self.durable_names.clone();
        for op in &self.pending_names {
            if keep(Pending::Name { path: op.path() }) {
                apply_name(&mut names, op);
            }
        }
        names.retain_reachable();
        after.durable_names = names.clone();
        after.names = names;
        after
    }

    /// xxh3 over names and contents, as a program sees them.
    pub fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (path, entry) in self.names.iter() {
            hash.update(path.as_os_str().as_encoded_bytes());
            match entry {
                Entry::Dir => hash.update(&[0, 0]),
                Entry::File(node) => {
                    let data = &self.nodes[*node].data;
                    hash.update(&[0, 1]);
                    hash.update(&(data.len() as u64).to_le_bytes());
                    hash.update(&data.hash().to_le_bytes());
                }
            }
        }
        hash.digest()
    }
}
