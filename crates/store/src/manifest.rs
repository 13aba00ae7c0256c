//! The manifest: what a store was created with. Format: `docs/format/store.md`.
//!
//! Invariants:
//!
//! 1. A directory is a store exactly when it holds `MANIFEST`. Creation writes `CREATING` first (the same text), then
//!    everything else, and renames it to `MANIFEST` last: the rename is the commit point.
//! 2. The file is replaced as a whole (written aside, synced, renamed, directory synced), never in place.
//! 3. Its last line is the checksum of all lines before it: a truncated or altered manifest is `Corruption`; a newer format or
//!    an unknown field is `Unsupported`. Neither changes anything on disk.
//!
//! Crash argument: before `CREATING` is durable the directory is empty but for the lock; with `CREATING` and no `MANIFEST`, the next
//! opening removes exactly what `CREATING` names and starts over; after the rename the store is whole, because everything else
//! was synced before.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use biombo_base::io::{Io, OpenMode};
use biombo_engine::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::options::PARTITIONS_MAX;

/// The format that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;
pub(crate) const MANIFEST: &str = "MANIFEST";
pub(crate) const CREATING: &str = "CREATING";
const TITLE: &str = "# Biombo store. Written by the store; a change by hand makes it unreadable.\n";
const CHECKSUM: &str = "# crc32c ";

/// What a store was created with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    /// Random, to tell one store's partition directories from another's.
    pub(crate) store_id: String,
    pub(crate) engine: String,
    pub(crate) partitioning: String,
    pub(crate) partitions: u32,
    pub(crate) placement: String,
    /// The directory of each engine instance: relative to the store's own, or absolute.
    pub(crate) engine_dirs: Vec<PathBuf>,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Result<String> {
        let fields = toml::to_string(self).map_err(|e| Error::invalid(format!("cannot write the manifest: {e}")))?;
        Ok(seal(format!("{TITLE}{fields}")))
    }

    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |offset: usize, what: &str| Error::corruption(path, offset as u64, what);
        let (body, sum) = split(path, bytes)?;
        // The format comes before the checksum: a newer version may sum differently.
        let table: toml::Table = body.parse().map_err(|_| damaged(0, "the manifest is not TOML"))?;
        let format = table.get("format").and_then(toml::Value::as_integer).unwrap_or(0);
        if format > i64::from(FORMAT) {
            return Err(Error::unsupported(format!(
                "{} has format {format}, this version knows {FORMAT}: use a newer biombo",
                path.display()
            )));
        }
        check(path, body, sum)?;
        let manifest: Self = table.try_into().map_err(|e: toml::de::Error| {
            Error::unsupported(format!("{}: {} (written by another version?)", path.display(), e.message()))
        })?;
        if manifest.partitions == 0 || manifest.partitions > PARTITIONS_MAX || manifest.engine_dirs.is_empty() {
            return Err(damaged(0, "the manifest's number of partitions is out of range"));
        }
        let dirs: HashSet<PathBuf> = manifest.engine_dirs.iter().map(|dir| Path::new(".").join(dir)).collect();
        if dirs.len() < manifest.engine_dirs.len() {
            return Err(damaged(0, "the manifest gives one directory to two partitions"));
        }
        Ok(manifest)
    }

    /// Read `dir/name`; `None` when it is missing.
    pub(crate) fn read(io: &dyn Io, dir: &Path, name: &str) -> Result<Option<Self>> {
        let path = dir.join(name);
        let refused = |e| Error::io(format_args!("read {}", path.display()), e);
        if !io.exists(&path).map_err(refused)? {
            return Ok(None);
        }
        let bytes = read_file(io, &path)?;
        Self::decode(&path, &bytes).map(Some)
    }

    /// The directory of engine instance `index`.
    pub(crate) fn engine_dir(&self, dir: &Path, index: usize) -> PathBuf {
        dir.join(&self.engine_dirs[index])
    }
}

/// `text` with its checksum as its last line.
pub(crate) fn seal(text: String) -> String {
    let checksum = crc32c::crc32c(text.as_bytes());
    format!("{text}{CHECKSUM}{checksum:08x}\n")
}

/// What [`seal`] was given; `Corruption` where it is not what stands there.
pub(crate) fn unseal<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str> {
    let (body, sum) = split(path, bytes)?;
    check(path, body, sum)?;
    Ok(body)
}

/// The text and its last line.
fn split<'a>(path: &Path, bytes: &'a [u8]) -> Result<(&'a str, &'a str)> {
    let damaged = |offset: usize, what: &str| Error::corruption(path, offset as u64, what);
    let text = std::str::from_utf8(bytes).map_err(|e| damaged(e.valid_up_to(), "the file is not text"))?;
    let sum_at = text.rfind(CHECKSUM).ok_or_else(|| damaged(bytes.len(), "the file ends before its checksum"))?;
    Ok(text.split_at(sum_at))
}

fn check(path: &Path, body: &str, sum: &str) -> Result<()> {
    if sum == format!("{CHECKSUM}{:08x}\n", crc32c::crc32c(body.as_bytes())) {
        return Ok(());
    }
    Err(Error::corruption(path, body.len() as u64, "the file's checksum differs from its contents"))
}

/// All bytes of a small file.
pub(crate) fn read_file(io: &dyn Io, path: &Path) -> Result<Vec<u8>> {
    let refused = |e| Error::io(format_args!("read {}", path.display()), e);
    let file = io.open(path, OpenMode::READ).map_err(refused)?;
    let bytes = file.len().map_err(refused)?.min(64 << 20);
    let mut buffer = vec![0; bytes as usize];
    let read = file.read_at(&mut buffer, 0).map_err(refused)?;
    buffer.truncate(read);
    Ok(buffer)
}

/// Replace `dir/name` by `text`, durably and as a whole.
pub(crate) fn replace_file(io: &dyn Io, dir: &Path, name: &str, text: &[u8]) -> Result<()> {
    let aside = dir.join(format!("{name}.tmp"));
    let path = dir.join(name);
    let refused = |e| Error::io(format_args!("write {}", path.display()), e);
    let file = io.open(&aside, OpenMode::WRITE).map_err(refused)?;
    file.set_len(0).map_err(refused)?;
    file.write_at(text, 0).map_err(refused)?;
    file.sync().map_err(refused)?;
    drop(file);
    io.rename(&aside, &path).map_err(refused)?;
    io.sync_dir(dir).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            store_id: "0123456789abcdef".into(),
            engine: "lmdb".into(),
            partitioning: "hard".into(),
            partitions: 2,
            placement: "hash".into(),
            engine_dirs: vec!["p0000".into(), "/mnt/b/biombo-0123456789abcdef-p0001".into()],
        }
    }

    #[test]
    fn every_truncation_and_every_changed_byte_is_refused() {
        let path = Path::new("MANIFEST");
        let text = manifest().encode().expect("encodes").into_bytes();
        assert_eq!(Manifest::decode(path, &text).expect("decodes"), manifest());
        for cut in 0..text.len() {
            assert!(Manifest::decode(path, &text[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(Manifest::decode(path, &changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_newer_format_is_unsupported_even_with_fields_that_we_do_not_know() {
        let text = "format = 2\nnew = 1\n# crc32c 00000000\n";
        let error = Manifest::decode(Path::new("MANIFEST"), text.as_bytes()).expect_err("newer");
        assert_eq!(error.kind(), biombo_engine::ErrorKind::Unsupported);
        assert!(error.to_string().contains("format 2"), "{error}");
    }
}
