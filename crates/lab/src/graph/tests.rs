use std::collections::BTreeSet;

use super::*;

fn plan(graph: &str, dir: PathBuf) -> Plan {
    Plan {
        graph: graph.to_owned(),
        layouts: vec![Layout::Csr, Layout::Pma],
        media: vec![Media::Dram, Media::Disk, Media::Pmem],
        kernels: Kernel::ALL.to_vec(),
        threads: vec![1, 2],
        trials: 2,
        ingest: true,
        churn: 0.1,
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
    let records = records(&plan("kron:10:8", dir.path().to_owned())).unwrap();
    // For each number of threads: three media, two loads, a churn, five kernels twice over two layouts.
    assert_eq!(records.len(), 2 * (3 + 2 + 1 + 5 * 2 * 2));
    for kernel in Kernel::ALL {
        let of: Vec<&Record> = records.iter().filter(|record| record.kernel == Some(kernel.name())).collect();
        assert_eq!(of.iter().map(|record| &record.answer).collect::<BTreeSet<_>>().len(), 1, "{}", kernel.name());
        let layouts: Vec<&str> = of.iter().map(|record| record.layout).collect();
        assert_eq!(layouts, ["csr", "pma"].repeat(4), "in turns");
        assert!(of.iter().all(|record| record.verified == Some(true) && record.seconds > 0.0));
    }
    let ingest: Vec<&Record> = records.iter().filter(|record| record.step == Step::Ingest).collect();
    let media = ["dram", "disk", "pmem"].repeat(2);
    assert_eq!(ingest.iter().map(|record| record.media).collect::<Vec<_>>(), media);
    assert!(ingest.iter().all(|record| record.edges_per_s > Some(0.0) && record.bytes_per_edge > Some(4.0)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "graphs on disk are removed");
}

#[test]
fn a_file_is_measured_in_its_order_and_what_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("edges.el");
    std::fs::write(&file, "# Directed graph\n5 9\n9 70\n70 5\n70 70\n4294967296 5\n").unwrap();
    let records = records(&plan(file.to_str().unwrap(), dir.path().to_owned())).unwrap();
    assert!(records.iter().all(|record| (record.vertices, record.edges) == (4, 5)));
    for (graph, said) in [("kron:99:1", "scale 99"), ("kron:x", "is no graph"), ("no-such-file", "no-such-file")] {
        let error = super::run(&plan(graph, dir.path().to_owned()), &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let none = Plan { trials: 0, ..plan("kron:4:1", dir.path().to_owned()) };
    assert!(super::run(&none, &mut |_| Ok(())).is_err());
}

#[test]
fn another_answer_than_before_is_noticed() {
    let mut team = Team::new(1).unwrap();
    let edges = Edges::of("uniform:6:4", &mut team).unwrap();
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
