use std::collections::BTreeSet;

use biombo_graph::numa::Allocation;
use biombo_graph::team::Bind;

use super::*;

fn plan(graph: &str, dir: PathBuf) -> Plan {
    Plan {
        graph: graph.to_owned(),
        shape: None,
        dealt: Layout::ALL.to_vec(),
        layouts: Layout::ALL.to_vec(),
        media: vec![Media::Dram, Media::Disk, Media::Pmem],
        kernels: Kernel::ALL.to_vec(),
        threads: vec![1, 2],
        nodes: NodesPlan { nodes: Some(1), ..NodesPlan::default() },
        trials: 2,
        ingest: true,
        batch: BATCH,
        churn: 0.1,
        stream: None,
        dir,
    }
}

fn records(plan: &Plan) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    run(plan, &mut |record| {
        records.push(record.clone());
        Ok(())
    })?;
    Ok(records)
}

#[test]
fn every_step_is_measured_and_all_answers_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan("kron:10:8", dir.path().to_owned());
    let records = records(&plan).unwrap();
    assert_eq!(plan.runs(), records.iter().filter(|record| record.step == Step::Kernel).count() as u64);
    // For each number of threads: three layouts that take edges in on three media, four loads and one on pmem, three churns, five kernels
    // twice over four layouts and one of them on pmem. On one node no placements are shown.
    assert_eq!(records.len(), 2 * (3 * 3 + 5 + 3 + 5 * 2 * 5));
    for kernel in Kernel::ALL {
        let of: Vec<&Record> =
            records.iter().filter(|record| record.kernel.as_deref() == Some(kernel.name())).collect();
        assert_eq!(of.iter().map(|record| &record.answer).collect::<BTreeSet<_>>().len(), 1, "{}", kernel.name());
        let layouts: Vec<_> = of.iter().map(|record| (record.layout.as_str(), record.media.as_str())).collect();
        let in_memory = ["pma", "adjacency", "buffered"].map(|layout| (layout, "dram"));
        assert_eq!(layouts, [&[("csr", "dram"), ("csr", "pmem")], &in_memory[..]].concat().repeat(4), "in turns");
        assert!(of.iter().all(|record| record.verified == Some(true) && record.seconds > 0.0));
    }
    let ingest: Vec<&Record> = records.iter().filter(|record| record.step == Step::Ingest).collect();
    let media = ["dram", "disk", "pmem"];
    let each = ["pma", "adjacency", "buffered"].map(|layout| media.map(|media| (layout, media))).concat().repeat(2);
    let found: Vec<_> = ingest.iter().map(|record| (record.layout.as_str(), record.media.as_str())).collect();
    assert_eq!(found, each);
    // What plays persistent memory is said, of that medium alone.
    for record in &records {
        let is_pmem = record.media == "pmem";
        assert_eq!((record.pmem.is_some(), record.pmem_is_played.is_some()), (is_pmem, is_pmem), "{record:?}");
        let Some(behind) = &record.pmem else { continue };
        let words = if record.pmem_is_played == Some(true) { "played by " } else { "MAP_SYNC" };
        assert!(behind.starts_with(words), "{behind}");
        assert_eq!(record.media_text(), format!("pmem ({behind})"));
    }
    let churned: Vec<&str> =
        records.iter().filter(|record| record.step == Step::Churn).map(|record| record.layout.as_str()).collect();
    assert_eq!(churned, ["pma", "adjacency", "buffered"].repeat(2));
    // Kernels run over what churn has left.
    let is_told = |record: &Record| {
        let is_after = matches!(record.step, Step::Churn | Step::Kernel) && record.layout != "csr";
        (record.churn, record.stream) == (is_after.then_some(0.1), None)
    };
    assert!(records.iter().all(is_told));
    assert!(ingest.iter().all(|record| record.edges_per_s > Some(0.0) && record.bytes_per_edge > Some(4.0)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "graphs on disk are removed");
}

/// Updates come in while kernels run, each trial sees the graph as it was given, and in the end it is that.
#[test]
fn a_stream_of_updates_changes_no_answer_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan {
        stream: Some(50_000),
        ingest: false,
        churn: 0.0,
        trials: 4,
        kernels: vec![Kernel::Pagerank, Kernel::Cc],
        ..plan("livejournal-like:0.002", dir.path().to_owned())
    };
    let records = records(&plan).unwrap();
    let kernels: Vec<&Record> = records.iter().filter(|record| record.step == Step::Kernel).collect();
    let answers: BTreeSet<_> = kernels.iter().map(|record| (&record.kernel, &record.answer)).collect();
    assert_eq!((kernels.len() as u64, answers.len()), (plan.runs(), 2));
    for record in kernels {
        let rate = record.stream_per_s;
        assert_eq!(rate.is_some(), record.layout != "csr", "{record:?}");
        assert_eq!((record.stream, record.churn), (rate.and(Some(50_000)), None), "{record:?}");
        assert!(rate.is_none_or(|rate| rate > 0.0 && rate < 60_000.0), "{rate:?}");
    }
    assert!(super::run(&Plan { stream: Some(0), ..plan }, &mut |_| Ok(())).is_err());
}

/// Fails for a placement, an allocation or a binding that changes an answer, and for one that is taken for another.
#[test]
fn placements_are_measured_in_turns_and_all_answers_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let placings = [Placement::ALL.map(Placing::Fixed).to_vec(), vec![Placing::Auto]].concat();
    let mut answers = BTreeSet::new();
    for (allocation, bind) in [
        (Allocation::Bind, None),
        (Allocation::Interleave, Some(Bind::None)),
        (Allocation::FirstTouch, Some(Bind::RoundRobin)),
        (Allocation::Bind, Some(Bind::Remote)),
    ] {
        let nodes = NodesPlan { placings: placings.clone(), nodes: Some(3), allocation, bind };
        let plan = Plan {
            nodes,
            layouts: vec![Layout::Csr, Layout::Adjacency],
            ingest: false,
            kernels: vec![Kernel::Pagerank, Kernel::Bfs],
            ..plan("kron:12:8", dir.path().to_owned())
        };
        let records = records(&plan).unwrap();
        // For each number of threads: four placements shown, three loads, a churn; two kernels twice over two layouts, and csr on pmem, under
        // five placements.
        assert_eq!(records.len(), 2 * (4 + 3 + 1 + 2 * 2 * 3 * 5));
        // It is copied nowhere, and that memory of it is not bound is said.
        assert_eq!(records.iter().filter(|record| record.media == "pmem").count(), 2 * (1 + 2 * 2 * 5));
        let said = records.last().and_then(|record| record.not_done.as_ref());
        assert!(said.is_some_and(|what| what.contains("persistent memory stay where its device is")), "{said:?}");
        let bound = bind.unwrap_or(Bind::RoundRobin).name();
        let is_as_planned = |record: &Record| {
            (record.nodes, record.bind.as_str(), record.allocation.as_str()) == (3, bound, allocation.name())
        };
        assert!(records.iter().all(is_as_planned));
        let kernels: Vec<&Record> = records.iter().filter(|record| record.step == Step::Kernel).collect();
        for (turn, record) in kernels.iter().enumerate() {
            let placing = placings[turn % 5];
            assert!(placing.has(record), "{} instead of {}", record.placement, placing.name());
            let name = if placing == Placing::Auto { record.placement.as_str() } else { placing.name() };
            assert!(record.placement == name && name.parse::<Placement>().is_ok());
            assert_eq!(record.why.is_some(), placing == Placing::Auto);
        }
        answers.extend(kernels.iter().map(|record| (record.kernel.clone(), record.answer.clone())));
        for record in records.iter().filter(|record| record.step == Step::Placement) {
            let edges = record.edges_per_node.as_ref().unwrap();
            assert_eq!((edges.len(), edges.iter().sum::<u64>()), (3, record.edges));
        }
    }
    assert_eq!(answers.len(), 2, "{answers:?}");
}

/// Fails when such a turn is left out, is told as another one, or has a plan of its own: then trials of one would all come before those of the other.
#[test]
fn a_graph_that_is_not_dealt_to_nodes_has_its_turns_among_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    let placings = [
        Placing::Whole(Whole::NoNodes),
        Placing::Fixed(Placement::RoundRobin),
        Placing::Whole(Whole::Local),
        Placing::Whole(Whole::Remote),
    ];
    let plan = Plan {
        nodes: NodesPlan { placings: placings.to_vec(), nodes: Some(2), ..NodesPlan::default() },
        layouts: vec![Layout::Csr, Layout::Pma],
        dealt: vec![Layout::Pma],
        media: vec![Media::Dram],
        ingest: false,
        kernels: vec![Kernel::Pagerank],
        ..plan("kron:10:8", dir.path().to_owned())
    };
    let records = records(&plan).unwrap();
    let kernels: Vec<&Record> = records.iter().filter(|record| record.step == Step::Kernel).collect();
    assert_eq!(kernels.len() as u64, plan.runs());
    let turns: Vec<_> =
        kernels.iter().map(|r| (r.layout.as_str(), r.placement.as_str(), r.nodes, r.bind.as_str())).collect();
    let once = [
        ("csr", "no-nodes", 1, "none"),
        ("pma", "no-nodes", 1, "none"),
        ("pma", "round-robin", 2, "round-robin"),
        ("pma", "local", 2, "local"),
        ("pma", "remote", 2, "remote"),
    ];
    // Two trials with one thread and two with two.
    assert_eq!(turns, once.repeat(4));
    for placing in placings {
        assert_eq!(kernels.iter().filter(|record| record.layout == "pma" && placing.has(record)).count(), 4);
    }
    assert_eq!(kernels.iter().map(|record| &record.answer).collect::<BTreeSet<_>>().len(), 1);
}

/// Fails when each turn has a placement of its own again, when placements share one, and when nothing or something else is told.
#[test]
fn a_placement_is_kept_while_updates_come_in_and_gives_up_what_a_node_has_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lopsided.el");
    // Four full units of 1,024 vertices and four with a fifth of their edges.
    let ring = (0..8192).map(|v| (v, (v + 1) % 8192));
    let full = (0..4096).flat_map(|v| [513, 1025, 1537, 2049].map(|far| (v, (v + far) % 4096)));
    let edges: String = ring.chain(full).map(|(from, to)| format!("{from} {to}\n")).collect();
    std::fs::write(&file, edges).unwrap();
    let placings = Placement::ALL.map(Placing::Fixed).to_vec();
    let whole = [Placing::Whole(Whole::Local)];
    let plan = Plan {
        shape: Some(Shape::GAP),
        nodes: NodesPlan { placings: [&placings[..], &whole].concat(), nodes: Some(2), ..NodesPlan::default() },
        threads: vec![2],
        trials: 3,
        kernels: vec![Kernel::Cc],
        ingest: false,
        churn: 0.0,
        stream: Some(50_000),
        ..plan(file.to_str().unwrap(), dir.path().to_owned())
    };
    let kernels = |plan: &Plan| -> Vec<Record> {
        records(plan).unwrap().into_iter().filter(|record| record.step == Step::Kernel).collect()
    };
    let found = kernels(&plan);
    assert_eq!(found.iter().map(|record| &record.answer).collect::<BTreeSet<_>>().len(), 1);
    for layout in Layout::ALL {
        for placing in &plan.nodes.placings {
            let its =
                |record: &&Record| record.layout == layout.name() && record.media == "dram" && placing.has(record);
            let units: Vec<Option<usize>> = found.iter().filter(its).map(|record| record.units_moved).collect();
            // The first half gives a full unit away; a second one would only change who has too much. By degree nodes begin with 20,480 and
            // 28,672 edges: two of the small units go.
            let expected = match placing {
                _ if !layout.is_dynamic() => [None; 3],
                Placing::Whole(_) => [None; 3],
                Placing::Fixed(Placement::Block) => [Some(0), Some(1), Some(0)],
                Placing::Fixed(Placement::Degree) => [Some(0), Some(2), Some(0)],
                _ => [Some(0); 3],
            };
            assert_eq!(units, expected, "{}, {}", layout.name(), placing.name());
        }
    }
    assert!(found.iter().all(|record| record.stretches_placed.is_some() == record.units_moved.is_some()));
    let one_node = Plan { nodes: NodesPlan { nodes: Some(1), ..NodesPlan::default() }, trials: 1, ..plan.clone() };
    assert!(kernels(&one_node).iter().all(|record| record.units_moved.is_none() && record.stretches_placed.is_none()));
    let still = Plan { stream: None, trials: 1, ..plan };
    assert!(kernels(&still).iter().all(|record| record.units_moved.is_none()));
}

/// Fails when it is made without being asked for, left on the disk, or not counted as runs.
#[test]
fn the_static_layout_is_on_persistent_memory_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let base = Plan {
        layouts: vec![Layout::Csr],
        ingest: false,
        threads: vec![1],
        kernels: vec![Kernel::Pagerank],
        ..plan("kron:8:8", dir.path().join("made"))
    };
    for (media, expected) in [(vec![Media::Dram, Media::Disk], vec!["dram"]), (vec![Media::Pmem], vec!["dram", "pmem"])]
    {
        let plan = Plan { media, ..base.clone() };
        let records = records(&plan).unwrap();
        let of =
            |step: Step| records.iter().filter(move |record| record.step == step).map(|record| record.media.as_str());
        assert_eq!(of(Step::Load).collect::<Vec<_>>(), expected);
        assert_eq!(of(Step::Kernel).collect::<Vec<_>>(), expected.repeat(2));
        assert_eq!(plan.runs(), 2 * expected.len() as u64);
        assert_eq!(records.iter().map(|record| &record.answer).collect::<BTreeSet<_>>().len(), 2, "none and one");
        let left = std::fs::read_dir(dir.path().join("made")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "its file goes");
    }
    // Nothing is left either of one that cannot be made, and the error says where.
    let file = dir.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let error = records(&Plan { dir: file, media: vec![Media::Pmem], ..base }).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn a_plan_may_say_what_is_made_of_the_edges_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("edges.el");
    std::fs::write(&file, "# Directed graph (each unordered pair of nodes is saved once)\n1 2\n2 1\n2 3\n3 3\n3 4\n")
        .unwrap();
    let stored = |shape: Option<Shape>| {
        let plan = Plan { shape, ingest: false, ..plan(file.to_str().unwrap(), dir.path().to_owned()) };
        records(&plan).unwrap()[0].edges
    };
    assert_eq!((stored(None), stored(Some(Shape::GAP)), stored(Some(Shape::UNDIRECTED))), (5, 6, 7));
}

#[test]
fn what_the_machine_cannot_do_stands_in_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let plan =
        |nodes: NodesPlan| Plan { nodes, ingest: false, threads: vec![1], ..plan("kron:5:4", dir.path().to_owned()) };
    // More than any machine has.
    let many = records(&plan(NodesPlan { nodes: Some(61), ..NodesPlan::default() })).unwrap();
    let last = many.last().unwrap();
    if !biombo_base::topology::Topology::detect().spread(61).unwrap().has_distance() {
        assert!(last.not_done.as_ref().is_some_and(|what| what.contains("61 nodes are virtual")), "{last:?}");
    }
    let one = records(&plan(NodesPlan { nodes: Some(1), ..NodesPlan::default() })).unwrap();
    assert!(one.iter().all(|record| record.not_done.is_none() && record.nodes == 1 && record.bind == "none"));
    for nodes in [
        NodesPlan { nodes: Some(0), ..NodesPlan::default() },
        NodesPlan { nodes: Some(65), ..NodesPlan::default() },
        NodesPlan { placings: Vec::new(), ..NodesPlan::default() },
        NodesPlan { bind: Some(Bind::Remote), allocation: Allocation::Interleave, ..NodesPlan::default() },
    ] {
        assert!(records(&plan(nodes.clone())).is_err(), "{nodes:?}");
    }
}

/// Fails when the batch is another one, and when a snapshot or a checkpoint is not taken or not told.
#[test]
fn ingest_by_single_edges_is_measured_and_what_comes_after_it_too() {
    let dir = tempfile::tempdir().unwrap();
    let plan =
        Plan { batch: 1, kernels: vec![Kernel::Cc], trials: 1, churn: 0.0, ..plan("kron:5:4", dir.path().to_owned()) };
    let records = records(&plan).unwrap();
    let ingest: Vec<&Record> = records.iter().filter(|record| record.step == Step::Ingest).collect();
    assert_eq!(ingest.len(), 2 * 3 * 3);
    for record in ingest {
        assert_eq!((record.batch, record.verified), (Some(1), Some(true)));
        assert!(record.snapshot_seconds > Some(0.0), "{record:?}");
        assert_eq!(record.batch_ns_max, None, "looking at a clock twice would be what is timed");
        assert_eq!(
            record.checkpoint_seconds.is_some_and(|seconds| seconds > 0.0),
            record.media != "dram",
            "{record:?}"
        );
    }
    let larger = self::records(&Plan { batch: 64, ..plan.clone() }).unwrap();
    for record in larger.iter().filter(|record| record.step == Step::Ingest) {
        let times = [record.batch_ns_p50, record.batch_ns_p99, record.batch_ns_max];
        assert!(times.is_sorted() && times[0] > Some(0), "{record:?}");
        assert!(times[2] <= Some((record.seconds * 1e9) as u64), "{record:?}");
    }
    assert!(super::run(&Plan { batch: 0, ..plan }, &mut |_| Ok(())).is_err());
}

#[test]
fn a_file_is_measured_in_its_order_and_what_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("edges.el");
    std::fs::write(&file, "# Directed graph\n5 9\n9 70\n70 5\n70 70\n4294967296 5\n").unwrap();
    let records = records(&plan(file.to_str().unwrap(), dir.path().to_owned())).unwrap();
    assert!(records.iter().all(|record| (record.vertices, record.edges) == (4, 5)));
    // What in-edges take is no part of the bytes of an edge, of graphs that have them.
    let is_told = |records: &[Record], is_directed: bool| {
        let mut of = records.iter().filter(|record| record.bytes_per_edge.is_some());
        of.clone().count() > 0 && of.all(|record| record.bytes_per_in_edge.is_some() == is_directed)
    };
    let directed = plan(file.to_str().unwrap(), dir.path().to_owned());
    let undirected = Plan { shape: Some(Shape::UNDIRECTED), ingest: false, ..directed };
    assert!(is_told(&records, true) && is_told(&super::tests::records(&undirected).unwrap(), false));
    for (graph, said) in [("kron:99:1", "scale 99"), ("kron:x", "is no graph"), ("no-such-file", "no-such-file")] {
        let error = super::run(&plan(graph, dir.path().to_owned()), &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let none = Plan { trials: 0, ..plan("kron:4:1", dir.path().to_owned()) };
    assert!(super::run(&none, &mut |_| Ok(())).is_err());
}

#[test]
fn memory_is_told_without_in_edges_and_those_apart() {
    let directed = Memory { bytes: 900, in_edges: Some(400) };
    assert_eq!(directed.per_edge(100), (Some(5.0), Some(4.0)));
    assert_eq!(Memory { in_edges: None, ..directed }.per_edge(100), (Some(9.0), None));
    assert_eq!(directed.per_edge(0), (None, None));
}

#[test]
fn another_answer_than_before_is_noticed() {
    let mut team = Team::new(1).unwrap();
    let edges = Edges::of("uniform:6:4", None, &mut team).unwrap();
    assert!(matches!(edges.edges, Held::Drawn(_)), "drawn edges are copied nowhere");
    let csr = |count: usize| Csr::build(edges.ids.len(), &edges.edges[..count], Shape::GAP, &mut Team::new(1).unwrap());
    let (whole, less) = (csr(edges.edges.len()).unwrap(), csr(edges.edges.len() / 2).unwrap());
    for kernel in [Kernel::Pagerank, Kernel::Bc, Kernel::Cc, Kernel::Bfs] {
        let mut answers = Answers::default();
        let answer = |view: &Csr, team: &mut Team| Answer::of(kernel, view, 1, team).unwrap();
        answers.check(kernel, &whole, 1, &answer(&whole, &mut team)).unwrap();
        answers.check(kernel, &whole, 1, &answer(&whole, &mut team)).unwrap();
        let other = answer(&less, &mut team);
        if kernel != Kernel::Cc {
            assert!(answers.check(kernel, &whole, 1, &other).is_err(), "{}", kernel.name());
            assert!(Answers::default().check(kernel, &whole, 1, &other).is_err(), "{}", kernel.name());
        }
    }
}
