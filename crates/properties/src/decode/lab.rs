//! What the laboratory reads: records of runs, of which tables and reports are made, and the description of a run.

use biombo_lab::bench::Outcome;
use biombo_lab::record::{parse_kept, parse_lines, to_lines};
use biombo_lab::spec::{Partitioning, Placement, RunSpec};
use biombo_lab::workload::trace::Counts;
use biombo_lab::workload::{Shift, ShiftKind, Task, Workload};
use biombo_lab::{report, summary, table};

use crate::{Property, blames_the_bytes};

/// A byte that says what, then JSON.
pub const PROPERTY: Property = Property { name: "lab_json", holds, examples, cases: 300 };

/// More is no table of somebody's.
const RECORDS_MAX: usize = 8;

fn holds(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match choice & 1 {
        0 => records(text),
        _ => spec(text),
    }
}

fn records(text: &str) {
    if let Err(error) = parse_kept(text) {
        blames_the_bytes(&error, "parse a file of records");
    }
    let mut records = match parse_lines(text) {
        Ok(records) => records,
        Err(error) => return blames_the_bytes(&error, "parse records"),
    };
    let again = parse_lines(&to_lines(&records)).expect("what was written can be read");
    assert_eq!(again, records, "records come back");
    records.truncate(RECORDS_MAX);
    let mut printed = Vec::new();
    table::print(&summary::tables(&records), &mut printed).expect("a vector takes all bytes");
    assert!(std::str::from_utf8(&printed).is_ok());
    let outcome = Outcome { records, failures: Vec::new(), interrupted: 0 };
    report::html(&outcome).expect("a report of any records");
}

fn spec(text: &str) {
    let Ok(spec) = serde_json::from_str::<RunSpec>(text) else { return };
    let again = serde_json::to_string(&spec).expect("it was read");
    assert_eq!(serde_json::from_str::<RunSpec>(&again).ok().as_ref(), Some(&spec), "a run comes back");
    let _ = (spec.label(), spec.inserts(), spec.loaded(), spec.put_bytes(), spec.disk_bytes_needed());
    if let Err(error) = spec.keys() {
        blames_the_bytes(&error, "make keys");
    }
}

const RECORD: &str = r#"{"bench":"ycsb","workload":"a","engine":"log","partitioning":"hard","partitions":8,"executor":"direct","threads":2,"durability":"os","placement":"hash","cache_bytes":0,"repartition":"off","planner":null,"records":1000,"operations":2000,"key_bytes":16,"value_bytes":1000,"repetition":1,"seconds":2.31,"ops_per_s":865.0,"latency_ns":{"read":{"count":1000,"mean":402,"p50":310,"p95":720,"p99":1400,"p999":9000,"max":210000}},"errors":0,"rss_bytes_max":0,"disk_bytes":0,"logical_write_bytes":0,"physical_write_bytes":0,"waf":1.02,"waf_by":{"engine":1.02,"process":1.05,"device":null},"load":{"seconds":1.9,"ops_per_s":520.0},"moves":{"plans":0,"units":0,"bytes":0},"compaction":{"count":0,"seconds":0.0,"latency_ns_p50":0,"bytes":0},"host":{"cpu":"","cores":2,"kernel":""},"version":"","distribution":"zipfian","compression_ratio":1.0,"rate":null,"seed":1,"first_error":null,"timeline":{"bucket_seconds":0.1,"operations":[1,2]},"engine_version":"","engine_options":[["a","b"]]}"#;

fn run(task: impl Into<Task>, seconds: Option<f64>) -> RunSpec {
    RunSpec {
        engine: "log".to_owned(),
        task: task.into(),
        partitioning: Partitioning::Hard,
        partitions: 8,
        in_store: false,
        placement: Placement::Range,
        threads: 3,
        durability: "os".to_owned(),
        records: 1000,
        operations: 1000,
        seconds,
        rate: None,
        key_bytes: 16,
        value_bytes: 100,
        compression_ratio: 1.0,
        cache_bytes: 1 << 20,
        space_amplification: None,
        io: None,
        workers: None,
        repartition: None,
        planner: None,
        memory_bytes: None,
        seed: 1,
        repetition: 1,
        traces: Vec::new(),
        preload: false,
        once: false,
        dir: "d".into(),
        dirs: Vec::new(),
    }
}

fn examples() -> Vec<Vec<u8>> {
    let direct = RECORD.replace("\"hard\"", "\"none\"").replace("\"partitions\":8", "\"partitions\":1");
    let over_time = r#""operations":[1,2],"p99_ns":[20,30],"max_ns":[21,3000],"marks":[{"at_seconds":0.05,"kind":"shift","text":"<b>"}]"#;
    let shifting = RECORD.replace("\"ycsb\",\"workload\":\"a\"", "\"shift\",\"workload\":\"jump\"");
    let shifting = shifting.replace("\"operations\":[1,2]", over_time);
    let mut examples = vec![format!("\0{RECORD}\n"), format!("\0{direct}\n{RECORD}\n"), format!("\0{shifting}\n")];
    let counts = Counts { reads: 5, writes: 2, scans: 1, key_bytes: 100, key_bytes_max: 20, keys: 6 };
    let trace = RunSpec { traces: vec!["t".into()], preload: true, once: true, ..run(Task::Trace { counts }, None) };
    let shifts = ShiftKind::ALL.map(|kind| run(Shift::from(kind), Some(2.0)));
    for run in
        [run(Workload::D, None), run(Workload::A, Some(3.5)), run(Workload::D, Some(1e30)), trace].iter().chain(&shifts)
    {
        examples.push(format!("\x01{}", serde_json::to_string(run).expect("a description is JSON")));
    }
    examples.into_iter().map(String::into_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_what_they_are_examples_of() {
        for example in examples() {
            let text = std::str::from_utf8(&example[1..]).expect("text");
            match example[0] {
                0 => assert!(!parse_lines(text).expect("records").is_empty()),
                _ => drop(serde_json::from_str::<RunSpec>(text).expect("a run")),
            }
        }
    }
}
