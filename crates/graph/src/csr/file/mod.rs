//! A graph as a file in its directory: `graph.csr`, the static one, and `graph.pma`, a changing one at some point in its history. Formats:
//! `docs/format/graph-csr.md`, `docs/format/graph-pma.md`.
//!
//! Invariants:
//! 1. The file appears under its name by one rename, when all of it is written and synced.
//! 2. Every byte that means something is covered by a checksum; what was read is compared before it is used. Padding means nothing.
//!
//! Crash argument: before the rename is durable, the directory has the graph that was there before, or none; after it, the new
//! one. What an interrupted `save` leaves under `graph.csr.new` is overwritten by the next one and read by nobody.

mod body;
mod header;
pub mod pmem;

use std::path::Path;

use biombo_base::io::{Io, OpenMode};
use biombo_base::{Error, ErrorKind, Result};

use super::Csr;
use crate::ids::Ids;
use crate::view::View;
pub(crate) use body::{Contents, Reader, Target, length, write};
pub(crate) use header::Kind;

/// Whether `dir` has a static graph.
///
/// # Errors
/// `Io`.
pub fn exists(io: &dyn Io, dir: &Path) -> Result<bool> {
    exists_as(&Kind::STATIC, io, dir)
}

/// Whether `dir` has a graph of that kind.
pub(crate) fn exists_as(kind: &Kind, io: &dyn Io, dir: &Path) -> Result<bool> {
    let path = dir.join(kind.name);
    io.exists(&path).map_err(|e| Error::io(format_args!("look for {}", path.display()), e))
}

/// Save `graph` with its vertices' `ids` in `dir`, which is created, in the place of what was there. It is durable when this returns.
///
/// # Errors
/// `Full`, `Io`: the graph that was there before is still there. `Invalid` when there are not as many ids as vertices.
pub fn save(io: &dyn Io, dir: &Path, graph: &Csr, ids: &Ids) -> Result<()> {
    if ids.len() != graph.vertices() {
        return Err(Error::invalid(format!("there are {} ids of {} vertices", ids.len(), graph.vertices())));
    }
    let mut table = ids.table().iter().copied();
    let table: Option<&mut dyn Iterator<Item = u64>> = if ids.are_dense() { None } else { Some(&mut table) };
    save_as(&Kind::STATIC, io, dir, graph, table, false, 0)
}

/// Save a graph of that kind; `ids` in the order of numbers, where they are not dense.
pub(crate) fn save_as<V: View>(
    kind: &Kind,
    io: &dyn Io,
    dir: &Path,
    view: &V,
    ids: Option<&mut dyn Iterator<Item = u64>>,
    keeps_loops: bool,
    applied: u64,
) -> Result<()> {
    let (path, aside) = (dir.join(kind.name), dir.join(kind.name_new));
    let refused = |e| Error::io(format_args!("write {}", aside.display()), e);
    create_dir(io, dir)?;
    let written = || -> Result<()> {
        let mut file = io.open(&aside, OpenMode::WRITE).map_err(refused)?;
        file.set_len(0).map_err(refused)?;
        body::write(&mut file, kind, view, ids, keeps_loops, applied).map_err(refused)?;
        file.sync().map_err(refused)
    };
    if let Err(error) = written() {
        // Nobody reads it; it only takes room.
        let _ = io.remove_file(&aside);
        return Err(error);
    }
    io.rename(&aside, &path).map_err(refused)?;
    io.sync_dir(dir).map_err(refused)
}

/// Create a directory and its parents, their names durable.
pub(crate) fn create_dir(io: &dyn Io, dir: &Path) -> Result<()> {
    let refused = |e| Error::io(format_args!("create {}", dir.display()), e);
    let mut parents = Vec::new();
    for parent in dir.ancestors().skip(1) {
        // A name is synced even when it is there: who made it may have died before syncing.
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        parents.push(parent);
        if io.exists(parent).map_err(refused)? {
            break;
        }
    }
    io.create_dir_all(dir).map_err(refused)?;
    parents.iter().rev().try_for_each(|parent| io.sync_dir(parent)).map_err(refused)
}

/// The graph in `dir`, read into memory, and the ids of its vertices. Everything is checked. O(vertices + edges).
///
/// # Errors
/// `NotFound` where there is none, `Unsupported` for one of a newer version, `Corruption` with the file, the offset and what is wrong,
/// `Io`.
pub fn open(io: &dyn Io, dir: &Path) -> Result<(Csr, Ids)> {
    Ok(read(&Kind::STATIC, io, dir)?.with_ids())
}

/// The graph of that kind in `dir`.
pub(crate) fn read(kind: &'static Kind, io: &dyn Io, dir: &Path) -> Result<Contents> {
    let path = dir.join(kind.name);
    let source = match io.open(&path, OpenMode::READ) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("there is no graph in {}: `biombo graph load` makes one", dir.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Err(e) => return Err(Error::io(format_args!("open {}", path.display()), e)),
    };
    Reader { kind, path, source }.read()
}

#[cfg(test)]
mod tests;
