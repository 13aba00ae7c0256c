//! `biombo get`, `put`, `delete`: one key.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use biombo::{Op, VALUE_BYTES_MAX};
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, EscapedArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::format::jsonl::Record;
use crate::out::Out;
use crate::store_args::{self, DurabilityArg, StoreArgs};

/// Print the value of a key, as it is and without a newline; `not found` and exit status 1 when it is absent
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  biombo get fruit apple                  the value's bytes, nothing else
  biombo get fruit apple > apple.bin      a binary value
  biombo get fruit apple --json           {\"key\":\"apple\",\"value\":\"red\"}; value_hex where it is no text
  biombo get fruit 'a\\x00b' --escaped     a key with a byte that the shell cannot pass
  biombo get fruit -- -apple              a key that begins with a dash")]
pub(crate) struct GetArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The key, its bytes as they are
    key: OsString,
    #[command(flatten)]
    escaped: EscapedArg,
    #[command(flatten)]
    json: JsonArg,
}

/// Set a key to a value; the store is created when it is missing
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  biombo put fruit apple red                    on the device when the command returns
  biombo put fruit apple --file apple.bin       the value from a file; `--file -` reads standard input
  biombo put fruit apple red --durability os    without a sync
  biombo put fruit apple red --engine rocksdb   creates fruit over rocksdb if it is missing")]
pub(crate) struct PutArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The key, its bytes as they are
    key: OsString,
    /// The value, its bytes as they are; may be empty
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    value: Option<OsString>,
    /// Take the value from a file; `-`: standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    escaped: EscapedArg,
    #[command(flatten)]
    durability: DurabilityArg,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    store: StoreArgs,
}

/// Remove a key; one that is absent is no error
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  biombo delete fruit apple
  biombo delete fruit apple --durability os")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The key, its bytes as they are
    key: OsString,
    #[command(flatten)]
    escaped: EscapedArg,
    #[command(flatten)]
    durability: DurabilityArg,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    key: Record<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes: Option<usize>,
    durability: &'static str,
}

/// Run `get`.
pub(crate) fn get(args: &GetArgs) -> Done {
    let key = args.escaped.key(&args.key)?;
    let store = store_args::open(&args.dir.dir)?;
    let Some(value) = store.get(&key)? else { return Err(Failure::NotFound) };
    let mut out = Out::new();
    if args.json.json {
        out.json(&Record::new(&key, Some(&value)))?;
    } else {
        out.bytes(&value)?;
    }
    out.finish()
}

/// Run `put`.
pub(crate) fn put(mut args: PutArgs) -> Done {
    let config = args.store.merge_config()?;
    args.store.check()?;
    let key = args.escaped.key(&args.key)?;
    let value = match (&args.file, args.value.take()) {
        (Some(file), _) => read_value(file)?,
        (None, value) => args.escaped.bytes(value.unwrap_or_default(), "VALUE")?,
    };
    let durability = args.durability.durability.or(config.durability).unwrap_or_default();
    let store = match args.store.open_existing(&args.dir.dir)? {
        Some(store) => store,
        None => {
            // What it would refuse must not leave an empty store behind.
            args.store.check_op(&Op::Put { key: &key, value: &value })?;
            args.store.create(&args.dir.dir, Vec::new())?
        }
    };
    store.put_with(&key, &value, durability)?;
    store_args::close(store, durability)?;
    let mut out = Out::new();
    if args.json.json {
        let value_bytes = Some(value.len());
        out.json(&Written { key: Record::new(&key, None), value_bytes, durability: durability.name() })?;
    }
    out.finish()
}

/// Run `delete`.
pub(crate) fn delete(args: &DeleteArgs) -> Done {
    let key = args.escaped.key(&args.key)?;
    let durability = args.durability.durability.unwrap_or_default();
    let store = store_args::open(&args.dir.dir)?;
    store.delete_with(&key, durability)?;
    store_args::close(store, durability)?;
    let mut out = Out::new();
    if args.json.json {
        out.json(&Written { key: Record::new(&key, None), value_bytes: None, durability: durability.name() })?;
    }
    out.finish()
}

fn read_value(file: &Path) -> Done<Vec<u8>> {
    let mut value = Vec::new();
    // One byte more than a value may have tells that it is too long, however long the file is.
    let limit = VALUE_BYTES_MAX as u64 + 1;
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut value)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut value))
    };
    read.map_err(|e| Failure::input(file.display(), &e))?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(Failure::failed(format!(
            "{} is longer than the longest value, {VALUE_BYTES_MAX} bytes",
            file.display()
        )));
    }
    Ok(value)
}
