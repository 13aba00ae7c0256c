//! `biombo bench graph`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use biombo_lab::graph::{Kernel, Layout, Media, Plan, Record, Step, run as measure};
use clap::{Args, ValueEnum};

use super::watch::Output;
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::show_count;

/// Measure graphs: kernels over layouts in turns, ingest, bytes per edge
#[derive(Debug, Args)]
#[command(after_help = "\
Every kernel runs over all layouts in turns, trial by trial; each answer is verified. The source of bfs and bc is the vertex with the
most out-edges, pagerank does 20 iterations. Edges of synthetic graphs come in a shuffled order, those of a file in its own.
--ingest: pma is made of a tenth of the edges, the others come in batches of 65,536 from all threads; on disk and on persistent memory each
batch is durable when it is acknowledged. Edges a second are those of the file: an undirected one counts once and is stored twice.

Examples:
  biombo bench graph --graph kron:20:16 --threads 1,2 --trials 9 --churn 0.1
  biombo bench graph --graph kron:20:16 --layout pma --kernel bfs --ingest --media dram,disk,pmem --threads 2 --json graph.jsonl
  biombo bench graph --graph wiki-Vote.txt.gz --kernel pagerank")]
pub(crate) struct GraphArgs {
    /// kron:SCALE:DEGREE, uniform:SCALE:DEGREE (the GAP benchmark's), or a file of edges
    #[arg(long, value_name = "GRAPH")]
    graph: String,
    /// Layouts: csr, pma
    #[arg(
        long = "layout",
        value_name = "L,L..",
        value_delimiter = ',',
        default_value = "csr,pma",
        hide_possible_values = true
    )]
    layouts: Vec<LayoutArg>,
    /// Where a graph is kept that takes edges in (--ingest): dram, disk
    #[arg(long, value_name = "M,M..", value_delimiter = ',', default_value = "dram", hide_possible_values = true)]
    media: Vec<MediaArg>,
    /// Kernels: bfs, pagerank, cc, cc-sv, bc [default: all]
    #[arg(long = "kernel", value_name = "K,K..", value_delimiter = ',', hide_possible_values = true)]
    kernels: Vec<KernelArg>,
    /// Threads
    #[arg(long, value_name = "T,T..", value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// How often each kernel runs over each layout
    #[arg(long, value_name = "N", default_value_t = 5)]
    trials: u32,
    /// Measure ingest too
    #[arg(long)]
    ingest: bool,
    /// Delete this share of the edges from pma and insert it again, before its kernels
    #[arg(long, value_name = "F", default_value_t = 0.0)]
    churn: f64,
    /// Where graphs on disk are made [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write a JSON line for each step to this file (`-`: standard output, and no table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutArg {
    Csr,
    Pma,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MediaArg {
    Dram,
    Disk,
    Pmem,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KernelArg {
    Bfs,
    Pagerank,
    Cc,
    CcSv,
    Bc,
}

impl From<KernelArg> for Kernel {
    fn from(kernel: KernelArg) -> Self {
        match kernel {
            KernelArg::Bfs => Self::Bfs,
            KernelArg::Pagerank => Self::Pagerank,
            KernelArg::Cc => Self::Cc,
            KernelArg::CcSv => Self::CcSv,
            KernelArg::Bc => Self::Bc,
        }
    }
}

pub(super) fn run(args: &GraphArgs) -> Done {
    if !(0.0..=1.0).contains(&args.churn) {
        return Err(Failure::usage(format!("--churn is a share from 0 to 1, not {}", args.churn)));
    }
    if args.trials == 0 {
        return Err(Failure::usage("--trials is at least 1"));
    }
    if let Some(threads) = args.threads.iter().find(|threads| !(1..=1024).contains(*threads)) {
        return Err(Failure::usage(format!("--threads are 1 to 1024, not {threads}")));
    }
    if args.ingest && !args.layouts.iter().any(|layout| matches!(layout, LayoutArg::Pma)) {
        return Err(Failure::usage("--ingest is of graphs that change: it needs --layout pma"));
    }
    let layout = |layout: &LayoutArg| match layout {
        LayoutArg::Csr => Layout::Csr,
        LayoutArg::Pma => Layout::Pma,
    };
    let media = |media: &MediaArg| match media {
        MediaArg::Dram => Media::Dram,
        MediaArg::Disk => Media::Disk,
        MediaArg::Pmem => Media::Pmem,
    };
    let kernels: Vec<Kernel> = args.kernels.iter().map(|kernel| (*kernel).into()).collect();
    let plan = Plan {
        graph: args.graph.clone(),
        layouts: args.layouts.iter().map(layout).collect(),
        media: args.media.iter().map(media).collect(),
        kernels: if kernels.is_empty() { Kernel::ALL.to_vec() } else { kernels },
        threads: args.threads.clone(),
        trials: args.trials,
        ingest: args.ingest,
        churn: args.churn,
        dir: args.dir.clone().unwrap_or_else(std::env::temp_dir),
    };
    let to_stdout = args.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let mut json = args.json.as_deref().filter(|_| !to_stdout).map(Output::create).transpose()?;
    let mut out = Out::new();
    let (mut records, mut refused) = (Vec::new(), None);
    let measured = measure(&plan, &mut |record| {
        let mut told = || -> Done {
            if to_stdout {
                return out.json(record);
            }
            if let Some(json) = &mut json {
                let line = serde_json::to_string(record).map_err(|e| Failure::output(&e.into()))?;
                json.write(&format!("{line}\n"))?;
            }
            Ok(())
        };
        if let Err(failure) = told() {
            refused = Some(failure);
            return Err(biombo_base::Error::invalid("what was measured cannot be written"));
        }
        records.push(record.clone());
        Ok(())
    });
    if let Some(failure) = refused {
        return Err(failure);
    }
    measured?;
    if !to_stdout {
        table(&mut out, &plan, &records)?;
    }
    out.finish()
}

/// Steps, then kernels by layouts: medians, least and most, and how many times as long as the first layout's.
fn table(out: &mut Out, plan: &Plan, records: &[Record]) -> Done {
    let Some(first) = records.first() else { return Ok(()) };
    let (vertices, edges) = (show_count(first.vertices), show_count(first.edges));
    out.line(format_args!("{}: {vertices} vertices, {edges} stored edges", first.graph))?;
    out.line(format_args!(
        "{:8} {:6} {:5} {:>7} {:>10} {:>14} {:>11}",
        "step", "layout", "media", "threads", "seconds", "M edges/s", "bytes/edge"
    ))?;
    for record in records.iter().filter(|record| record.step != Step::Kernel) {
        let step = format!("{:?}", record.step).to_lowercase();
        let rate = record.edges_per_s.unwrap_or(0.0) / 1e6;
        let bytes = record.bytes_per_edge.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.2}"));
        let Record { layout, media, threads, seconds, .. } = record;
        out.line(format_args!("{step:8} {layout:6} {media:5} {threads:>7} {seconds:>10.3} {rate:>14.2} {bytes:>11}"))?;
    }
    out.line(format_args!(
        "\n{:9} {:>7} {:6} {:>10} {:>10} {:>10} {:>7}",
        "kernel", "threads", "layout", "median s", "least", "most", "x first"
    ))?;
    for kernel in &plan.kernels {
        for threads in &plan.threads {
            let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            let of = |record: &&Record| record.kernel == Some(kernel.name()) && record.threads == *threads;
            records.iter().filter(of).for_each(|record| seconds.entry(record.layout).or_default().push(record.seconds));
            let mut base = None;
            for layout in &plan.layouts {
                let Some(seconds) = seconds.get_mut(layout.name()) else { continue };
                seconds.sort_by(f64::total_cmp);
                let (least, most, median) = (seconds[0], seconds[seconds.len() - 1], seconds[seconds.len() / 2]);
                let ratio = median / *base.get_or_insert(median);
                let (kernel, layout) = (kernel.name(), layout.name());
                out.line(format_args!(
                    "{kernel:9} {threads:>7} {layout:6} {median:>10.5} {least:>10.5} {most:>10.5} {ratio:>7.3}"
                ))?;
            }
        }
    }
    Ok(())
}
