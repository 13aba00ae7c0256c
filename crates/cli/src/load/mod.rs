//! `biombo load`: many records into a store, fast, with every acknowledgement true.

mod input;
mod pipeline;

use std::path::PathBuf;
use std::time::Instant;

use biombo::{Durability, Op, PlacementKind, Store};
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::format::InputFormat;
use crate::out::Out;
use crate::progress::Progress;
use crate::size::{show_bytes, show_count};
use crate::store_args::{self, DurabilityArg, StoreArgs};

use input::{Input, Next};
use pipeline::{CHUNK_LINES_MAX, Feeder, Loaded};

/// Records from which a new store's key ranges are cut.
const SAMPLE_LINES_MAX: usize = 10_000;
/// And at most so many bytes of them are held.
const SAMPLE_BYTES_MAX: usize = 64 << 20;

/// Load records, one a line, into a store; it is created when it is missing
#[derive(Debug, Args)]
#[command(after_help = "\
A line that is no record ends the load with FILE:LINE and the reason: every line before it is loaded, nothing after it.
A key that is there already gets the new value; of two lines with one key the later wins.

Formats:
  tsv    key, tab, value. \\t \\n \\\\ \\xHH stand for a tab, a newline, a backslash and any byte.
  jsonl  {\"key\":\"..\",\"value\":\"..\"}; key_hex and value_hex (\"00ff\") hold bytes that are no text.
  lines  the whole line is the key, its number the value.

Examples:
  biombo load fruit records.tsv                                   one partition of the engine log, used directly
  biombo load fruit records.tsv --engine rocksdb --partitions 8   eight partitions of rocksdb
  biombo load logs big.tsv --partitions 8 --placement range       ranges cut from the first 10,000 keys
  biombo scan old | biombo load new - --partitions 8              copy a store
  biombo load fruit - --acks --durability sync < records.tsv      `acked N` when N lines are on the device")]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The file of records; `-` or none: standard input
    file: Option<PathBuf>,
    /// How a line holds a record [default: tsv]
    #[arg(long, value_enum)]
    format: Option<InputFormat>,
    #[command(flatten)]
    durability: DurabilityArg,
    /// Print `acked N` when the first N lines are acknowledged: at least every 1,000 lines and at the end
    #[arg(long)]
    acks: bool,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Serialize)]
struct Summary<'a> {
    dir: String,
    lines: u64,
    bytes: u64,
    seconds: f64,
    lines_per_s: f64,
    engine: &'a str,
    partitioning: &'static str,
    partitions: u32,
    placement: &'static str,
    durability: &'static str,
    /// Whether the engine keeps anything when the command ends.
    #[serde(skip)]
    is_kept: bool,
}

/// Run it.
pub(crate) fn load(mut args: LoadArgs) -> Done {
    let config = args.store.merge_config()?;
    args.store.check()?;
    let format = args.format.or(config.format).unwrap_or_default();
    let durability = args.durability.durability.or(config.durability).unwrap_or_default();
    // The input first: a mistyped file must not leave an empty store behind.
    let mut input = Input::open(args.file.as_deref(), format)?;
    let mut ahead = Ahead::default();
    let store = match args.store.open_existing(&args.dir.dir)? {
        Some(store) => store,
        None => {
            if args.store.placement == Some(PlacementKind::Range) {
                // Who waits for acknowledgements sends no more before one comes.
                let may_wait = !args.acks || input.total_bytes().is_some();
                ahead = Ahead::read(&mut input, may_wait);
            }
            args.store.create(&args.dir.dir, ahead.keys())?
        }
    };
    let begin = Instant::now();
    let mut acks = Acks::new(args.acks, args.json.json);
    let (fed, mut loaded) = {
        let mut progress = Progress::of_bytes("loading", input.total_bytes());
        let feed = |feeder: &mut Feeder<'_>| feed(&store, &mut input, ahead, feeder, &mut progress);
        pipeline::run(&store, durability, feed, |lines| acks.say(lines))?
    };
    // What was written at `relaxed` has reached its log before anything is said of it.
    if durability == Durability::Relaxed
        && loaded.failed.is_none()
        && let Err(error) = store.flush()
    {
        // What waited for it is not there, whatever has been said to be written.
        let what = format!("{error}; of {} written at relaxed the last ones may be lost", lines(loaded.acked));
        return Err(Failure::failed(format!("{}: {what}", input.name())));
    }
    let name = input.name().to_owned();
    let seconds = begin.elapsed().as_secs_f64();
    let said = loaded.unsaid.take().map_or_else(|| acks.end(loaded.acked), Err);
    // What became of the lines is told first, whoever reads of it.
    let lines = finish(&name, fed, loaded)?;
    said?;
    let summary = Summary {
        dir: args.dir.dir.display().to_string(),
        lines,
        bytes: input.consumed_bytes(),
        seconds,
        lines_per_s: if seconds > 0.0 { lines as f64 / seconds } else { 0.0 },
        engine: store.engine(),
        partitioning: store.partitioning().name(),
        partitions: store.partitions(),
        placement: store.placement_kind().name(),
        durability: durability.name(),
        is_kept: store.capabilities().persistent,
    };
    say_summary(&summary, &args)?;
    store_args::close(store, durability)
}

fn say_summary(summary: &Summary<'_>, args: &LoadArgs) -> Done {
    let mut out = Out::new();
    if args.json.json {
        out.json(summary)?;
    } else if !args.acks {
        out.line(format_args!(
            "loaded {} ({}) into {} in {:.2} s, {} lines/s: {}, {} ({}), {}",
            lines(summary.lines),
            show_bytes(summary.bytes),
            summary.dir,
            summary.seconds,
            show_count(summary.lines_per_s as u64),
            summary.engine,
            match summary.partitions {
                1 => "1 partition".to_owned(),
                count => format!("{count} partitions"),
            },
            summary.partitioning,
            match summary.is_kept {
                true => format!("durability {}", summary.durability),
                false => "in memory alone: all of it is gone now".to_owned(),
            },
        ))?;
    }
    out.finish()
}

/// The number of lines loaded, or what went wrong and how far it came.
fn finish(name: &str, fed: Result<u64, String>, loaded: Loaded) -> Done<u64> {
    if let Some(error) = loaded.failed {
        return Err(Failure::failed(format!(
            "{name}: {error}; loaded up to here: {}, and perhaps some of the following ones",
            lines(loaded.acked)
        )));
    }
    match fed {
        Ok(lines) => Ok(lines),
        Err(reason) => Err(Failure::failed(format!(
            "{reason}; {} before it {} loaded, nothing after it",
            lines(loaded.acked),
            if loaded.acked == 1 { "is" } else { "are" },
        ))),
    }
}

fn lines(count: u64) -> String {
    format!("{} line{}", show_count(count), if count == 1 { "" } else { "s" })
}

/// Records that were read before the store was there, to cut key ranges from them.
#[derive(Default)]
struct Ahead {
    records: Vec<(Vec<u8>, Vec<u8>)>,
    /// The fault that ended them.
    fault: Option<String>,
}

impl Ahead {
    /// With `may_wait`, also for what comes later; else what is there at once, one record at least.
    fn read(input: &mut Input, may_wait: bool) -> Self {
        let mut ahead = Self::default();
        let mut bytes = 0;
        while ahead.records.len() < SAMPLE_LINES_MAX && bytes < SAMPLE_BYTES_MAX {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            match input.next(may_wait || ahead.records.is_empty(), &mut key, &mut value) {
                Ok(Next::Record) => {
                    bytes += key.len() + value.len();
                    ahead.records.push((key, value));
                }
                Ok(Next::End | Next::Pause) => break,
                Err(fault) => {
                    ahead.fault = Some(fault);
                    break;
                }
            }
        }
        ahead
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        self.records.iter().map(|(key, _)| key.clone()).collect()
    }
}

/// Push everything; returns the number of lines, or the fault that ended them.
fn feed(
    store: &Store,
    input: &mut Input,
    ahead: Ahead,
    feeder: &mut Feeder<'_>,
    progress: &mut Progress,
) -> Result<u64, String> {
    let check =
        |key: &[u8], value: &[u8]| store.capabilities().check(&Op::Put { key, value }).map_err(|e| e.to_string());
    let mut lines = 0;
    for (key, value) in &ahead.records {
        check(key, value).map_err(|reason| format!("{}:{}: {reason}", input.name(), lines + 1))?;
        lines += 1;
        if !feeder.push(key, value) {
            return Ok(lines);
        }
    }
    if let Some(fault) = ahead.fault {
        return Err(fault);
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    // A file does not keep a reader waiting, a pipe may.
    let is_file = input.total_bytes().is_some();
    // What was read ahead waits to be handed on.
    let mut may_wait = ahead.records.is_empty();
    loop {
        match input.next(may_wait || is_file, &mut key, &mut value)? {
            Next::Record => {
                may_wait = false;
                if input.number().is_multiple_of(CHUNK_LINES_MAX as u64) {
                    progress.at(input.consumed_bytes());
                }
                check(&key, &value).map_err(|reason| input.fault(reason))?;
                if !feeder.push(&key, &value) {
                    return Ok(input.number());
                }
            }
            // The next read may wait for a slow writer: hand on what there is, so that it is acknowledged meanwhile.
            Next::Pause => {
                may_wait = true;
                progress.at(input.consumed_bytes());
                if !feeder.flush() {
                    return Ok(input.number());
                }
            }
            Next::End => return Ok(input.number()),
        }
    }
}

/// Says how many lines are acknowledged, where that is wanted.
struct Acks {
    wanted: bool,
    json: bool,
    said: Option<u64>,
}

#[derive(Serialize)]
struct Acked {
    acked: u64,
}

impl Acks {
    fn new(wanted: bool, json: bool) -> Self {
        Self { wanted, json, said: None }
    }

    fn say(&mut self, lines: u64) -> Done {
        if !self.wanted {
            return Ok(());
        }
        self.said = Some(lines);
        let mut out = Out::new();
        if self.json {
            out.json(&Acked { acked: lines })?
        } else {
            out.line(format_args!("acked {lines}"))?
        }
        out.finish()
    }

    /// At the end the last number stands there, even when it is 0.
    fn end(&mut self, lines: u64) -> Done {
        if self.said == Some(lines) { Ok(()) } else { self.say(lines) }
    }
}
