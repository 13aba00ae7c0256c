//! A simulated disk: deterministic, in memory, recording every change as a numbered event.
//!
//! It can be cut after any event ([`SimIo::crash_points`]) into any image that a crash may leave, refuse any operation
//! ([`SimIo::inject`]) and rot ([`SimIo::flip_bit`]). It promises what [`Io`] promises and not more: a synced file without a
//! synced name is lost, names survive in any combination, a file may have grown without its bytes. What it does not do:
//! events of several threads are recorded one after the other, so only one of them is in flight at a cut.

pub mod campaign;
mod crash;
mod disk;
mod fault;
mod names;

use std::collections::HashSet;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use campaign::Campaign;
pub use crash::{Crash, CrashPoints, Random};
pub use disk::{Pending, SECTOR_BYTES};
pub use fault::{EventInfo, Fault, FaultKind, When};

use super::mapping::Record;
use super::{BLOCK_BYTES, File, Io, Lock, Mapping, OpenMode};
use disk::{Disk, Entry, Event};
use names::{clean, is_in, parent};

struct Logged {
    event: Event,
    kind: &'static str,
    /// What it was done to.
    path: Arc<Path>,
    label: OnceLock<String>,
}

impl Logged {
    /// See [`EventInfo::label`].
    fn label(&self) -> &str {
        self.label.get_or_init(|| match &self.event {
            Event::Rename(from, to) => {
                format!("{} -> {}", label(self.kind, from), label("", to).trim_start())
            }
            _ => label(self.kind, &self.path),
        })
    }
}

struct Inner {
    /// Where the history begins.
    base: Disk,
    disk: Disk,
    log: Vec<Arc<Logged>>,
    locks: HashSet<PathBuf>,
    faults: Vec<Fault>,
    reads: u64,
    /// What is told to be free.
    free_bytes: Option<u64>,
    random: Random,
}

/// The simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimIo {
    inner: Arc<Mutex<Inner>>,
}

impl SimIo {
    /// An empty disk, whose random numbers follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::over(Disk::default(), seed)
    }

    fn over(disk: Disk, seed: u64) -> Self {
        let inner = Inner {
            base: disk.clone(),
            disk,
            log: Vec::new(),
            locks: HashSet::new(),
            faults: Vec::new(),
            reads: 0,
            free_bytes: None,
            random: Random(seed),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// The number of events so far: what was acknowledged now survives every cut at or behind it.
    pub fn event_count(&self) -> usize {
        self.lock().log.len()
    }

    /// The labels of all events, in order.
    pub fn labels(&self) -> Vec<String> {
        self.lock().log.iter().map(|logged| logged.label().to_owned()).collect()
    }

    /// The history, from its beginning, to be cut anywhere.
    pub fn crash_points(&self) -> CrashPoints {
        let inner = self.lock();
        CrashPoints::new(inner.base.clone(), inner.log.clone(), inner.random.0)
    }

    /// The image of a crash at event `cut`. Replays the history: for many cuts use [`crash_points`](Self::crash_points).
    pub fn crash(&self, cut: usize, crash: Crash) -> SimIo {
        let mut points = self.crash_points();
        while points.cut() < cut && points.advance() {}
        points.image(crash)
    }

    /// xxh3 over all names and contents, as a program sees them.
    pub fn image_hash(&self) -> u64 {
        self.lock().disk.hash()
    }

    /// All files with their lengths.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let inner = self.lock();
        let files = inner.disk.names.iter().filter_map(|(path, entry)| match entry {
            Entry::File(node) => Some((path.to_path_buf(), inner.disk.nodes[*node].data.len() as u64)),
            Entry::Dir => None,
        });
        files.collect()
    }

    /// Let an operation fail.
    pub fn inject(&self, fault: Fault) {
        let mut inner = self.lock();
        let fault = match fault.when {
            When::Read(n) => Fault { when: When::Read(n + inner.reads), ..fault },
            _ => fault,
        };
        inner.faults.push(fault);
    }

    /// Forget all faults that have not struck.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// Tell so many bytes to be free from now on; what is written takes nothing of it.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.lock().free_bytes = bytes;
    }

    /// Flip one bit at rest. Past the end of the file: nothing happens.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> Result<()> {
        let mut inner = self.lock();
        let node = inner.file(path)?;
        inner.carry_out(Event::Flip { node, offset, bit }, "flip", path.into());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kind and file name, each run of digits (hexadecimal ones of a long number too) as one `#`.
fn label(kind: &str, path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "/".into(), |name| name.to_string_lossy());
    let stem_end = name.find('.').unwrap_or(name.len());
    let (stem, rest) = name.split_at(stem_end);
    if stem.len() >= 8 && stem.bytes().all(|b| b.is_ascii_hexdigit()) {
        return format!("{kind} #{rest}");
    }
    let mut out = format!("{kind} ");
    let mut in_number = false;
    for c in name.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !in_number {
            out.push('#');
        }
        in_number = c.is_ascii_digit();
    }
    out
}

fn errno(code: i32) -> Error {
    Error::from_raw_os_error(code)
}

fn eio() -> Error {
    errno(5)
}

fn enospc() -> Error {
    errno(28)
}

impl Inner {
    fn carry_out(&mut self, event: Event, kind: &'static str, path: Arc<Path>) {
        self.disk.apply(&event, false);
        self.log.push(Arc::new(Logged { event, kind, path, label: OnceLock::new() }));
    }

    /// The fault that strikes the operation that is about to become the next event.
    fn fault(&mut self, label: impl FnOnce() -> String, path: &Path) -> Option<FaultKind> {
        if self.faults.is_empty() {
            return None;
        }
        let info = EventInfo { number: self.log.len(), label: label(), path: path.to_owned() };
        self.strike(|when| match when {
            When::Event(n) => *n == info.number,
            When::Matches(matches) => matches(&info),
            When::Read(_) => false,
        })
    }

    fn strike(&mut self, matches: impl Fn(&When) -> bool) -> Option<FaultKind> {
        let fault = self.faults.iter_mut().find(|fault| fault.times > 0 && matches(&fault.when))?;
        if fault.times != u32::MAX {
            fault.times -= 1;
        }
        Some(fault.kind)
    }

    /// Carry out an event that fails whole.
    fn change(&mut self, event: Event, kind: &'static str, path: &Arc<Path>) -> Result<()> {
        let logged = Logged { event, kind, path: Arc::clone(path), label: OnceLock::new() };
        match self.fault(|| logged.label().to_owned(), path) {
            None => {
                self.disk.apply(&logged.event, false);
                self.log.push(Arc::new(logged));
                Ok(())
            }
            Some(FaultKind::LostNames) => {
                if let Event::SyncDir(dir) = logged.event {
                    self.carry_out(Event::FailedSyncDir(dir), "failed sync_dir", Arc::clone(path));
                }
                Err(eio())
            }
            Some(FaultKind::Eio) => Err(eio()),
            Some(FaultKind::Enospc | FaultKind::Short(_)) => Err(enospc()),
        }
    }

    fn file(&self, path: &Path) -> Result<usize> {
        match self.disk.names.get(&clean(path)) {
            Some(Entry::File(node)) => Ok(*node),
            Some(Entry::Dir) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.disk.names.is_dir(&clean(path))
    }

    fn check_parent(&self, path: &Path) -> Result<()> {
        let there = parent(&clean(path)).is_some_and(|dir| self.disk.names.is_dir(dir));
        if there { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn create(&mut self, path: &Path) -> Result<usize> {
        self.check_parent(path)?;
        let path = shared(path);
        self.change(Event::Create(Arc::clone(&path)), "create", &path)?;
        Ok(self.disk.nodes.len() - 1)
    }
}

fn shared(path: &Path) -> Arc<Path> {
    clean(path).as_ref().into()
}

impl Io for SimIo {
    fn free_bytes(&self, _: &Path) -> Result<Option<u64>> {
        Ok(self.lock().free_bytes)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut inner = self.lock();
        let node = match inner.file(path) {
            Ok(_) if mode.create && mode.exclusive => return Err(ErrorKind::AlreadyExists.into()),
            Ok(node) => node,
            Err(e) if e.kind() == ErrorKind::NotFound && mode.create => inner.create(path)?,
            Err(e) => return Err(e),
        };
        Ok(Arc::new(SimFile { io: self.clone(), node, mode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut inner = self.lock();
        inner.file(from)?;
        inner.check_parent(to)?;
        if inner.is_dir(to) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let from = shared(from);
        inner.change(Event::Rename(Arc::clone(&from), shared(to)), "rename", &from)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let mut inner = self.lock();
        inner.file(path)?;
        let path = shared(path);
        inner.change(Event::Remove(Arc::clone(&path)), "remove", &path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        let mut inner = self.lock();
        let names = inner.disk.names.iter().rev().map(|(name, _)| name);
        // Longest first: what is in a directory goes before it.
        let below: Vec<Arc<Path>> = names.filter(|name| name.starts_with(path)).cloned().collect();
        for name in below {
            inner.change(Event::Remove(Arc::clone(&name)), "remove", &name)?;
        }
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let mut inner = self.lock();
        let path = clean(path);
        let mut missing: Vec<&Path> = path.ancestors().take_while(|dir| !inner.is_dir(dir)).collect();
        while let Some(dir) = missing.pop() {
            if inner.disk.names.get(dir).is_some() {
                return Err(ErrorKind::NotADirectory.into());
            }
            let dir = shared(dir);
            inner.change(Event::Mkdir(Arc::clone(&dir)), "mkdir", &dir)?;
        }
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let inner = self.lock();
        let path = &*clean(path);
        if !inner.disk.names.is_dir(path) {
            return Err(ErrorKind::NotFound.into());
        }
        let names = inner.disk.names.iter().filter(|(name, _)| is_in(name, path));
        Ok(names.filter_map(|(name, _)| name.file_name()).map(PathBuf::from).collect())
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let mut inner = self.lock();
        if !inner.is_dir(path) {
            return Err(ErrorKind::NotFound.into());
        }
        let path = shared(path);
        inner.change(Event::SyncDir(Arc::clone(&path)), "sync_dir", &path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let (inner, path) = (self.lock(), clean(path));
        Ok(inner.disk.names.is_dir(&path) || inner.disk.names.get(&path).is_some())
    }

    fn try_lock(&self, path: &Path) -> Result<Option<Box<dyn Lock>>> {
        let mut inner = self.lock();
        match inner.file(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => drop(inner.create(path)?),
            other => drop(other?),
        }
        let path = clean(path).into_owned();
        if !inner.locks.insert(path.clone()) {
            return Ok(None);
        }
        Ok(Some(Box::new(SimLock { io: self.clone(), path })))
    }

    fn random_u64(&self) -> u64 {
        self.lock().random.next()
    }
}

struct SimLock {
    io: SimIo,
    path: PathBuf,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.io.lock().locks.remove(&self.path);
    }
}

struct SimFile {
    io: SimIo,
    node: usize,
    mode: OpenMode,
}

impl SimFile {
    /// The disk, for a change.
    fn writable(&self) -> Result<(MutexGuard<'_, Inner>, Arc<Path>)> {
        if !self.mode.write {
            return Err(errno(9)); // EBADF, as the kernel says
        }
        let inner = self.io.lock();
        let path = Arc::clone(&inner.disk.nodes[self.node].path);
        Ok((inner, path))
    }

    /// Direct transfers must be aligned, as O_DIRECT insists.
    fn check_aligned(&self, buf: &[u8], offset: u64) -> Result<()> {
        let aligned = |n: usize| n.is_multiple_of(BLOCK_BYTES);
        if (self.mode.direct_sync || self.mode.direct)
            && !(aligned(buf.as_ptr() as usize) && aligned(buf.len()) && aligned(offset as usize))
        {
            return Err(errno(22));
        }
        Ok(())
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.check_aligned(buf, offset)?;
        let mut inner = self.io.lock();
        let number = inner.reads;
        inner.reads += 1;
        if !inner.faults.is_empty() && inner.strike(|when| matches!(when, When::Read(n) if *n == number)).is_some() {
            return Err(eio());
        }
        let data = &inner.disk.nodes[self.node].data;
        let rest = data.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_aligned(buf, offset)?;
        let (mut inner, path) = self.writable()?;
        let write = |bytes: &[u8], durable| Event::Write { node: self.node, offset, bytes: bytes.into(), durable };
        match inner.fault(|| label("write", &path), &path) {
            None => {
                inner.carry_out(write(buf, self.mode.direct_sync), "write", path);
                Ok(())
            }
            Some(FaultKind::Eio | FaultKind::LostNames) => Err(eio()),
            Some(FaultKind::Enospc) => Err(enospc()),
            Some(FaultKind::Short(bytes)) => {
                let bytes = &buf[..bytes.min(buf.len())];
                inner.carry_out(write(bytes, false), "short write", path);
                Err(enospc())
            }
        }
    }

    fn sync(&self) -> Result<()> {
        let (mut inner, path) = self.writable()?;
        if inner.fault(|| label("sync", &path), &path).is_none() {
            inner.carry_out(Event::Sync(self.node), "sync", path);
            return Ok(());
        }
        let count = inner.disk.nodes[self.node].pending.len();
        let reached = (0..count).map(|_| inner.random.next() & 1 == 0).collect();
        inner.carry_out(Event::FailedSync(self.node, reached), "failed sync", path);
        Err(eio())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.io.lock().disk.nodes[self.node].data.len() as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        let (mut inner, path) = self.writable()?;
        inner.change(Event::SetLen(self.node, bytes), "set_len", &path)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        if self.len()? >= bytes {
            return Ok(());
        }
        let (mut inner, path) = self.writable()?;
        inner.change(Event::SetLen(self.node, bytes), "allocate", &path)
    }

    /// Changes nothing here, and so is no event; what would be lost by it is an error.
    fn fill(&self, offset: u64, bytes: u64) -> Result<()> {
        let (inner, path) = self.writable()?;
        let range = offset as usize..(offset + bytes) as usize;
        let there = inner.disk.nodes[self.node].data.get(range).unwrap_or_default();
        assert!(there.len() as u64 == bytes, "room behind the end of {} is filled", path.display());
        assert!(there.iter().all(|byte| *byte == 0), "what was written to {} is filled with zeros", path.display());
        Ok(())
    }

    fn map(&self, bytes: u64, committed: u64, writable: bool) -> Result<Arc<Mapping>> {
        if writable && !self.mode.write {
            return Err(errno(13)); // EACCES, as the kernel says
        }
        let data = Arc::clone(&self.io.lock().disk.nodes[self.node].data);
        let content = usize::try_from(bytes).ok().and_then(|bytes| data.get(..bytes)).ok_or(ErrorKind::InvalidInput)?;
        if !writable {
            return Mapping::lent(data, bytes, committed);
        }
        let store = Store { io: self.io.clone(), node: self.node };
        Mapping::recorded(content, committed, Box::new(store))
    }
}

/// What is stored through a mapping. The mapping itself holds a copy of the file as it was when it was mapped.
struct Store {
    io: SimIo,
    node: usize,
}

impl Record for Store {
    /// Memory refuses nothing, so no fault strikes here. Two events: a process may die between any two bytes of it.
    fn stored(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut inner = self.io.lock();
        let node = &inner.disk.nodes[self.node];
        if offset + bytes.len() as u64 > node.data.len() as u64 {
            return Err(ErrorKind::InvalidInput.into());
        }
        let path = Arc::clone(&node.path);
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (offset, bytes) in [(offset, first), (offset + first.len() as u64, second)] {
            if !bytes.is_empty() {
                let event = Event::Write { node: self.node, offset, bytes: bytes.into(), durable: false };
                inner.carry_out(event, "store", Arc::clone(&path));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
