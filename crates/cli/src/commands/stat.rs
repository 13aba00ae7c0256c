//! `biombo stat`: a store's figures.

use biombo::{Range, StoreStats};
use biombo_lab::record::CompactionFigures;
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::Done;
use crate::out::Out;
use crate::size::{show_bytes, show_count};
use crate::store_args;

/// Print a store's figures: engine, partitions, placement, keys, bytes, write amplification, caches, segments, index, recovery
#[derive(Debug, Args)]
#[command(after_help = "\
Counters (writes, cache hits, compactions, cleaning) begin when a process opens the store: here they show what opening it cost.
The figures of a running load stand in `biombo bench`. `unknown`: the engine does not say.

Of the engine log: segments with what is live in them and what is dead (cleaning keeps the sum within --space-amplification
times what is live, some segments aside), the memory of the index, and what opening used and how long it took.

Examples:
  biombo stat fruit
  biombo stat fruit --exact       reads everything: exact keys and logical bytes
  biombo stat fruit --partitions  a line for each partition
  biombo stat fruit --options     every option that the engine was opened with
  biombo stat fruit --json        all of it")]
pub(crate) struct StatArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Read everything to count keys and their bytes exactly
    #[arg(long)]
    exact: bool,
    /// Add a line for each partition
    #[arg(long)]
    partitions: bool,
    /// Add every option that the engine was opened with
    #[arg(long)]
    options: bool,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Figures {
    dir: String,
    engine: String,
    engine_version: String,
    partitioning: &'static str,
    partitions: u32,
    /// Of those, the ones that leave.
    partitions_leaving: usize,
    placement: &'static str,
    placement_epoch: u64,
    /// Keys that are pinned elsewhere than their slot.
    pins: u64,
    keys: Option<u64>,
    keys_estimated: bool,
    logical_bytes: Option<u64>,
    physical_bytes: Option<u64>,
    space_amplification: Option<f64>,
    logical_write_bytes: u64,
    engine_write_bytes: Option<u64>,
    /// Of the store's own journals.
    journal_write_bytes: u64,
    waf: Option<f64>,
    /// Segments of the log engine; other engines have none.
    segments: Option<u64>,
    segment_data_bytes: Option<u64>,
    segment_live_bytes: Option<u64>,
    segment_dead_bytes: Option<u64>,
    /// Bytes written by those of live records: what cleaning keeps within the bound.
    segment_amplification: Option<f64>,
    index: Option<IndexLine>,
    cache_bytes: Option<u64>,
    cache_hits: Option<u64>,
    cache_misses: Option<u64>,
    compaction: Option<CompactionFigures>,
    intent_bytes: u64,
    instances: Vec<InstanceFigures>,
    options: Vec<(String, String)>,
}

/// An index in memory, and how it came there.
#[derive(Serialize)]
struct IndexLine {
    memory_bytes: u64,
    bytes_per_key: Option<f64>,
    checkpoints: u64,
    checkpoint_bytes: u64,
    opened_seconds: f64,
    opened_from_checkpoint: Option<u64>,
    opened_from_log: u64,
    is_loaded: bool,
}

#[derive(Serialize)]
struct InstanceFigures {
    units: usize,
    keys: Option<u64>,
    logical_bytes: Option<u64>,
    physical_bytes: Option<u64>,
}

/// Run it.
pub(crate) fn stat(args: &StatArgs) -> Done {
    let store = store_args::open(&args.dir.dir)?;
    let stats = store.stats()?;
    let mut figures = Figures::new(&stats, args);
    if args.exact {
        let mut scan = store.scan(Range::all())?;
        let (mut keys, mut bytes) = (0, 0);
        while let Some((key, value)) = scan.next()? {
            keys += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        (figures.keys, figures.keys_estimated, figures.logical_bytes) = (Some(keys), false, Some(bytes));
    }
    figures.space_amplification = match (figures.logical_bytes, figures.physical_bytes) {
        (Some(logical), Some(physical)) if logical > 0 => Some(physical as f64 / logical as f64),
        _ => None,
    };
    let mut out = Out::new();
    if args.json.json {
        out.json(&figures)?
    } else {
        figures.say(&mut out, args)?
    }
    out.finish()
}

impl Figures {
    fn new(stats: &StoreStats, args: &StatArgs) -> Self {
        let hits_misses =
            stats.instances.iter().filter_map(|i| i.cache_hits_misses).reduce(|a, b| (a.0 + b.0, a.1 + b.1));
        let segments = stats.segments();
        let version = biombo::registry().get(&stats.engine).map(|kind| (kind.version)()).unwrap_or_default();
        let units = |index: usize| stats.units_by_partition.get(index).copied().unwrap_or(0);
        Self {
            dir: args.dir.dir.display().to_string(),
            engine: stats.engine.clone(),
            engine_version: version,
            partitioning: stats.partitioning.name(),
            partitions: stats.partitions,
            partitions_leaving: stats.leaving.len(),
            placement: stats.placement.name(),
            placement_epoch: stats.epoch.0,
            pins: stats.pins,
            keys: stats.keys,
            keys_estimated: stats.keys_estimated,
            logical_bytes: stats.logical_bytes,
            physical_bytes: stats.physical_bytes,
            space_amplification: None,
            logical_write_bytes: stats.logical_write_bytes,
            engine_write_bytes: stats.engine_write_bytes,
            journal_write_bytes: stats.journal_write_bytes,
            waf: stats.waf(),
            segments: segments.map(|s| s.count),
            segment_data_bytes: segments.map(|s| s.data_bytes),
            segment_live_bytes: segments.map(|s| s.live_bytes),
            segment_dead_bytes: segments.map(|s| s.data_bytes.saturating_sub(s.live_bytes)),
            segment_amplification: segments.and_then(|s| s.amplification()),
            index: stats.index().map(|index| IndexLine {
                memory_bytes: index.memory_bytes,
                bytes_per_key: stats
                    .keys
                    .filter(|keys| *keys > 0 && index.is_loaded)
                    .map(|keys| index.memory_bytes as f64 / keys as f64),
                checkpoints: index.checkpoints,
                checkpoint_bytes: index.checkpoint_bytes,
                opened_seconds: index.opened_seconds,
                opened_from_checkpoint: index.opened_from_checkpoint,
                opened_from_log: index.opened_from_log,
                is_loaded: index.is_loaded,
            }),
            cache_bytes: stats.instances.iter().map(|i| i.cache_bytes).sum(),
            cache_hits: hits_misses.map(|(hits, _)| hits),
            cache_misses: hits_misses.map(|(_, misses)| misses),
            compaction: stats
                .compaction()
                .map(|told| CompactionFigures::from(Some(told)).with(stats.compaction_tail())),
            intent_bytes: stats.intent_bytes,
            instances: stats
                .instances
                .iter()
                .enumerate()
                .map(|(index, instance)| InstanceFigures {
                    units: if stats.instances.len() == 1 {
                        stats.units_by_partition.iter().sum()
                    } else {
                        units(index)
                    },
                    keys: instance.keys,
                    logical_bytes: instance.logical_bytes,
                    physical_bytes: instance.physical_bytes,
                })
                .collect(),
            options: stats.instances.first().map(|instance| instance.options.clone()).unwrap_or_default(),
        }
    }

    fn say(&self, out: &mut Out, args: &StatArgs) -> Done {
        let bytes =
            |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |b| format!("{} ({b})", show_bytes(b)));
        let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "unknown".to_owned(), |ratio| format!("{ratio:.2}"));
        let mut line = |name: &str, value: String| out.line(format_args!("{name:<20} {value}"));
        line("engine", format!("{} ({})", self.engine, self.engine_version))?;
        let leaving = match self.partitions_leaving {
            0 => String::new(),
            leaving => format!(", {leaving} of them leave: `biombo repartition` goes on"),
        };
        line("partitions", format!("{} ({}){leaving}", self.partitions, self.partitioning))?;
        let pins = match self.pins {
            0 => String::new(),
            pins => format!(", {} keys pinned", show_count(pins)),
        };
        line("placement", format!("{}, version {}{pins}", self.placement, self.placement_epoch))?;
        line(
            "keys",
            match self.keys {
                Some(keys) if self.keys_estimated => format!("about {} (the engine's estimate)", show_count(keys)),
                Some(keys) => show_count(keys),
                None => "unknown; `biombo count` reads everything".to_owned(),
            },
        )?;
        line("logical bytes", bytes(self.logical_bytes))?;
        line("physical bytes", bytes(self.physical_bytes))?;
        line("space amplification", ratio(self.space_amplification))?;
        line(
            "WAF",
            match self.waf {
                Some(waf) => format!("{waf:.2}"),
                None => "none: nothing was written since the store was opened".to_owned(),
            },
        )?;
        match (self.segments, self.segment_data_bytes, self.segment_live_bytes, self.segment_dead_bytes) {
            (Some(count), Some(data), Some(live), Some(dead)) => line(
                "segments",
                format!(
                    "{}: {}, of which {} live and {} dead or filling{}",
                    show_count(count),
                    show_bytes(data),
                    show_bytes(live),
                    show_bytes(dead),
                    self.segment_amplification
                        .map_or(String::new(), |ratio| format!(", {ratio:.2} times what is live"))
                ),
            )?,
            _ => line("segments", format!("none: {} keeps none", self.engine))?,
        }
        if let Some(index) = &self.index {
            line(
                "index",
                format!(
                    "{} in memory{}{}",
                    show_bytes(index.memory_bytes),
                    index.bytes_per_key.map_or(String::new(), |bytes| format!(", {bytes:.1} B a key")),
                    if index.is_loaded { "" } else { ", the rest is searched in the checkpoint and loads" }
                ),
            )?;
            line(
                "opened",
                format!(
                    "in {:.1} ms: {}, and {} records of the log",
                    index.opened_seconds * 1e3,
                    match index.opened_from_checkpoint {
                        Some(keys) => format!("a checkpoint of {} keys", show_count(keys)),
                        None => "without a checkpoint".to_owned(),
                    },
                    show_count(index.opened_from_log)
                ),
            )?;
            let size = match index.checkpoint_bytes {
                0 => "none on disk".to_owned(),
                bytes => format!("{} on disk", show_bytes(bytes)),
            };
            line("checkpoints", format!("{size}, {} written since", show_count(index.checkpoints)))?;
        }
        let hits = match (self.cache_hits, self.cache_misses) {
            (Some(hits), Some(misses)) => format!(", {} hits, {} misses", show_count(hits), show_count(misses)),
            _ => String::new(),
        };
        line(
            "caches",
            format!(
                "{}{hits}",
                self.cache_bytes.map_or_else(|| "use unknown".to_owned(), |b| format!("{} in use", show_bytes(b)))
            ),
        )?;
        if let Some(compaction) = &self.compaction {
            line(
                if self.segments.is_some() { "cleaning" } else { "compactions" },
                format!(
                    "{} since, {:.2} s, {} written",
                    show_count(compaction.count.unwrap_or(0)),
                    compaction.seconds.unwrap_or(0.0),
                    show_bytes(compaction.bytes.unwrap_or(0))
                ),
            )?;
        }
        if self.intent_bytes > 0 {
            line("intents", format!("{} of batches not yet retired", show_bytes(self.intent_bytes)))?;
        }
        if args.partitions {
            for (index, instance) in self.instances.iter().enumerate() {
                let keys = instance.keys.map_or_else(|| "unknown".to_owned(), show_count);
                let size = bytes(instance.physical_bytes);
                line(
                    &format!("  instance {index}"),
                    format!("units {}, keys {keys}, physical bytes {size}", instance.units),
                )?;
            }
        }
        if args.options {
            self.options.iter().try_for_each(|(name, value)| line(&format!("  {name}"), value.clone()))?;
        }
        Ok(())
    }
}
