use super::*;
use crate::graph;

fn measured() -> Vec<Record> {
    let mut records = Vec::new();
    for plan in plans(0.0005, None).unwrap() {
        let plan = Plan { trials: 2, threads: vec![2], ..plan };
        graph::run(&plan, &mut |record| {
            records.push(record.clone());
            Ok(())
        })
        .unwrap();
    }
    records
}

#[test]
fn every_published_figure_stands_beside_one_that_was_measured() {
    let records = measured();
    let found = findings(&records).unwrap();
    // On each graph: four kernels, CSR's time and five systems by it, and two shares.
    assert_eq!(found.figures.len(), 2 * (4 * 6 + 2));
    assert!(found.figures.iter().all(|figure| figure.measured.is_some()), "{:#?}", found.figures);
    let missing: Vec<_> = found.figures.iter().filter(|figure| figure.published.is_none()).collect();
    assert!(missing.len() == 2 && missing.iter().all(|figure| figure.load == "livejournal"), "{missing:?}");
    let answers = found.findings.last().unwrap();
    assert_eq!(answers.verdict, Verdict::Holds, "{}", answers.measured);
    assert!(answers.measured.contains("8 answers to 8 questions"), "{}", answers.measured);
    let balance = &found.findings[3];
    assert!(balance.measured_figure.is_some_and(|share| share < 0.53), "{}", balance.measured);
    assert!(found.setup_now.contains("orkut-like:0.0005"), "{}", found.setup_now);
}

#[test]
fn what_is_said_of_a_gain_follows_from_the_figures_and_from_whether_there_are_nodes() {
    let mut records = measured();
    for record in &mut records {
        let is_rr = record.nodes == 2 && record.placement == "round-robin" && record.layout == "pma";
        record.seconds = if is_rr { 0.5 } else { 1.0 };
        record.not_done = None;
    }
    let found = findings(&records).unwrap();
    assert_eq!(found.findings[0].measured_figure, Some(2.0));
    let verdicts: Vec<_> = found.findings[..3].iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Holds, Verdict::Holds, Verdict::Refuted]);
    assert_eq!(found.findings[4].verdict, Verdict::Refuted, "as fast as a static graph");
    records.iter_mut().for_each(|record| record.not_done = Some("2 nodes are virtual".to_owned()));
    let found = findings(&records).unwrap();
    assert!(found.findings[..3].iter().all(|finding| finding.verdict == Verdict::Unknown));
    assert!(found.differences.iter().any(|difference| difference.contains("2 nodes are virtual")));
    records.last_mut().unwrap().answer = Some("another".to_owned());
    assert_eq!(findings(&records).unwrap().findings[5].verdict, Verdict::Refuted);
    assert!(findings(&[]).unwrap().findings.iter().all(|finding| finding.verdict == Verdict::Unknown));
}

#[test]
fn files_of_snap_are_taken_where_there_are_some_and_graphs_are_not_larger_than_published() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("com-orkut.ungraph.txt"), "1 2\n").unwrap();
    let plans = plans(1.0, Some(dir.path())).unwrap();
    let graphs: Vec<&str> = plans.iter().map(|plan| plan.graph.as_str()).collect();
    assert!(graphs[0].ends_with("com-orkut.ungraph.txt") && graphs[0] == graphs[1], "{graphs:?}");
    assert_eq!(&graphs[2..], ["livejournal-like", "livejournal-like"]);
    assert!(super::plans(1.5, None).unwrap_err().to_string().contains("1.5"));
}
