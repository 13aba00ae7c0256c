//! `biombo checkpoint`, `backup`, `restore`: copies of one point in a store's history.

use std::path::PathBuf;

use biombo::Store;
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::Done;
use crate::out::Out;
use crate::size::{show_bytes, show_count};
use crate::store_args::{self, StoreArgs};

/// Write a copy of the store that can be opened at once
#[derive(Debug, Args)]
#[command(after_help = "\
The copy has the same engine and partitions, all in DEST, and is durable when the command returns.

Example:
  biombo checkpoint fruit fruit-monday && biombo count fruit-monday")]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Where the copy goes; must not exist, or be an empty directory
    dest: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

/// Save all keys and values in one file
#[derive(Debug, Args)]
#[command(after_help = "\
The file carries checksums, does not depend on the engine, and appears under its name only when it is whole and durable.

Example:
  biombo backup fruit fruit.backup && biombo restore fruit.backup fruit2")]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The file to write; one that exists is replaced
    file: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

/// Make a store of a file that `backup` wrote
#[derive(Debug, Args)]
#[command(after_help = "\
The new store has the engine and partitions of the saved one unless options say otherwise: the way to change them.

Examples:
  biombo restore fruit.backup fruit2
  biombo restore fruit.backup fruit3 --engine rocksdb --partitions 16")]
pub(crate) struct RestoreArgs {
    /// The file that `backup` wrote
    file: PathBuf,
    /// The new store's directory; must not exist, or be empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Serialize)]
struct Copied {
    to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    bytes: Option<u64>,
}

impl Copied {
    fn say(&self, json: bool, what: &str) -> Done {
        let mut out = Out::new();
        if json {
            out.json(self)?;
        } else {
            let keys = self.keys.map_or(String::new(), |keys| format!("{} keys, ", show_count(keys)));
            let bytes = self.bytes.map_or_else(|| "size unknown".to_owned(), show_bytes);
            out.line(format_args!("{what} {}: {keys}{bytes}", self.to))?;
        }
        out.finish()
    }
}

/// Run `checkpoint`.
pub(crate) fn checkpoint(args: &CheckpointArgs) -> Done {
    let store = store_args::open(&args.dir.dir)?;
    store.checkpoint(&args.dest, &biombo::registry())?;
    drop(store);
    let bytes = bytes_below(&args.dest);
    Copied { to: args.dest.display().to_string(), keys: None, bytes }.say(args.json.json, "checkpoint in")
}

/// Run `backup`.
pub(crate) fn backup(args: &BackupArgs) -> Done {
    let store = store_args::open(&args.dir.dir)?;
    let keys = store.backup(&args.file)?;
    let bytes = std::fs::metadata(&args.file).ok().map(|meta| meta.len());
    Copied { to: args.file.display().to_string(), keys: Some(keys), bytes }.say(args.json.json, "backup in")
}

/// Run `restore`.
pub(crate) fn restore(mut args: RestoreArgs) -> Done {
    args.store.merge_config()?;
    args.store.check()?;
    let store = Store::restore(&args.file, &args.dir, args.store.options(), &biombo::registry())?;
    let stats = store.stats()?;
    let keys = stats.keys.filter(|_| !stats.keys_estimated);
    let bytes = stats.physical_bytes;
    store.close()?;
    Copied { to: args.dir.display().to_string(), keys, bytes }.say(args.json.json, "restored to")
}

/// Bytes of all files below a directory.
fn bytes_below(dir: &std::path::Path) -> Option<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).ok()? {
        let entry = entry.ok()?;
        let meta = entry.metadata().ok()?;
        // Allocated, not apparent: a file with holes is as large as what it holds.
        bytes += if meta.is_dir() {
            bytes_below(&entry.path())?
        } else {
            std::os::unix::fs::MetadataExt::blocks(&meta) * 512
        };
    }
    Some(bytes)
}
