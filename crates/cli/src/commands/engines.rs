//! `biombo engines`: what this build has.

use biombo::Durability;
use clap::Args;
use serde::Serialize;

use crate::args::JsonArg;
use crate::failure::Done;
use crate::out::Out;
use crate::size::show_bytes;

/// List the engines of this build: order, limits, what survives, version of the library
#[derive(Debug, Args)]
#[command(after_help = "\
kill, power cut: the weakest durability whose acknowledged writes survive the death of the process, or leave the store undamaged
after a power cut when every write uses it.

Examples:
  biombo engines
  biombo engines --json     one object a line")]
pub(crate) struct EnginesArgs {
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct EngineLine {
    name: &'static str,
    /// Whether new stores have it that name none.
    default: bool,
    summary: &'static str,
    version: String,
    ordered: bool,
    snapshots: bool,
    atomic_batches: bool,
    checkpoints: bool,
    persistent: bool,
    survives_kill: Option<&'static str>,
    survives_power_cut: Option<&'static str>,
    key_bytes_max: usize,
    value_bytes_max: usize,
}

/// Run it.
pub(crate) fn engines(args: &EnginesArgs) -> Done {
    let registry = biombo::registry();
    let default = registry.default_kind().map(|kind| kind.name);
    let engines: Vec<EngineLine> = registry
        .iter()
        .map(|kind| {
            let can = (kind.capabilities)();
            EngineLine {
                name: kind.name,
                default: default == Some(kind.name),
                summary: kind.summary,
                version: (kind.version)(),
                ordered: can.ordered,
                snapshots: can.snapshots,
                atomic_batches: can.atomic_batches,
                checkpoints: can.checkpoints,
                persistent: can.persistent,
                survives_kill: can.survives_kill.map(Durability::name),
                survives_power_cut: can.survives_power_cut.map(Durability::name),
                key_bytes_max: can.key_bytes_max,
                value_bytes_max: can.value_bytes_max,
            }
        })
        .collect();
    let mut out = Out::new();
    if args.json.json {
        engines.iter().try_for_each(|engine| out.json(engine))?;
        return out.finish();
    }
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let level = |level: Option<&str>| level.unwrap_or("none").to_owned();
    let mut rows = vec![
        ["engine", "ordered", "snapshots", "kill", "power cut", "key max", "value max", "library"].map(str::to_owned),
    ];
    rows.extend(engines.iter().map(|engine| {
        [
            engine.name.to_owned(),
            yes(engine.ordered),
            yes(engine.snapshots),
            level(engine.survives_kill),
            level(engine.survives_power_cut),
            show_bytes(engine.key_bytes_max as u64),
            show_bytes(engine.value_bytes_max as u64),
            engine.version.clone(),
        ]
    }));
    let widths: Vec<usize> =
        (0..8).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out.line(cells.join("  ").trim_end())?;
    }
    out.line("")?;
    let width = widths[0];
    engines.iter().try_for_each(|engine| out.line(format_args!("{:<width$}  {}", engine.name, engine.summary)))?;
    if let Some(default) = default {
        out.line(format_args!("\nNew stores that name no engine have {default}."))?;
    }
    out.finish()
}
