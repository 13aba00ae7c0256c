//! `biombo verify` and `compact`.

use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::{show_bytes, show_count};
use crate::store_args;

/// Read everything and report each damage; exit status 1 when there is any
#[derive(Debug, Args)]
#[command(after_help = "\
Each damage is one line: FILE: offset N: what is wrong. Engines without checksums (lmdb, tkrzw) can only show what their own
structure reveals. Every key is also checked to lie in the partition that owns it.

Examples:
  biombo verify fruit
  biombo verify fruit --json     {\"file\":..,\"offset\":..,\"what\":..} a damage, then {\"keys\":..,\"damages\":..}")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    json: JsonArg,
}

/// Give room back to the file system and put neighbouring keys together, as far as the engine can
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  biombo compact fruit           prints the bytes on disk before and after
  biombo compact fruit --json")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct DamageLine {
    file: String,
    offset: u64,
    what: String,
}

#[derive(Serialize)]
struct Verified {
    keys: u64,
    damages: u64,
}

#[derive(Serialize)]
struct Compacted {
    physical_bytes_before: Option<u64>,
    physical_bytes_after: Option<u64>,
}

/// Run `verify`.
pub(crate) fn verify(args: &VerifyArgs) -> Done {
    let store = store_args::open(&args.dir.dir)?;
    let mut out = Out::new();
    let mut damages = 0;
    let mut said = Ok(());
    let keys = store.verify(&mut |damage| {
        damages += 1;
        let file = damage.file.display().to_string();
        let line = if args.json.json {
            out.json(&DamageLine { file, offset: damage.offset, what: damage.what })
        } else {
            out.line(format_args!("{file}: offset {}: {}", damage.offset, damage.what.replace('\n', "; ")))
        };
        if said.is_ok() {
            said = line;
        }
    })?;
    said?;
    if args.json.json {
        out.json(&Verified { keys, damages })?;
    } else if damages == 0 {
        out.line(format_args!("{} keys read, no damage", show_count(keys)))?;
    }
    out.finish()?;
    match damages {
        0 => Ok(()),
        _ => Err(Failure::failed(format!(
            "{} is damaged in {damages} place{}; restore a backup, or save with `biombo scan` what can be read",
            args.dir.dir.display(),
            if damages == 1 { "" } else { "s" }
        ))),
    }
}

/// Run `compact`.
pub(crate) fn compact(args: &CompactArgs) -> Done {
    let store = store_args::open(&args.dir.dir)?;
    let physical_bytes_before = store.stats()?.physical_bytes;
    store.compact()?;
    let physical_bytes_after = store.stats()?.physical_bytes;
    store.close()?;
    let mut out = Out::new();
    if args.json.json {
        out.json(&Compacted { physical_bytes_before, physical_bytes_after })?;
    } else {
        let show = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), show_bytes);
        out.line(format_args!("{} on disk before, {} after", show(physical_bytes_before), show(physical_bytes_after)))?;
    }
    out.finish()
}
