//! `biombo scan` and `count`: many keys.

use std::ffi::OsString;

use biombo::Range;
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, EscapedArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::format::OutputFormat;
use crate::out::Out;
use crate::store_args;

/// Print keys and values in order of the keys (bytewise), one record a line; one point in the store's history
#[derive(Debug, Args)]
#[command(after_help = "\
In tsv only tab, newline, backslash and bytes that are no UTF-8 are escaped (\\t \\n \\\\ \\xHH); `biombo load` reads it back.

Examples:
  biombo scan fruit                            everything
  biombo scan fruit --prefix app               keys that begin with app
  biombo scan fruit --from a --to c            keys from a (included) to c (excluded)
  biombo scan fruit --reverse --limit 10       the last ten, the last first
  biombo scan fruit --keys-only | head         a closed pipe ends the scan
  biombo scan fruit --format jsonl             {\"key\":\"apple\",\"value\":\"red\"} a line")]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The first key (included)
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// The end (excluded)
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that begin with this; with --from or --to those of them that lie there
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// At most so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Keys without their values
    #[arg(long)]
    keys_only: bool,
    /// How a record is written [default: tsv]
    #[arg(long, value_enum, conflicts_with = "json")]
    format: Option<OutputFormat>,
    #[command(flatten)]
    escaped: EscapedArg,
    /// The same as --format jsonl
    #[arg(long)]
    json: bool,
}

/// Print the exact number of keys
#[derive(Debug, Args)]
#[command(after_help = "\
Where the engine keeps no exact count, everything is read; `biombo stat` gives the engine's estimate at once.

Examples:
  biombo count fruit
  biombo count fruit --json      {\"keys\":2}")]
pub(crate) struct CountArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Count {
    keys: u64,
}

/// Run `scan`.
pub(crate) fn scan(args: &ScanArgs) -> Done {
    let bound = |text: &Option<OsString>, what| {
        text.clone().map(|text| args.escaped.bytes(text, what)).transpose().map(|bytes: Option<Vec<u8>>| bytes)
    };
    let mut range = bound(&args.prefix, "--prefix")?.map_or_else(Range::all, |prefix| Range::prefix(&prefix));
    range.from = range.from.max(bound(&args.from, "--from")?.unwrap_or_default());
    range.to = match (range.to, bound(&args.to, "--to")?) {
        (Some(end), Some(to)) => Some(end.min(to)),
        (end, to) => end.or(to),
    };
    range.limit = args.limit;
    range.reverse = args.reverse;
    let format = if args.json { OutputFormat::Jsonl } else { args.format.unwrap_or_default() };
    let store = store_args::open(&args.dir.dir)?;
    let mut scan = store.scan(range)?;
    let mut out = Out::new();
    let mut line = Vec::new();
    while let Some((key, value)) = scan.next()? {
        line.clear();
        format.write(key, (!args.keys_only).then_some(value), &mut line);
        out.bytes(&line)?;
    }
    out.finish()
}

/// Run `count`.
pub(crate) fn count(args: &CountArgs) -> Done {
    let store = store_args::open(&args.dir.dir)?;
    let stats = store.stats()?;
    let keys = match stats.keys {
        Some(keys) if !stats.keys_estimated => keys,
        _ if store.capabilities().ordered => store.count()?,
        _ => return Err(Failure::failed(format!("the engine {} can neither count nor scan its keys", store.engine()))),
    };
    let mut out = Out::new();
    if args.json.json {
        out.json(&Count { keys })?
    } else {
        out.line(keys)?
    }
    out.finish()
}
