//! The manifest: what a store was created with. Format: `docs/format/store.md`.
//!
//! Invariants:
//!
//! 1. A directory is a store exactly when it holds `MANIFEST`. Creation writes `CREATING` first (the same text), then
//!    everything else, and renames it to `MANIFEST` last: the rename is the commit point.
//! 2. The file is replaced as a whole (written aside, synced, renamed, directory synced), never in place. An opening syncs the directory before it
//!    relies on it: who replaced it may have died before that.
//! 3. A change of the partitions is written here before anything moves for it, and again when it is over: which partitions leave, which
//!    directories belong to nobody any more, or not yet (`reshape`, `retire`, `replace`). A directory of `removing` is named by nothing else. What is
//!    made beside is named there before it is made, so that a crash leaves nothing that nobody names.
//! 4. Its last line is the checksum of all lines before it: a truncated or altered manifest is `Corruption`; a newer format or
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

use crate::open::{INTENT_DIR, PLACEMENT_DIR};
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
    /// The engine of each instance, while they are not all of `engine`: those that stay are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) engines: Vec<String>,
    /// Partitions that leave, ascending: what they own moves to the others, then they are taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) leaving: Vec<u16>,
    /// How often partitions were taken away: each time the store's journals begin anew, in directories of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) generation: u32,
    /// Directories that belong to nobody any more, or not yet, to be removed by the next opening.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removing: Vec<PathBuf>,
    /// It has taken the place of one whose `removing` names partitions of this one, and nobody knows that for durable: the next opening writes it
    /// anew before it relies on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unsettled: bool,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
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
        let is_needed = |dir: &PathBuf| dirs.contains(&Path::new(".").join(dir)) || manifest.has_journal_in(dir);
        if manifest.removing.iter().any(|dir| is_needed(dir) || !manifest.made(dir)) || manifest.generation == u32::MAX
        {
            return Err(damaged(0, "the manifest has a directory removed that belongs to somebody"));
        }
        let count = manifest.engine_dirs.len();
        let leave = &manifest.leaving;
        let may_leave = leave.is_sorted_by(|a, b| a < b) && leave.last().is_none_or(|last| usize::from(*last) < count);
        let is_divided = manifest.partitions as usize == count;
        if !may_leave || leave.len() >= count || (!leave.is_empty() && !is_divided) {
            return Err(damaged(0, "the manifest lets partitions leave that it does not have, or all"));
        }
        let engines = &manifest.engines;
        let stay_as_said = || manifest.staying().all(|index| engines[index] == manifest.engine);
        if !engines.is_empty() && (engines.len() != count || !stay_as_said()) {
            return Err(damaged(0, "the manifest names other engines than those of its partitions"));
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

    /// The engine of instance `index`.
    pub(crate) fn engine_of(&self, index: usize) -> &str {
        self.engines.get(index).unwrap_or(&self.engine)
    }

    /// Whether instance `index` is that of a partition that leaves.
    pub(crate) fn is_leaving(&self, index: usize) -> bool {
        self.leaving.iter().any(|leaving| usize::from(*leaving) == index)
    }

    /// The instances of partitions that stay.
    pub(crate) fn staying(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.engine_dirs.len()).filter(|index| !self.is_leaving(*index))
    }

    /// The number of partitions once those that leave have left.
    pub(crate) fn partitions_to_stay(&self) -> u32 {
        self.partitions - self.leaving.len() as u32
    }

    fn has_journal_in(&self, dir: &Path) -> bool {
        [PLACEMENT_DIR, INTENT_DIR].iter().any(|name| self.journal_dir(name) == dir)
    }

    /// Take what this manifest names for itself out of what it has removed.
    pub(crate) fn keep_what_is_needed(&mut self) {
        let mut removing = std::mem::take(&mut self.removing);
        removing.retain(|dir| !self.engine_dirs.contains(dir) && !self.has_journal_in(dir));
        self.removing = removing;
    }

    /// Whether a directory has one of the names that this store gives: nothing else is ever removed for it, whatever a manifest says that
    /// somebody else has written.
    pub(crate) fn made(&self, dir: &Path) -> bool {
        let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { return false };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_numbered = |prefix: &str| name.strip_prefix(prefix).is_some_and(is_number);
        if dir.is_absolute() {
            return is_numbered(&format!("biombo-{}-p", self.store_id));
        }
        let is_journal = |journal: &&str| name == *journal || is_numbered(&format!("{journal}-"));
        dir.components().count() == 1 && (is_numbered("p") || [PLACEMENT_DIR, INTENT_DIR].iter().any(is_journal))
    }

    /// The directory of one of the store's journals, relative to the store's own.
    pub(crate) fn journal_dir(&self, name: &str) -> PathBuf {
        PathBuf::from(if self.generation == 0 { name.to_owned() } else { format!("{name}-{}", self.generation) })
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
            engines: Vec::new(),
            leaving: Vec::new(),
            generation: 0,
            removing: Vec::new(),
            unsettled: false,
        }
    }

    /// One whose partitions change their engine.
    fn under_change() -> Manifest {
        Manifest {
            engines: vec!["log".into(), "lmdb".into()],
            leaving: vec![0],
            generation: 3,
            removing: vec!["p0007".into(), "placement-2".into()],
            unsettled: true,
            ..manifest()
        }
    }

    #[test]
    fn every_truncation_and_every_changed_byte_is_refused() {
        let path = Path::new("MANIFEST");
        for manifest in [manifest(), under_change()] {
            let text = manifest.encode().expect("encodes").into_bytes();
            assert_eq!(Manifest::decode(path, &text).expect("decodes"), manifest);
            for cut in 0..text.len() {
                assert!(Manifest::decode(path, &text[..cut]).is_err(), "cut at {cut}");
            }
            for at in 0..text.len() {
                let mut changed = text.clone();
                changed[at] ^= 1;
                assert!(Manifest::decode(path, &changed).is_err(), "changed at {at}");
            }
        }
    }

    /// A store that never changed its partitions stays readable by versions that know of no such change.
    #[test]
    fn a_manifest_without_a_change_says_nothing_of_one() {
        let text = manifest().encode().expect("encodes");
        for field in ["engines", "leaving", "generation", "removing", "unsettled"] {
            assert!(!text.contains(field), "{field} in {text}");
        }
        let change = under_change();
        assert_eq!((change.engine_of(0), change.engine_of(1)), ("log", "lmdb"));
        assert_eq!((change.staying().collect::<Vec<_>>(), change.partitions_to_stay()), (vec![1], 1));
        assert_eq!(manifest().journal_dir("intents"), Path::new("intents"));
        assert_eq!(change.journal_dir("intents"), Path::new("intents-3"));
    }

    /// Each would have what a partition owns removed, or no engine for it.
    #[test]
    fn a_change_that_cannot_be_is_damage() {
        let wrong = [
            Manifest { leaving: vec![0, 1], ..manifest() },
            Manifest { leaving: vec![2], ..manifest() },
            Manifest { leaving: vec![1, 0], ..under_change() },
            Manifest { leaving: vec![1], partitions: 5, ..manifest() },
            Manifest { engines: vec!["lmdb".into()], ..manifest() },
            Manifest { engines: vec!["log".into(), "lmdb".into()], ..manifest() },
            Manifest { removing: vec!["p0000".into()], ..manifest() },
            Manifest { generation: u32::MAX, ..manifest() },
        ];
        for manifest in wrong {
            let text = manifest.encode().expect("encodes");
            let error = Manifest::decode(Path::new("MANIFEST"), text.as_bytes()).expect_err("wrong");
            assert_eq!(error.kind(), biombo_engine::ErrorKind::Corruption, "{error}");
        }
    }

    /// A forged manifest has nothing removed that no store has made.
    #[test]
    fn only_directories_that_the_store_has_named_are_removed() {
        let removing = |dir: &str| {
            let manifest = Manifest { removing: vec![dir.into()], generation: 2, ..manifest() };
            let text = manifest.encode().expect("encodes");
            Manifest::decode(Path::new("MANIFEST"), text.as_bytes()).is_ok()
        };
        for dir in ["p0002", "p12345", "placement", "intents-1", "/mnt/b/biombo-0123456789abcdef-p0007"] {
            assert!(removing(dir), "{dir}");
        }
        let others = [
            "",
            "/",
            "..",
            "../p0002",
            "./p0000",
            "p",
            "p1x",
            "photos",
            "placement-",
            "intents-2",
            "/home",
            "/mnt/p0003",
        ];
        for dir in
            others.into_iter().chain(["/mnt/b/biombo-fedcba9876543210-p0007", "/mnt/b/biombo-0123456789abcdef-p"])
        {
            assert!(!removing(dir), "{dir}");
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
