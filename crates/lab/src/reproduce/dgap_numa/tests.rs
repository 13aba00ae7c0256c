use super::*;
use crate::graph;

fn measured() -> Vec<Record> {
    measured_in(2)
}

fn measured_in(trials: u32) -> Vec<Record> {
    let mut records = Vec::new();
    for plan in plans(0.0005, None).unwrap() {
        let plan = Plan { trials, threads: vec![1, 2], ..plan };
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
    // On each graph: for one thread and for two four kernels, CSR's time, five systems by it, remote by local memory; and two shares.
    assert_eq!(found.figures.len(), 2 * (2 * 4 * 7 + 2));
    assert!(found.figures.iter().all(|figure| figure.measured.is_some()), "{:#?}", found.figures);
    // Published are those of two threads, and the shares of Orkut; no time of a whole graph stands beside one of its two-thousandth part.
    for figure in &found.figures {
        let is_by_csr = figure.load.ends_with("2 threads") && figure.of.ends_with("by CSR");
        let is_published = is_by_csr || figure.load == "orkut";
        assert_eq!(figure.published.is_some(), is_published, "{figure:?}");
    }
    let named = |record: &Record| Record { graph: record.graph.replace(":0.0005", ""), ..record.clone() };
    let whole = findings(&records.iter().map(named).collect::<Vec<_>>()).unwrap();
    let times = |figure: &&Figure| figure.of.ends_with(", time") && figure.published.is_some();
    assert_eq!(whole.figures.iter().filter(times).count(), 2 * 4);
    let answers = &found.findings[6];
    assert_eq!(answers.verdict, Verdict::Holds, "{}", answers.measured);
    let sentences = || found.findings.iter().map(|finding| &finding.published);
    assert!(sentences().all(|sentence| !sentence.contains("  ")), "a hole: {:#?}", sentences().collect::<Vec<_>>());
    let leads = |finding: &&Finding| finding.verdict != Verdict::Unknown && finding.lines.is_empty();
    assert_eq!(found.findings.iter().find(leads), None, "a conclusion that leads to no run");
    assert!(answers.measured.contains("8 answers to 8 questions"), "{}", answers.measured);
    let balance = &found.findings[3];
    assert!(balance.measured_figure.is_some_and(|share| share < 0.53), "{}", balance.measured);
    assert!(found.setup_now.contains("orkut-like:0.0005"), "{}", found.setup_now);
}

/// As many trials of every kernel as are done, each as one was.
fn repeated() -> Vec<Record> {
    let mut records = measured_in(1);
    let kernels: Vec<Record> = records.iter().filter(|record| record.step == Step::Kernel).cloned().collect();
    for trial in 2..=TRIALS {
        records.extend(kernels.iter().map(|record| Record { trial, ..record.clone() }));
    }
    records
}

#[test]
fn what_is_said_of_a_gain_follows_from_the_figures_and_from_whether_there_are_nodes() {
    let mut records = repeated();
    for record in &mut records {
        record.seconds = match (record.layout.as_str(), record.placement.as_str()) {
            ("pma", "round-robin") => 0.5,
            ("pma", "remote") => 1.5,
            _ => 1.0,
        };
        record.not_done = None;
    }
    let found = findings(&records).unwrap();
    assert_eq!(found.findings[0].measured_figure, Some(2.0));
    let verdicts: Vec<_> = found.findings[..3].iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Holds, Verdict::Holds, Verdict::Refuted]);
    assert_eq!(found.findings[4].verdict, Verdict::Refuted, "as fast as a static graph");
    let is_ours = |finding: &Finding| finding.published.starts_with("not published");
    assert!(found.findings.iter().all(|finding| finding.is_published != is_ours(finding)));
    let slower = |seconds: f64| {
        let mut records = records.clone();
        records.iter_mut().filter(|record| record.layout == "pma").for_each(|record| record.seconds = seconds);
        findings(&records).unwrap().findings[4].verdict
    };
    // Less than then, and slower all the same.
    assert_eq!((slower(1.4), slower(1.05)), (Verdict::Holds, Verdict::Refuted));
    assert_eq!((found.findings[5].verdict, found.findings[5].measured_figure), (Verdict::Holds, Some(1.5)));
    // Eight series at once take nine trials, four eight, one six.
    for (trials, mixed) in [(8, vec![4]), (5, vec![0, 1, 2, 4, 5])] {
        let fewer: Vec<Record> = records.iter().filter(|record| record.trial <= trials).cloned().collect();
        let found = findings(&fewer).unwrap().findings;
        for at in [0, 1, 2, 4, 5] {
            let is_mixed = found[at].verdict == Verdict::Mixed;
            assert_eq!(is_mixed, mixed.contains(&at), "{trials} trials: {}", found[at].measured);
        }
        let slower = &found[4].measured;
        assert!(slower.ends_with("to judge 8 series at once takes 9 pairs of each"), "{slower}");
    }
    records.iter_mut().for_each(|record| record.not_done = Some("2 nodes are virtual".to_owned()));
    let found = findings(&records).unwrap();
    // Nor is there a share of what was published, which a page would draw.
    let unknown = |at: &usize| (found.findings[*at].verdict, found.findings[*at].ratio) == (Verdict::Unknown, None);
    assert!([0, 1, 2, 5].iter().all(unknown), "{:?}", found.findings);
    assert!(found.differences.iter().any(|difference| difference.contains("2 nodes are virtual")));
    records.last_mut().unwrap().answer = Some("another".to_owned());
    assert_eq!(findings(&records).unwrap().findings[6].verdict, Verdict::Refuted);
    assert!(findings(&[]).unwrap().findings.iter().all(|finding| finding.verdict == Verdict::Unknown));
}

/// Nine pairs with these ratios, such that their interval is from the least to the greatest.
fn pairs(least: f64, median: f64, greatest: f64) -> Named {
    let ratios = [&[least; 2][..], &[median; 5], &[greatest; 2]].concat();
    ("a".to_owned(), ratios.into_iter().map(|ratio| (ratio, 1.0)).collect())
}

/// Fails if a verdict needs less than its sentence says, or more.
#[test]
fn there_is_a_gain_where_all_is_beyond_one_and_none_where_a_twentieth_is_excluded() {
    let gains = |least, median, greatest| Told::of(&[pairs(least, median, greatest)]).unwrap().gains();
    for (bounds, verdict) in [
        ((1.01, 1.02, 1.03), Verdict::Holds),
        ((1.0, 1.5, 2.0), Verdict::Mixed),
        ((1.001, 1.5, 2.0), Verdict::Holds),
        // What everybody calls no gain.
        ((0.99, 1.0, 1.01), Verdict::Refuted),
        ((0.9, 1.02, 1.049), Verdict::Refuted),
        ((0.9, 1.0, 1.05), Verdict::Mixed),
        ((0.5, 0.6, 0.7), Verdict::Refuted),
    ] {
        assert_eq!(gains(bounds.0, bounds.1, bounds.2), verdict, "{bounds:?}");
    }
    let slower = |ratio| Told::of(&[pairs(ratio, ratio, ratio)]).unwrap().passes(1.1, 1.1);
    assert_eq!([1.11, 1.1, 1.09].map(slower), [Verdict::Holds, Verdict::Mixed, Verdict::Refuted]);
}

/// Fails if the luckiest of several series is judged as if it were the only one, or if one that is slower hides one that gains.
#[test]
fn series_that_are_judged_together_need_more_than_one_alone() {
    let lucky = ("a".to_owned(), [&[(0.98, 1.0)][..], &[(1.2, 1.0); 8]].concat());
    let others: Vec<Named> = (0..7).map(|_| pairs(1.0, 1.0, 1.0)).collect();
    let alone = Told::of(std::slice::from_ref(&lucky)).unwrap();
    assert_eq!((alone.gains(), alone.text.ends_with("; judged at 95.0 %")), (Verdict::Holds, true), "{}", alone.text);
    let among = Told::of(&[&[lucky][..], &others[..]].concat()).unwrap();
    assert_eq!((among.gains(), among.most), (Verdict::Mixed, 1.2), "{}", among.text);
    assert!(among.text.ends_with("; judged at 99.4 %"), "{}", among.text);
    let gain = [&[pairs(1.1, 1.2, 1.3)][..], &others[..], &[pairs(0.5, 0.5, 0.5)][..]].concat();
    assert_eq!(Told::of(&gain).unwrap().gains(), Verdict::Holds);
    assert!(Told::of(&[("none".to_owned(), Vec::new())]).is_none());
    // As many as there can be: two graphs, and one thread beside the published numbers of them.
    let most = GRAPHS.len() * (1 + THREADS.len()).max(KERNELS.len());
    assert!(pairs_needed(1.0 - 0.05 / most as f64) <= TRIALS as usize);
}

/// Fails if a share of 0.55, 1.22 times as many, passes for twice as many.
#[test]
fn halves_have_twice_as_many_edges_from_a_share_of_two_thirds_on() {
    let published = (largest_share(&EDGES_BY_HALVES), largest_share(&EDGES_ROUND_ROBIN));
    assert_eq!(shares(published.0, published.1, false), Verdict::Holds);
    for (halves, in_turn, verdict) in [
        (TWICE, EVEN, Verdict::Holds),
        (0.64, EVEN, Verdict::Refuted),
        (0.55, EVEN, Verdict::Refuted),
        (TWICE, 0.51, Verdict::Refuted),
    ] {
        assert_eq!(shares(halves, in_turn, false), verdict, "{halves} {in_turn}");
    }
    assert_eq!((shares(0.5, 0.5, true), shares(0.5, 0.51, true)), (Verdict::Mixed, Verdict::Refuted));
}

/// Fails when a system on nodes is divided by CSR under the same nodes, or by CSR of another trial.
#[test]
fn every_system_is_divided_by_csr_without_nodes_in_the_same_trial() {
    let mut records = measured();
    for record in records.iter_mut().filter(|record| record.step == Step::Kernel) {
        // The second trial of all is ten times as slow.
        let slow = if record.trial == 2 { 10.0 } else { 1.0 };
        record.seconds = if record.layout == "csr" { 2.0 * slow } else { slow };
        assert!(record.layout != "csr" || (record.nodes, record.placement.as_str()) == (1, "no-nodes"));
    }
    let found = findings(&records).unwrap();
    let by_csr: Vec<_> = found.figures.iter().filter(|figure| figure.of.ends_with("by CSR")).collect();
    assert_eq!(by_csr.len(), 2 * 2 * 4 * 5);
    for figure in by_csr {
        assert_eq!((figure.measured, figure.extremes), (Some(0.5), Some((0.5, 0.5))), "{figure:?}");
    }
}

#[test]
fn every_figure_of_six_trials_has_the_interval_of_its_median() {
    let once = measured();
    assert!(findings(&once).unwrap().figures.iter().all(|figure| figure.interval.is_none()), "two trials give none");
    let kernels = || once.iter().filter(|record| record.step == Step::Kernel).cloned();
    let records: Vec<Record> = once.iter().cloned().chain(kernels()).chain(kernels()).collect();
    let found = findings(&records).unwrap();
    for figure in found.figures.iter().filter(|figure| !figure.of.contains("share")) {
        let (measured, (low, high)) = (figure.measured.unwrap(), figure.interval.unwrap());
        assert!(low <= measured && measured <= high, "{figure:?}");
        assert!(figure.cells()[6].starts_with('['), "{:?}", figure.cells());
    }
}

#[test]
fn files_of_snap_are_taken_where_there_are_some_and_graphs_are_not_larger_than_published() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("com-orkut.ungraph.txt"), "1 2\n").unwrap();
    let plans = plans(1.0, Some(dir.path())).unwrap();
    let graphs: Vec<&str> = plans.iter().map(|plan| plan.graph.as_str()).collect();
    assert!(graphs[0].ends_with("com-orkut.ungraph.txt"), "{graphs:?}");
    assert_eq!(&graphs[1..], ["livejournal-like"]);
    // LiveJournal's file says that it is directed; what was published made its edges lead both ways.
    assert!(plans.iter().all(|plan| plan.shape == Some(Shape::GAP) && plan.threads.starts_with(&[1, 2])));
    assert!(super::plans(1.5, None).unwrap_err().to_string().contains("1.5"));
}
