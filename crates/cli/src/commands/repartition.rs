//! `biombo repartition`.

use biombo::{Options, Pace};
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::Done;
use crate::out::Out;
use crate::size::{show_bytes, show_count};
use crate::store_args::warned;

/// Add partitions to a store and spread its keys evenly over all of them
#[derive(Debug, Args)]
#[command(after_help = "\
For stores of hard partitions with hash placement. The keys that change their partition are copied, nothing else. Cut short, also
by a crash, the store is whole: the same command goes on. Partitions are not taken away: for fewer, back the store up and
restore it with --partitions.

Examples:
  biombo repartition fruit --partitions 16
  biombo repartition fruit                    spreads evenly over the partitions that it has
  biombo repartition fruit --json")]
pub(crate) struct RepartitionArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Number of partitions from now on, at least those that the store has [default: those]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: Option<u32>,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Repartitioned {
    partitions: u32,
    units: usize,
    keys: u64,
    bytes: u64,
}

/// Run `repartition`.
pub(crate) fn repartition(args: &RepartitionArgs) -> Done {
    let mut options = Options::new().create(false).grow(true);
    if let Some(partitions) = args.partitions {
        options = options.partitions(partitions);
    }
    let store = warned(options.open(&args.dir.dir, &biombo::registry())?);
    // What an attempt that was cut short left over.
    store.clean_leftovers(Pace::default())?;
    let moved = store.spread(Pace::default())?;
    let partitions = store.partitions();
    store.close()?;
    let mut out = Out::new();
    if args.json.json {
        out.json(&Repartitioned { partitions, units: moved.units, keys: moved.keys, bytes: moved.bytes })?;
    } else {
        out.line(format_args!(
            "{} keys ({}) moved, {partitions} partitions",
            show_count(moved.keys),
            show_bytes(moved.bytes)
        ))?;
    }
    out.finish()
}
