//! The table of what was measured of graphs, from its records alone: those of a bench that has just ended, or of lines that were kept.

use std::collections::BTreeSet;

use biombo_lab::graph::{BATCH, Media, Placing, Record, Setting, Step};
use biombo_lab::statistics::Spread;

use super::graph::once;
use crate::failure::Done;
use crate::out::Out;
use crate::size::show_count;

/// What trials of a kernel have in common: layout, medium, placement or `auto`, nodes, where threads run, and the other settings.
type Turn<'a> = (&'a str, &'a str, &'a str, u32, &'a str, Setting<'a>);

fn turn_of(record: &Record) -> Turn<'_> {
    let Record { layout, media, placement, nodes, bind, why, .. } = record;
    let placing = if why.is_some() { Placing::Auto.name() } else { placement.as_str() };
    (layout.as_str(), media.as_str(), placing, *nodes, bind.as_str(), Setting::of(record))
}

/// The turns of all kernels, layouts in the order in which they were loaded.
fn turns_of<'a>(records: &[&'a Record]) -> Vec<Turn<'a>> {
    let of = |step: Step| records.iter().copied().filter(move |record| record.step == step);
    let loaded = once(of(Step::Load).map(|record| record.layout.as_str()));
    let mut turns = once(of(Step::Kernel).map(turn_of));
    turns.sort_by_key(|turn| loaded.iter().position(|layout| *layout == turn.0));
    turns
}

/// One graph after the other.
pub(super) fn print(records: &[Record], out: &mut Out) -> Done {
    for (at, graph) in once(records.iter().map(|record| record.graph.as_str())).into_iter().enumerate() {
        if at > 0 {
            out.line("")?;
        }
        print_one(&records.iter().filter(|record| record.graph == graph).collect::<Vec<_>>(), out)?;
    }
    Ok(())
}

/// Steps, then kernels by layouts and placements: medians, least and most, and how many times as long as the first one.
fn print_one(records: &[&Record], out: &mut Out) -> Done {
    let Some(first) = records.first() else { return Ok(()) };
    let (vertices, edges) = (show_count(first.vertices), show_count(first.edges));
    out.line(format_args!("{}: {vertices} vertices, {edges} stored edges", first.graph))?;
    let steps = || records.iter().filter(|record| !matches!(record.step, Step::Kernel | Step::Placement));
    let media_width = steps().map(|record| record.media_text().len()).max().unwrap_or(0).max("media".len());
    out.line(format_args!(
        "{:8} {:9} {:media_width$} {:>7} {:>10} {:>14} {:>11}",
        "step", "layout", "media", "threads", "seconds", "M edges/s", "bytes/edge"
    ))?;
    for record in steps() {
        let step = format!("{:?}", record.step).to_lowercase();
        let rate = record.edges_per_s.unwrap_or(0.0) / 1e6;
        let bytes = match (record.bytes_per_edge, record.bytes_per_in_edge) {
            (Some(bytes), Some(inward)) => format!("{bytes:.2} + {inward:.2}"),
            (Some(bytes), None) => format!("{bytes:.2}"),
            (None, _) => "-".to_owned(),
        };
        let (media, Record { layout, threads, seconds, .. }) = (record.media_text(), record);
        out.line(format_args!(
            "{step:8} {layout:9} {media:media_width$} {threads:>7} {seconds:>10.3} {rate:>14.2} {bytes:>11}"
        ))?;
    }
    for record in steps() {
        after_ingest(record, out)?;
    }
    let turns = turns_of(records);
    print_kernels(records, &turns, out)?;
    for (layout, setting) in once(turns.iter().map(|turn| (turn.0, turn.5))) {
        let its = records.iter().filter(|record| record.layout == layout && Setting::of(record) == setting);
        if let Some(Spread { min, max, .. }) = Spread::of(its.filter_map(|record| record.stream_per_s)) {
            let (least, most) = (show_count(min as u64), show_count(max as u64));
            let apart = apart(layout, setting, &turns);
            out.line(format_args!("{layout}{apart} took {least} to {most} updates a second in while kernels ran"))?;
        }
    }
    print_kept(records, &turns, out)?;
    print_placements(records, out)
}

/// What followed an ingest, and how long its batches took.
fn after_ingest(record: &Record, out: &mut Out) -> Done {
    let Some(snapshot) = record.snapshot_seconds else { return Ok(()) };
    let Record { layout, media, threads, .. } = record;
    let checkpoint = record
        .checkpoint_seconds
        .map_or_else(String::new, |seconds| format!(", a checkpoint {seconds:.3} s (none was due in the figure)"));
    let batches = match (record.batch_ns_p50, record.batch_ns_p99, record.batch_ns_max) {
        (Some(p50), Some(p99), Some(max)) => {
            let [p50, p99, max] = [p50, p99, max].map(|ns| ns as f64 / 1e6);
            format!(", which took {p50:.1} ms in the median, {p99:.1} ms at the 99th percentile, {max:.1} ms at most")
        }
        _ => String::new(),
    };
    out.line(format_args!(
        "after ingest into {layout} on {media}, {threads} thread{}, batches of {}{batches}: a snapshot took {snapshot:.3} s{checkpoint}",
        if *threads == 1 { "" } else { "s" },
        show_count(record.batch.unwrap_or(BATCH) as u64)
    ))
}

fn print_kernels(records: &[&Record], turns: &[Turn<'_>], out: &mut Out) -> Done {
    // With one placement on one node there is nothing to tell apart.
    let placings = once(turns.iter().map(|turn| turn.2)).len();
    let has_placements = placings > 1 || records.iter().any(|record| record.nodes > 1);
    let (width, title) = if has_placements { (18, "placement") } else { (0, "") };
    let layout_width = turns.iter().map(|turn| lists(turn, turns).len()).max().unwrap_or(0).max(9);
    out.line(format_args!(
        "\n{:9} {:>7} {:layout_width$} {title:width$} {:>10} {:>10} {:>10} {:>7}",
        "kernel", "threads", "layout", "median s", "least", "most", "x first"
    ))?;
    let kernels = || records.iter().copied().filter(|record| record.step == Step::Kernel);
    for kernel in once(kernels().filter_map(|record| record.kernel.as_deref())) {
        for threads in once(kernels().map(|record| record.threads)) {
            let of = |record: &&Record| record.kernel.as_deref() == Some(kernel) && record.threads == threads;
            let mut base = None;
            for turn in turns {
                let trials: Vec<&Record> = kernels().filter(of).filter(|record| turn_of(record) == *turn).collect();
                let seconds = Spread::of(trials.iter().map(|record| record.seconds));
                let Some((first, Spread { median, min, max, .. })) = trials.first().zip(seconds) else { continue };
                let ratio = median / *base.get_or_insert(median);
                let placed = if has_placements { placed(turn, &first.placement, turns) } else { String::new() };
                let layout = lists(turn, turns);
                out.line(format_args!(
                    "{kernel:9} {threads:>7} {layout:layout_width$} {placed:width$} {median:>10.5} {min:>10.5} {max:>10.5} {ratio:>7.3}"
                ))?;
            }
        }
    }
    Ok(())
}

/// A layout, where its lists are, unless that is memory, and the settings in which other turns of the layout differ.
fn lists((layout, media, .., setting): &Turn<'_>, all: &[Turn<'_>]) -> String {
    let place = if *media == Media::Dram.name() { String::new() } else { format!(" on {media}") };
    format!("{layout}{place}{}", apart(layout, *setting, all))
}

/// What of a setting other turns of the layout differ in.
fn apart(layout: &str, setting: Setting<'_>, all: &[Turn<'_>]) -> String {
    setting.apart_from(all.iter().filter(|turn| turn.0 == layout).map(|turn| turn.5))
}

/// How vertices are dealt, and what came of it where that was chosen; with the nodes where others of the same name have other ones.
fn placed(turn: &Turn<'_>, placement: &str, all: &[Turn<'_>]) -> String {
    let (layout, media, placing, nodes, bind, _) = *turn;
    let name = if placing == placement { placement.to_owned() } else { format!("{placing}: {placement}") };
    let mut alike = all.iter().filter(|other| (other.0, other.1, other.2) == (layout, media, placing));
    let has_others = alike.any(|other| (other.3, other.4) != (nodes, bind));
    if has_others { format!("{name}, {nodes} {bind}") } else { name }
}

/// What it took to keep placements while updates came in.
fn print_kept(records: &[&Record], turns: &[Turn<'_>], out: &mut Out) -> Done {
    for (layout, placing, setting) in once(turns.iter().map(|turn| (turn.0, turn.2, turn.5))) {
        let is_its = |record: &&&Record| {
            let turn = turn_of(record);
            (turn.0, turn.2, turn.5) == (layout, placing, setting) && record.units_moved.is_some()
        };
        let its: Vec<&&Record> = records.iter().filter(is_its).collect();
        if its.is_empty() {
            continue;
        }
        let sum = |of: fn(&Record) -> Option<usize>| {
            its.iter().filter_map(|record| of(record)).fold(0, usize::saturating_add)
        };
        let (units, stretches) = (sum(|record| record.units_moved), sum(|record| record.stretches_placed));
        let apart = apart(layout, setting, turns);
        out.line(format_args!(
            "{layout}{apart}, {placing}: in {} turns {} units of vertices went to another node, and {} stretches of memory to theirs",
            show_count(its.len() as u64),
            show_count(units as u64),
            show_count(stretches as u64)
        ))?;
    }
    Ok(())
}

/// Edges of each node, why placements were chosen, and what was not done.
fn print_placements(records: &[&Record], out: &mut Out) -> Done {
    // Threads change nothing about them.
    let dealt = records.iter().filter_map(|record| Some((record.placement.as_str(), record.edges_per_node.as_ref()?)));
    let mut title = "\nedges of each node";
    for (placement, edges) in once(dealt) {
        let all: f64 = edges.iter().map(|edges| *edges as f64).sum();
        let percent = |of: &u64| format!("{:.2} %", 100.0 * *of as f64 / all.max(1.0));
        let shares: Vec<String> = edges.iter().map(percent).collect();
        if !title.is_empty() {
            out.line(std::mem::take(&mut title))?;
        }
        out.line(format_args!("{placement:12} {}", shares.join("  ")))?;
    }
    let mut told = BTreeSet::new();
    for record in records {
        let (Some(kernel), Some(why)) = (&record.kernel, &record.why) else { continue };
        if told.insert(kernel) {
            out.line(format_args!("auto, {kernel}: {}, for {why}", record.placement))?;
        }
    }
    match records.last().and_then(|record| record.not_done.as_ref()) {
        Some(what) => out.line(format_args!("not done: {what}")),
        None => Ok(()),
    }
}
