//! What the figures of graphs say, in a line each: what a layout that changes costs beside the static one, ingest, and memory.
//!
//! Kernels are summed up by the geometric mean of their ratios, so that none counts more because it takes longer; the least and the greatest are named.

use super::context::distinct;
use super::findings::Finding;
use super::graphs::Turns;
use crate::graph::{Layout, Record, Setting, Step};
use crate::units::count;

/// At most so many, so that the head of a report stays one look.
const FINDINGS_MAX: usize = 12;

/// The graphs one after the other; of each what kernels take first.
pub(super) fn findings(records: &[Record]) -> Vec<Finding> {
    let graphs = distinct(records.iter().map(|record| record.graph.as_str()));
    let of_each = |what: fn(&str, &[&Record]) -> Vec<Finding>| {
        let of = |graph: &&str| records.iter().filter(|r| r.graph == *graph).collect::<Vec<_>>();
        graphs.iter().flat_map(|graph| what(graph, &of(graph))).collect::<Vec<_>>()
    };
    let all = [of_each(kernels), of_each(ingest), of_each(memory)].concat();
    all.into_iter().take(FINDINGS_MAX).collect()
}

/// Turns with the most threads that there were.
fn with_most_threads<'a>(turns: Vec<Turns<'a>>) -> Vec<Turns<'a>> {
    let most = turns.iter().map(|turns| turns.first().threads).max();
    turns.into_iter().filter(|turns| Some(turns.first().threads) == most).collect()
}

/// Where something was done.
fn place<'a>(turns: &Turns<'a>) -> (&'a str, &'a str, u32, &'a str, &'a str, bool) {
    let Record { media, placement, nodes, allocation, bind, why, .. } = turns.first();
    (media, placement, *nodes, allocation, bind, why.is_some())
}

/// What the kernels of each layout take beside those of `csr` in the same place.
fn kernels(graph: &str, records: &[&Record]) -> Vec<Finding> {
    let mut ratios: Vec<(String, Vec<(f64, &str)>)> = Vec::new();
    for kernel in distinct(records.iter().filter_map(|record| record.kernel.as_deref())) {
        let is_its = |record: &&Record| record.kernel.as_deref() == Some(kernel);
        let its: Vec<&Record> = records.iter().copied().filter(is_its).collect();
        let turns = with_most_threads(Turns::of(&its));
        let is_csr = |turns: &Turns<'_>| turns.first().layout == Layout::Csr.name();
        for one in turns.iter().filter(|turns| !is_csr(turns)) {
            let Some(csr) = turns.iter().find(|other| is_csr(other) && place(other) == place(one)) else { continue };
            let (about, ratio) = (one.label(false), one.seconds().median / csr.seconds().median);
            if !ratio.is_finite() {
                continue;
            }
            match ratios.iter_mut().find(|(other, _)| *other == about) {
                Some((_, all)) => all.push((ratio, kernel)),
                None => ratios.push((about, vec![(ratio, kernel)])),
            }
        }
    }
    ratios.into_iter().filter_map(|(label, all)| beside_csr(graph, &label, &all)).collect()
}

fn beside_csr(graph: &str, label: &str, ratios: &[(f64, &str)]) -> Option<Finding> {
    let by = |(a, _): &&(f64, &str), (b, _): &&(f64, &str)| a.total_cmp(b);
    let (least, most) = (ratios.iter().min_by(by)?, ratios.iter().max_by(by)?);
    let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let text = match ratios.len() {
        1 => format!("the time that {} takes over csr, which never changes", most.1),
        several => format!(
            "the time over csr, which never changes: mean of {several} kernels, from {:.2} ({}) to {:.2} ({})",
            least.0, least.1, most.0, most.1
        ),
    };
    Some(Finding { about: format!("{label}, {graph}"), figure: format!("{mean:.2} ×"), text, class: "" })
}

/// What was taken in a second, with the most threads.
fn ingest(graph: &str, records: &[&Record]) -> Vec<Finding> {
    let its: Vec<&Record> = records.iter().copied().filter(|record| record.step == Step::Ingest).collect();
    let rate = |turns: &Turns<'_>| Some(turns.spread(|record| record.edges_per_s)?.median);
    let alone: Vec<Turns<'_>> = Turns::of(&its).into_iter().filter(|turns| turns.first().threads == 1).collect();
    let finding = |turns: Turns<'_>| {
        let (first, now) = (turns.first(), rate(&turns)?);
        let of_one = alone.iter().find(|other| {
            let other = other.first();
            let is_alike = Setting::of(other) == Setting::of(first) && other.media == first.media;
            is_alike && other.layout == first.layout && first.threads > 1
        });
        let times = of_one.and_then(rate).map_or(String::new(), |one| format!(", {:.2} times one", now / one));
        let threads = format!("with {} thread{}{times}", first.threads, if first.threads == 1 { "" } else { "s" });
        let about = format!("Ingest, {} on {}{}, {graph}", first.layout, first.media_text(), turns.apart());
        Some(Finding { about, figure: format!("{} edges/s", count(now)), text: threads, class: "" })
    };
    with_most_threads(Turns::of(&its)).into_iter().filter_map(finding).collect()
}

/// What an edge takes, layout by layout.
fn memory(graph: &str, records: &[&Record]) -> Vec<Finding> {
    let its: Vec<&Record> = records.iter().copied().filter(|record| record.step == Step::Load).collect();
    let mut each: Vec<(&str, f64)> = Vec::new();
    for turns in Turns::of(&its) {
        let layout = turns.first().layout.as_str();
        if let Some(bytes) = turns.spread(|record| record.bytes_per_edge)
            && each.iter().all(|(other, _)| *other != layout)
        {
            each.push((layout, bytes.median));
        }
    }
    each.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((layout, bytes)) = each.first() else { return Vec::new() };
    let others: Vec<String> = each[1..].iter().map(|(layout, bytes)| format!("{layout} {bytes:.2}")).collect();
    let text = if others.is_empty() { format!("in {layout}") } else { format!("in {layout}; {}", others.join(", ")) };
    vec![Finding { about: format!("Bytes of a stored edge, {graph}"), figure: format!("{bytes:.2}"), text, class: "" }]
}
