//! `biombo repartition`.

use biombo::{Options, Pace, PlacementKind};
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::{show_bytes, show_count};
use crate::store_args::{PLACEMENTS, one_of, warned};

/// Give a store more partitions, fewer, of another engine, or placed otherwise, and spread its keys evenly over them
#[derive(Debug, Args)]
#[command(after_help = "\
For stores of hard partitions. Under hash placement they get equally many slots; under range placement each gets one range with
about as many bytes as the others. The keys that change their partition are copied, nothing else: with another engine all of them,
and until a partition has left its keys take room twice. Partitions that are left with nothing are removed. Cut short, also by a
crash, the store is whole and serves: the same command goes on, and one with the figures from before goes back.
With another --placement all keys are copied into new partitions, which take the place of the old ones in the end: cut short, the store
is as it was. All keys take room twice until then, which is asked for beforehand.

Examples:
  biombo repartition fruit --partitions 16
  biombo repartition fruit --partitions 4     takes 12 of them away again
  biombo repartition fruit --engine lmdb      as many partitions of another engine
  biombo repartition fruit --placement range  ranges of keys instead of hash slots
  biombo repartition fruit                    spreads evenly over the partitions that it has
  biombo repartition fruit --json")]
pub(crate) struct RepartitionArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Number of partitions from now on [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: Option<u32>,
    /// Storage engine from now on; `biombo engines` lists those of this build [default: the one that it has]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// How keys find their partition from now on: hash (even load) or range (scans touch few partitions) [default: as they do]
    #[arg(long, value_name = "KIND", value_parser = one_of::<PlacementKind>(PLACEMENTS), hide_possible_values = true)]
    placement: Option<PlacementKind>,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Repartitioned {
    engine: String,
    partitions: u32,
    placement: &'static str,
    units: usize,
    keys: u64,
    bytes: u64,
}

/// Run `repartition`.
pub(crate) fn repartition(args: &RepartitionArgs) -> Done {
    let registry = biombo::registry();
    let mut options = Options::new().create(false).reshape(true);
    if let Some(partitions) = args.partitions {
        options = options.partitions(partitions);
    }
    if let Some(engine) = &args.engine {
        registry.get(engine).map_err(|e| Failure::usage(e.to_string()))?;
        options = options.engine(engine);
    }
    if let Some(placement) = args.placement {
        options = options.placement(placement);
    }
    let mut store = warned(options.open(&args.dir.dir, &registry)?);
    let copied = store.copied();
    // What an attempt that was cut short left over.
    store.clean_leftovers(Pace::default())?;
    let moved = store.spread(Pace::default())?;
    if !store.leaving().is_empty() {
        // What kept it from being cleaned is told here.
        let is_clean = moved.cleaned || store.clean_leftovers(Pace::default())?;
        store.close()?;
        // Opening it takes away what owns nothing any more.
        store = warned(Options::new().create(false).open(&args.dir.dir, &registry)?);
        let still = store.leaving().len();
        if still > 0 {
            store.close()?;
            return Err(Failure::failed(still_there(still, is_clean)));
        }
    }
    let (partitions, engine, placement) =
        (store.partitions(), store.engine().to_owned(), store.placement_kind().name());
    let (units, keys, bytes) = (moved.units, moved.keys + copied.keys, moved.bytes + copied.bytes);
    store.close()?;
    let mut out = Out::new();
    if args.json.json {
        out.json(&Repartitioned { engine, partitions, placement, units, keys, bytes })?;
    } else {
        let many = if partitions == 1 { "" } else { "s" };
        out.line(format_args!(
            "{} keys ({}) moved, {partitions} partition{many} of {engine}",
            show_count(keys),
            show_bytes(bytes)
        ))?;
    }
    out.finish()
}

/// Partitions were to leave, own nothing any more, and are there all the same.
fn still_there(count: usize, is_clean: bool) -> String {
    let partitions = if count == 1 { "1 partition".to_owned() } else { format!("{count} partitions") };
    let why = match (is_clean, count) {
        (true, _) => "could not be taken away, as the warning says: mend that",
        (false, 1) => "still holds leftovers: free room",
        (false, _) => "still hold leftovers: free room",
    };
    format!("all keys have moved, but {partitions} {why}, then run it again")
}

#[cfg(test)]
mod tests {
    use super::still_there;

    #[test]
    fn who_is_left_is_told_what_to_do() {
        let said = [still_there(1, false), still_there(3, false), still_there(3, true)];
        assert!(said[0].contains("1 partition still holds leftovers: free room"), "{}", said[0]);
        assert!(said[1].contains("3 partitions still hold leftovers: free room"), "{}", said[1]);
        assert!(said[2].contains("3 partitions could not be taken away"), "{}", said[2]);
        assert!(said.iter().all(|said| said.ends_with("run it again")));
    }
}
