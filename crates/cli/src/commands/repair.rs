//! `biombo repair`.

use biombo::{Error, ErrorKind, Options};
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::format::tsv;
use crate::out::Out;
use crate::size::show_count;
use crate::store_args;

/// Salvage everything that is sound in a damaged store (engine log), say what is dropped, and verify the result
#[derive(Debug, Args)]
#[command(after_help = "\
Each damage is one line: FILE: offset N, M bytes: what is wrong, and the key of the record that is lost, as far as it can be
read. A damaged record is as if it had never been written: its key has the value before that, if one is still there, or none.
The files that were replaced stay beside, under names that end in .damaged, until you remove them. A store without damage is
not changed. Repair may be interrupted and run again. Exit status 0 when the store verifies clean afterwards. What the store
keeps beside its engines (MANIFEST, placement, intents: small files) cannot be repaired: that takes a backup.

Examples:
  biombo repair fruit
  biombo repair fruit --json     {\"file\":..,\"offset\":..,\"bytes\":..,\"what\":..,\"key\":..} a damage, then
                                 {\"keys\":..,\"losses\":..,\"moved_records\":..,\"replaced_files\":..}")]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct LossLine {
    file: String,
    offset: u64,
    bytes: u64,
    what: String,
    /// With the escapes of tsv.
    key: Option<String>,
}

#[derive(Serialize)]
struct Summary {
    keys: u64,
    losses: u64,
    moved_records: u64,
    replaced_files: u64,
}

/// What was not repaired, after what was: damage that is left is of the store's own files, or of an engine that contradicts itself.
fn beyond_repair(error: &Error, repaired: &str) -> Failure {
    match error.kind() {
        ErrorKind::Corruption => {
            Failure::failed(format!("{repaired}{error}; this cannot be repaired: restore a backup"))
        }
        _ => Failure::failed(format!("{repaired}{error}")),
    }
}

/// Run `repair`.
pub(crate) fn repair(args: &RepairArgs) -> Done {
    let dir = &args.dir.dir;
    let mut out = Out::new();
    let mut said = Ok(());
    let done = Options::new().repair(dir, &biombo::registry(), &mut |loss| {
        let key = loss.key.map(|key| {
            let mut shown = Vec::new();
            tsv::escape(&key, &mut shown);
            String::from_utf8_lossy(&shown).into_owned()
        });
        let (file, what) = (loss.file.display().to_string(), loss.what.replace('\n', "; "));
        let (offset, bytes) = (loss.offset, loss.bytes);
        let line = if args.json.json {
            out.json(&LossLine { file, offset, bytes, what, key })
        } else {
            let key = key.map_or_else(String::new, |key| format!("; key {key}"));
            out.line(format_args!("{file}: offset {offset}, {bytes} bytes: {what}{key}"))
        };
        if said.is_ok() {
            said = line;
        }
    });
    let done = done.map_err(|error| beyond_repair(&error, ""))?;
    said?;
    let repaired = if done.losses > 0 { "the engine is repaired, but " } else { "" };
    let store = store_args::try_open(dir).map_err(|error| beyond_repair(&error, repaired))?;
    let mut left = 0u64;
    let keys = store.verify(&mut |_| left += 1)?;
    store.close()?;
    let summary =
        Summary { keys, losses: done.losses, moved_records: done.moved_records, replaced_files: done.replaced_files };
    if args.json.json {
        out.json(&summary)?;
    } else if done.losses == 0 {
        out.line(format_args!("{} keys read, no damage: nothing was changed", show_count(keys)))?;
    } else {
        let saved = match done.replaced_files {
            0 => "no file was replaced".to_owned(),
            1 => format!(
                "{} records were saved from one file, which ends in .damaged now",
                show_count(done.moved_records)
            ),
            files => format!(
                "{} records were saved from {files} files, which end in .damaged now",
                show_count(done.moved_records)
            ),
        };
        let damages = if done.losses == 1 { "1 damage".to_owned() } else { format!("{} damages", done.losses) };
        out.line(format_args!("{damages}; {} keys are there and verified; {saved}", show_count(keys)))?;
    }
    out.finish()?;
    match left {
        0 => Ok(()),
        left => Err(Failure::failed(format!("{} has {left} damages left: see `biombo verify`", dir.display()))),
    }
}
