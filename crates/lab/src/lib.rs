//! The laboratory: the same work on every engine and layout, measured the same way.
//!
//! - [`workload`]: YCSB's core workloads, db_bench's benchmarks and their generators, reproducible by seed;
//! - [`driver`]: load phase and run phase, closed and open loop, latencies in HDR histograms;
//! - [`target`]: what is driven: an engine used directly, or a store over it; [`null`]: what the driver itself costs;
//! - [`measure`]: memory, room on disk, bytes read and written; [`amplification`]: those by what clients asked for, while a run goes on;
//! - [`process`]: every run in a process of its own;
//! - [`bench`](mod@bench): a plan of runs; [`progress`] of them; [`record`]: one JSON line for each;
//! - [`summary`], [`statistics`]: medians, spreads and paired ratios; [`moving`]: what it brought; [`mod@table`] for the terminal, [`report`] for the browser;
//! - [`beside`]: a row of each table beside the others of it, pair by pair;
//! - [`compare`](mod@compare): what changed from one file of records to another, and whether it is more than noise;
//! - [`turns`]: two builds that take turns while both are measured;
//! - [`graph`]: layouts of graphs side by side;
//! - [`advise`]: which engine, divided how, for a workload on this machine;
//! - [`reproduce`]: published experiments done again, published beside measured.
#![forbid(unsafe_code)]

pub mod advise;
pub mod amplification;
pub mod bench;
pub mod beside;
mod columns;
pub mod compare;
pub mod driver;
pub mod graph;
pub mod measure;
pub mod moving;
pub mod null;
pub mod process;
pub mod progress;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod spec;
pub mod statistics;
pub mod summary;
pub mod table;
pub mod target;
pub mod turns;
pub mod units;
pub mod workload;
