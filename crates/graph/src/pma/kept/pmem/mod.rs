//! A graph on `pmem`: a root, an image and a log, each a region of persistent memory. Format: `docs/format/graph-pmem.md`.
//!
//! `graph.pmem` is the root: two slots of one cache line each, of which the valid one with the higher generation says which image there is and
//! which records that lacks. `image-N` is the image of generation N, `log-N` the records from number N on.
//!
//! Invariants:
//! 1. A root names an image all of which was persistent before the root was stored, and the log reaches back to what that lacks.
//! 2. What the last persistent root names is neither changed nor removed: images and segments go after a root without them is
//!    persistent.
//! 3. After a root's fence failed nobody knows which image counts: no other is made.
//!
//! Crash argument: a new image has a name of its own, and counts from the instant when the line of its root is persistent, which is at once or
//! not at all: a torn line fails its checksum, and then the other slot counts, with the image before and its records. What no root names is
//! removed by whoever opens the graph next. Who opens it settles the names and writes the root back before that: a process that died may
//! have changed them and not have waited. The log has an argument of its own.

mod log;
mod root;
mod spare;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::Durability;

use super::{Image, Visit};
use crate::csr::file::{Contents, Kind, Reader};
use crate::ids::Ids;
use crate::media::Backing;
use crate::media::persistent::{Medium, Region};
use crate::pma::record::Few;
use crate::pma::{Layout, Snapshot};
use crate::view::View;
use log::Log;
use root::{Root, Slot};

/// The image of a generation.
fn image_name(generation: u64) -> String {
    format!("image-{generation:016x}")
}

/// The number in a name, `None` when it is another kind of name.
fn number_in(name: &str, stem: &str) -> Option<u64> {
    let digits = name.strip_prefix(stem)?;
    if digits.len() != 16 { None } else { u64::from_str_radix(digits, 16).ok() }
}

fn is_image(name: &str) -> bool {
    number_in(name, "image-").is_some()
}

/// A medium and the directory that it stands for, which errors name.
#[derive(Clone)]
struct Place {
    medium: Arc<dyn Medium>,
    dir: PathBuf,
}

impl Place {
    fn refused<'p>(&'p self, doing: &'p str, name: &'p str) -> impl Fn(std::io::Error) -> Error + 'p {
        move |error| Error::io(format_args!("{doing} {}", self.dir.join(name).display()), error)
    }

    fn damaged(&self, name: &str, offset: u64, what: impl Into<String>) -> Error {
        Error::corruption(self.dir.join(name), offset, what)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Region>> {
        self.medium.open(name).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => self.damaged(name, 0, error.to_string()),
            _ => self.refused("open", name)(error),
        })
    }

    fn names(&self) -> Result<Vec<String>> {
        self.medium.names().map_err(self.refused("read", ""))
    }

    /// Remove what `is_left` says is left over. Names may come back after a power cut: then somebody removes them again.
    fn remove(&self, is_left: impl Fn(&str) -> bool) -> Result<()> {
        let left = self.names()?;
        let mut left = left.iter().filter(|name| is_left(name));
        left.try_for_each(|name| self.medium.remove(name).map_err(self.refused("remove", name)))
    }

    /// Make an image, persistent when this returns. What a failure leaves is removed.
    fn write<V: View>(&self, generation: u64, image: Image<'_, '_, V>) -> Result<()> {
        let name = image_name(generation);
        let mut region = self.medium.create(&name, image.bytes()).map_err(self.refused("write", &name))?;
        let written = image.write(&mut region).and_then(|()| region.fence());
        written.map_err(|error| {
            let _ = self.medium.remove(&name);
            self.refused("write", &name)(error)
        })
    }
}

/// See the module.
pub(in crate::pma) struct Pmem {
    place: Place,
    root: Mutex<Root>,
    log: Log,
}

/// A graph whose image was read, and not its log.
pub(in crate::pma) struct Found {
    place: Place,
    root: Root,
}

impl Pmem {
    /// The name that a graph has here and on no other medium.
    pub(in crate::pma) const NAME: &'static str = root::NAME;

    /// Make a graph. It is durable when this returns; before, nothing of it is there. What is behind it.
    pub(in crate::pma) fn create<V: View>(
        medium: Arc<dyn Medium>,
        dir: &Path,
        identity: u64,
        view: &V,
        ids: &Ids,
        keeps_loops: bool,
    ) -> Result<Backing> {
        let mut table = ids.table().iter().copied();
        let ids: Option<&mut dyn Iterator<Item = u64>> = if ids.are_dense() { None } else { Some(&mut table) };
        let place = Place { medium, dir: dir.to_owned() };
        let clean = || place.remove(|name| is_image(name) || Log::is_segment(name) || name.ends_with(".new"));
        // Whoever wanted to make one before died on the way.
        clean()?;
        let slot = Slot::FIRST;
        let make = || {
            place.write(slot.generation, Image { view, ids, keeps_loops, applied: slot.applied })?;
            Log::create(&place, slot.applied)?;
            Root::create(&place, identity)
        };
        make().inspect_err(|_| {
            // It only takes room, unless the root has its name already. The next who makes a graph here tries again.
            if place.names().is_ok_and(|names| names.iter().all(|name| name != root::NAME)) {
                let _ = clean();
            }
        })
    }

    /// The root and the image that it names, and where that is.
    pub(in crate::pma) fn read(medium: Arc<dyn Medium>, dir: &Path) -> Result<(Found, Contents, PathBuf)> {
        let place = Place { medium, dir: dir.to_owned() };
        place.medium.settle().map_err(place.refused("open", ""))?;
        let root = Root::open(&place)?;
        let name = image_name(root.slot().generation);
        let source = place.open(&name).map_err(|error| match error.kind() {
            ErrorKind::NotFound => place.damaged(&name, 0, "the graph's image is missing"),
            _ => error,
        })?;
        let path = dir.join(&name);
        let contents = Reader { kind: &Kind::CHANGING, path: path.clone(), source }.read()?;
        let (found, wanted) = (contents.applied, root.slot().applied);
        if found != wanted {
            let what = format!("the image lacks the batches from {found} on, and by the root those from {wanted} on");
            return Err(place.damaged(&name, 56, what));
        }
        Ok((Found { place, root }, contents, path))
    }

    /// Go through the records that there are, and be ready for more.
    pub(in crate::pma) fn open(
        found: Found,
        segment_bytes: u64,
        makes_aside: bool,
        visit: &mut Visit<'_>,
    ) -> Result<Self> {
        let Found { place, root } = found;
        let slot = root.slot();
        let log = Log::open(&place, root.identity(), segment_bytes, makes_aside, slot.applied, visit)?;
        let image = image_name(slot.generation);
        place.remove(|name| is_image(name) && name != image || name.ends_with(".new") || log.is_past(name))?;
        Ok(Self { place, root: Mutex::new(root), log })
    }

    pub(super) fn append(&self, record: Vec<u8>, durability: Durability) -> Result<u64> {
        self.log.append(record, durability)
    }

    pub(super) fn is_quick(&self) -> bool {
        self.log.is_quick()
    }

    pub(super) fn append_few<T>(
        &self,
        record: &mut Few,
        durability: Durability,
        then: impl FnOnce(u64) -> Option<T>,
    ) -> Result<(u64, Option<T>)> {
        self.log.append_few(record, durability, then)
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.log.sync()
    }

    pub(super) fn save<L: Layout>(&self, snapshot: &Snapshot<L>, keeps_loops: bool, applied: u64) -> Result<()> {
        let mut root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        let before = root.slot();
        let slot = Slot { generation: before.generation + 1, applied };
        root.check()?;
        let write = || {
            let mut table = snapshot.names.table();
            let ids = table.as_mut().map(|table| table as &mut dyn Iterator<Item = u64>);
            self.place.write(slot.generation, Image { view: snapshot, ids, keeps_loops, applied })
        };
        match write() {
            // Saving is what makes room; a segment for later can wait.
            Err(error) if error.kind() == ErrorKind::Full && self.log.give_room_back() => write()?,
            written => written?,
        }
        root.store(slot).map_err(self.place.refused("write", root::NAME)).map_err(log::unknown)?;
        self.log.trim(applied)?;
        let name = image_name(before.generation);
        self.place.medium.remove(&name).map_err(self.place.refused("remove", &name))
    }

    pub(super) fn next(&self) -> u64 {
        self.log.next()
    }

    pub(super) fn backing(&self) -> Backing {
        self.log.backing()
    }
}
