//! `biombo compact`.

use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::Done;
use crate::out::Out;
use crate::size::show_bytes;
use crate::store_args;

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
struct Compacted {
    physical_bytes_before: Option<u64>,
    physical_bytes_after: Option<u64>,
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
