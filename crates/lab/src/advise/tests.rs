//! The sentences, the table and the configuration of a race whose outcome is known.

use super::*;
use crate::record::tests::record;
use crate::workload::Mix;

fn ranked(engine: &str, partitions: u32, standing: Standing, ops: f64, by_first: f64) -> Ranked {
    let candidate = Candidate {
        engine: engine.to_owned(),
        partitioning: if partitions == 1 { Partitioning::None } else { Partitioning::Hard },
        partitions,
        placement: Placement::Range,
        workers: None,
    };
    let mut records: Vec<Record> = [0.9, 1.0, 1.1].map(|noise| record(engine, "none", 1, ops * noise)).into();
    // Memory differs from engine to engine.
    records
        .iter_mut()
        .for_each(|record| (record.rss_bytes_max, record.waf) = (if engine == "log" { 400 } else { 100 }, Some(1.5)));
    let trials: Vec<_> = records.iter().map(|record| (Size { records: 40_000, seconds: 0.6 }, record)).collect();
    Ranked::new(candidate, standing, &trials, Some(by_first))
}

fn advice() -> Advice {
    let question = Question { cache_bytes: Some(1 << 28), ..Question::default() };
    let beaten = |round| Standing::Beaten { by: "log in 8 partitions by range".to_owned(), round };
    let ranking = vec![
        ranked("log", 8, Standing::First, 200_000.0, 1.0),
        ranked("lmdb", 8, Standing::Close, 180_000.0, 0.9),
        ranked("log", 1, beaten(3), 100_000.0, 0.5),
        ranked("wiredtiger", 1, beaten(1), 20_000.0, 0.1),
        Ranked::new(
            ranked("rocksdb", 1, Standing::First, 1.0, 1.0).candidate,
            Standing::Failed { why: "the disk\nis full".to_owned() },
            &[],
            None,
        ),
    ];
    let config = config(&ranking[0].candidate, &question, 1 << 28);
    let mut advice = Advice {
        question: words::question(&question),
        ranking,
        left_out: vec![LeftOut { engine: "tkrzw-hash".to_owned(), why: "it keeps no order of keys".to_owned() }],
        promising_less: Vec::new(),
        why: Vec::new(),
        records: question.records,
        first_trial: Size { records: 40_000, seconds: 0.6 },
        trial: Size { records: 40_000, seconds: 0.6 },
        rounds: 4,
        budget_seconds: 120.0,
        seconds: 118.0,
        noise: Some(1.1),
        error: ERROR,
        interrupted: false,
        host: Host::here(),
        config,
        exhaustive: None,
    };
    advice.why = words::why(&advice);
    advice
}

#[test]
fn the_sentences_say_what_to_take_and_why() {
    let advice = advice();
    let said = advice.why.join("\n");
    for sentence in [
        "Take log in 8 partitions by range: 200 k operations a second (180 k to 220 k in all 3 trials), a 99th percentile of 1.40 µs",
        "The next engine, lmdb in 8 partitions by range, has 90 % of its throughput.",
        "Divided, log in 8 partitions by range does 2.00 times as much as log whole.",
        "Its ranges were cut by a sample of the keys, as biombo load --config cuts those of a new store",
        "Not told apart from it beyond doubt: lmdb in 8 partitions by range. A longer",
        "Two trials of one store usually differ by 10 %.",
        "lmdb in 8 partitions by range is better at memory (0.25 of the first's).",
        "Of 5 candidates 2 were beaten beyond doubt within 4 rounds; the risk that the best is among them is at most 5 %, if ratios change by no \
         more than 5 % with each doubling of the data, and what runs for longer than 0.60 s ranks as the trials did.",
        "rocksdb is out: the disk is full.",
        "A trial was 40.0 k of the 1.00 M records, for 0.60 s: ",
        "so nothing was dropped that was less than 21 % behind",
    ] {
        assert!(said.contains(sentence), "`{sentence}` is missing in\n{said}");
    }
    let less = |engine: &str| vec![LeftOut { engine: engine.to_owned(), why: "it forgets".to_owned() }];
    let warned = Advice { promising_less: less("log"), ..advice.clone() };
    assert!(words::why(&warned).iter().any(|said| said == "Beware of log: it forgets."));
    let other = Advice { promising_less: less("lmdb"), ..advice.clone() };
    assert_eq!(words::why(&other), advice.why, "nobody takes that one");
    let mut late = Advice { rounds: 1, seconds: 130.0, noise: Some(2.5), ..advice.clone() };
    late.ranking.iter_mut().skip(1).for_each(|ranked| ranked.standing = Standing::Close);
    let said = words::why(&late).join("\n");
    for sentence in [
        "One round took 130 s, more than the budget of 120 s: fewer engines (--engine)",
        "log, wiredtiger and 1 more; each had one trial, so the order is a first impression.",
        "Two trials of one store usually differ by a factor of 2.5: the machine is busy",
    ] {
        assert!(said.contains(sentence), "`{sentence}` is missing in\n{said}");
    }
    assert!(!said.contains("beaten beyond doubt"), "{said}");
    let grown = Advice { trial: Size { records: 500_000, seconds: 2.4 }, ..advice.clone() };
    let said = words::why(&grown).join("\n");
    assert!(
        said.contains("Trials grew from 40.0 k to 500 k of the 1.00 M records, and from 0.60 s to 2.40 s: "),
        "{said}"
    );
    assert!(said.contains("less than 5 % behind"), "{said}");
    let mut whole = Advice { trial: Size { records: advice.records, seconds: 2.4 }, ..advice.clone() };
    whole.ranking.iter_mut().for_each(|ranked| ranked.largest_trials = 1);
    let said = words::why(&whole).join("\n");
    assert!(
        said.contains("is at most 5 %, if what runs for longer than 2.40 s ranks")
            && said.contains("memory (0.25 of the first's), in one trial."),
        "{said}"
    );
    let mut alone = Advice { ranking: vec![ranked("log", 1, Standing::First, 5.0, 1.0)], ..advice };
    (alone.trial.records, alone.noise) = (alone.records, None);
    assert_eq!(words::why(&alone).len(), 1, "{:?}", words::why(&alone));
}

#[test]
fn a_beaten_engine_is_told_by_how_much_and_an_undivided_winner_by_what_dividing_costs() {
    let mut advice = advice();
    advice.ranking = vec![
        ranked("lmdb", 1, Standing::First, 100.0, 1.0),
        ranked("lmdb", 8, Standing::Close, 80.0, 0.8),
        ranked("log", 1, Standing::Beaten { by: "lmdb".to_owned(), round: 2 }, 25.0, 0.25),
    ];
    let said = words::why(&advice).join("\n");
    assert!(said.contains("It is 4.0 times as fast as the next engine, log."), "{said}");
    assert!(said.contains("Whole, lmdb does 1.25 times as much as lmdb in 8 partitions by range."), "{said}");
}

#[test]
fn what_the_executor_gains_is_told_of_one_store_under_both() {
    let mut advice = advice();
    let mut pinned = ranked("log", 8, Standing::Close, 160.0, 0.8);
    pinned.candidate = pinned.candidate.with(Some(2));
    let first = ranked("log", 8, Standing::First, 200.0, 1.0);
    advice.ranking = vec![first.clone(), ranked("log", 4, Standing::Close, 190.0, 0.9), pinned.clone()];
    let said = words::why(&advice).join("\n");
    assert!(
        said.contains("run by whoever calls it does 1.25 times as much as with them run by threads bound"),
        "{said}"
    );
    advice.ranking = vec![pinned, Ranked { by_first: Some(0.5), ..first }];
    let said = words::why(&advice).join("\n");
    assert!(said.contains("run by threads bound to processors it does 2.00 times as much"), "{said}");
    advice.ranking.truncate(1);
    assert!(!words::why(&advice).join("\n").contains("With its writes run by"));
}

#[test]
fn the_table_has_every_candidate_with_its_figures_and_its_end() {
    let mut text = Vec::new();
    print(&advice(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in [
        "advised",
        "not told apart",
        "beaten in round 3",
        "p99: 99 of 100 operations",
        "failed",
        "not tried: tkrzw-hash",
    ] {
        assert!(text.contains(line), "`{line}` is missing in\n{text}");
    }
    let first = text.lines().find(|line| line.ends_with("advised")).unwrap();
    assert!(text.contains(" trials of 40.0 k records for 0.60 s in 4 rounds, 118 s of a budget of 120 s"), "{text}");
    assert!(["200 k", "100 %", "1.40 µs", "1.50", "400 B"].iter().all(|cell| first.contains(cell)), "{first}");
}

/// Fails if a figure that the kernel took bytes off stands alone.
#[test]
fn what_an_engine_says_that_it_wrote_stands_beside_less_by_the_kernel() {
    let mut advice = advice();
    advice.ranking[0].waf_by_engine = Some(2.25);
    let mut text = Vec::new();
    print(&advice, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let said = "wrote more: log in 8 partitions by range 2.25. The kernel";
    assert!(text.contains(" 1.50* ") && text.contains(said), "{text}");
    assert!(words::why(&advice)[0].contains("1.50 bytes written for a byte put (2.25 by its own word)"));
}

#[test]
fn the_configuration_is_the_advised_store_and_says_where_it_comes_from() {
    let advice = advice();
    let text = advice.to_toml().unwrap();
    assert!(text.starts_with("# workload a (50 % read, 50 % update, zipfian) over 1.00 M records"), "{text}");
    assert!(text.contains("# Take log in 8 partitions by range"), "{text}");
    assert!(text.contains("\n# rocksdb is out: the disk is full.\n"), "{text}");
    let config = Config::parse(&text).unwrap();
    assert_eq!(config, advice.config);
    assert_eq!(
        (config.engine.as_deref(), config.partitions, config.cache_bytes),
        (Some("log"), Some(8), Some(1 << 28))
    );
    assert_eq!(config.placement, Some(biombo_store::PlacementKind::Range));
    assert_eq!(config.executor, Some(biombo_store::Executor::Direct));
    let pinned = Candidate { workers: Some(2), ..advice.ranking[0].candidate.clone() };
    assert_eq!(pinned.to_string(), "log in 8 partitions by range on 2 workers");
    let config = super::config(&pinned, &Question::default(), 1);
    assert_eq!(config.executor, Some(biombo_store::Executor::Pinned { workers: 2 }));
    assert!(config.to_toml().unwrap().contains("executor = \"pinned-2\""));
    let whole = super::config(&advice.ranking[2].candidate, &Question::default(), 1);
    assert_eq!((whole.executor, whole.placement), (None, None), "an engine used directly has neither");
    assert_eq!((config.durability, config.value_bytes), (Some(Durability::Sync), Some(1_000)));
}

#[test]
fn a_question_is_told_in_a_line() {
    let mix = Mix::new(0.955, 0.0, 0.0).unwrap();
    let task = Task::Mix { mix, distribution: crate::workload::Distribution::Uniform };
    let question = Question { task, threads: 1, ..Question::default() };
    assert_eq!(
        words::question(&question),
        "95.5 % read, 4.5 % update (uniform) over 1.00 M records, keys of 16 B, values of 1000 B, 1 client thread, durability sync"
    );
}
