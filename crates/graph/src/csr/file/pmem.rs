//! A static graph on persistent memory: `graph-csr.pmem`, the bytes of `graph.csr` in a mapped file, which kernels read where they are. Format:
//! `docs/format/graph-csr-pmem.md`.
//!
//! Nothing is copied but the ids: a graph is open as soon as its checksums were compared. On a file system with DAX the lists are
//! the memory itself; on any other file persistent memory is played ([`Backing`] says by what).
//!
//! Invariant: the file appears under its name when all of it is persistent, and is not changed afterwards.
//!
//! Crash argument: the graph is stored under the name `graph-csr.pmem.new`, written back and fenced, and then renamed, which is persistent when
//! it returns. Before that there is the graph that was there before, or none. What a crash leaves under the new name is replaced by
//! whoever makes one next, and read by nobody. A process that was killed between the rename and its becoming persistent leaves a
//! name that whoever opens the graph makes persistent first.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};

use super::body::{self, Reader};
use super::create_dir;
use super::header::Kind;
use crate::csr::Csr;
use crate::ids::Ids;
use crate::media::Backing;
use crate::media::persistent::{Mapped, Medium, Region};
use crate::view::View;

const NAME: &str = "graph-csr.pmem";
const NAME_NEW: &str = "graph-csr.pmem.new";

/// Whether `dir` has a static graph on persistent memory.
///
/// # Errors
/// `Io`.
pub fn exists(io: &dyn Io, dir: &Path) -> Result<bool> {
    let path = dir.join(NAME);
    io.exists(&path).map_err(|e| Error::io(format_args!("look for {}", path.display()), e))
}

/// Save `graph` with its vertices' `ids` in `dir`, which is created, in the place of what was there. It is persistent when this returns,
/// as far as what is behind it goes, which is returned. `io` is the real file system.
///
/// # Errors
/// `Full`, `Io`: the graph that was there before is still there. `Invalid` when there are not as many ids as vertices.
pub fn save(io: &Arc<dyn Io>, dir: &Path, graph: &Csr, ids: &Ids) -> Result<Backing> {
    create_dir(&**io, dir)?;
    save_on(&Mapped::new(io.clone(), dir.to_owned()), dir, graph, ids)
}

pub(crate) fn save_on(medium: &dyn Medium, dir: &Path, graph: &Csr, ids: &Ids) -> Result<Backing> {
    if ids.len() != graph.vertices() {
        return Err(Error::invalid(format!("there are {} ids of {} vertices", ids.len(), graph.vertices())));
    }
    let path = dir.join(NAME_NEW);
    let refused = |e| Error::io(format_args!("write {}", path.display()), e);
    let mut table = ids.table().iter().copied();
    let table: Option<&mut dyn Iterator<Item = u64>> = if ids.are_dense() { None } else { Some(&mut table) };
    let written = || -> std::io::Result<Backing> {
        let mut region = medium.create(NAME_NEW, body::length(graph, table.is_some()))?;
        body::write(&mut region, &Kind::STATIC, graph, table, false, 0)?;
        region.fence()?;
        Ok(region.backing())
    };
    let backing = written().inspect_err(|_| {
        // Nobody reads it; it only takes room.
        let _ = medium.remove(NAME_NEW);
    });
    let backing = backing.map_err(refused)?;
    medium.rename(NAME_NEW, NAME).map_err(refused)?;
    Ok(backing)
}

/// The graph in `dir`, its lists where they are kept, the ids of its vertices, and what is behind it. Everything is checked.
/// O(vertices + edges).
///
/// # Errors
/// As [`open`](super::open).
pub fn open(io: &Arc<dyn Io>, dir: &Path) -> Result<(Csr, Ids, Backing)> {
    open_on(&Mapped::new(io.clone(), dir.to_owned()), dir)
}

pub(crate) fn open_on(medium: &dyn Medium, dir: &Path) -> Result<(Csr, Ids, Backing)> {
    let path = dir.join(NAME);
    let opened = medium.settle().and_then(|()| medium.open(NAME));
    let region: Arc<dyn Region> = match opened {
        Ok(region) => Arc::from(region),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("there is no graph in {}: `biombo graph load` makes one", dir.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            return Err(Error::corruption(&path, 0, e.to_string()));
        }
        Err(e) => return Err(Error::io(format_args!("open {}", path.display()), e)),
    };
    let backing = region.backing();
    let contents = Reader { kind: &Kind::STATIC, path, source: region }.read()?;
    let (graph, ids) = contents.with_ids();
    Ok((graph, ids, backing))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use biombo_base::io::RealIo;
    use biombo_base::io::sim::Random;

    use super::super::tests::{examples, sized, told};
    use super::*;
    use crate::media::persistent::recorder::{Crash, Recorder};
    use crate::numa::Spreading;

    #[test]
    fn what_is_saved_is_read_where_it_is() {
        for (graph, ids) in examples() {
            for dir in std::iter::once(tempfile::tempdir().unwrap()).chain(tempfile::tempdir_in("/dev/shm")) {
                let (io, dir) = (RealIo::shared(), dir.path().join("a/graph"));
                assert!(!exists(&*io, &dir).unwrap());
                assert!(open(&io, &dir).is_err(), "there is no such directory");
                let backing = save(&io, &dir, &graph, &ids).unwrap();
                assert!(exists(&*io, &dir).unwrap());
                let (read, read_ids, found) = open(&io, &dir).unwrap();
                assert!(told(&read, &read_ids) == told(&graph, &ids));
                assert_eq!((backing, read.backing(), graph.backing()), (found, Some(found), None));
                // No memory that a node might have.
                assert_eq!((read.stays().is_some(), graph.stays()), (true, None));
                // The same bytes as those of a file.
                super::super::save(&*io, &dir, &graph, &ids).unwrap();
                let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
                assert!(bytes(NAME) == bytes("graph.csr"));
            }
        }
    }

    #[test]
    fn every_damage_is_told_and_none_is_read_as_a_graph() {
        let (graph, ids) = sized(40).swap_remove(0);
        let dir = tempfile::tempdir().unwrap();
        let (io, dir) = (RealIo::shared(), dir.path());
        save(&io, dir, &graph, &ids).unwrap();
        let sound = std::fs::read(dir.join(NAME)).unwrap();
        let expected = told(&graph, &ids);
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(dir.join(NAME), &bytes).unwrap();
            match open(&io, dir) {
                // Padding means nothing.
                Ok((read, read_ids, _)) => assert!(told(&read, &read_ids) == expected, "byte {at}"),
                Err(error) => assert!(error.to_string().contains(NAME), "byte {at}: {error}"),
            }
        }
        for length in [0, 1, 4095, 4096, sound.len() - 1, sound.len() + 4096] {
            let mut bytes = sound.clone();
            bytes.resize(length, 0);
            std::fs::write(dir.join(NAME), &bytes).unwrap();
            assert!(open(&io, dir).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_crash_leaves_the_graph_before_or_the_new_one_whole() {
        let dir = Path::new("graph");
        let graphs = sized(40);
        let expected: Vec<_> = graphs.iter().take(2).map(|(graph, ids)| told(graph, ids)).collect();
        let medium = Recorder::new();
        let saved: Vec<usize> = graphs
            .iter()
            .take(2)
            .map(|(graph, ids)| {
                save_on(&medium, dir, graph, ids).unwrap();
                medium.event_count()
            })
            .collect();
        let (mut points, mut random, mut images) = (medium.crash_points(), Random(1), HashSet::new());
        loop {
            for crash in points.crashes(300, &mut random) {
                let image = points.image(crash);
                if !images.insert(image.image_hash()) && !matches!(crash, Crash::Kill(_)) {
                    continue;
                }
                let what = format!("{crash:?} at {} ({})", points.cut(), points.label());
                let at_least = saved.iter().filter(|at| **at <= points.cut()).count();
                match open_on(&image, dir) {
                    Ok((read, ids, _)) => {
                        let found = expected.iter().position(|told_of| *told_of == told(&read, &ids));
                        assert!(found.is_some_and(|found| found + 1 >= at_least), "{what}: {found:?}");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotFound, "{what}: {error}");
                        assert_eq!(at_least, 0, "{what}: it is gone");
                    }
                }
            }
            if !points.advance() {
                break;
            }
        }
        assert!(images.len() > 150, "{} images", images.len());
    }
}
