//! The log of edges is archived beside those who log on, and no edge is lost or comes to another vertex by that.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

/// Long enough for what must come, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// For what must not come before somebody else is done.
const NEVER: Duration = Duration::from_millis(200);

fn eager() -> (Changing<adjacency::Section>, Model) {
    loaded(3000, &[[0, 1]], Shape::DIRECTED, Tuning::EAGER)
}

/// Fails for sorting the log under the gate, for a batch that waits for who archives, and for a log that grows without a bound.
#[test]
fn batches_come_in_while_somebody_archives_until_the_log_is_far_too_long() {
    let (graph, mut model) = eager();
    let batch = |number: u64| (0..5).map(|n| Update::InsertEdge(number, 100 * n + number)).collect::<Vec<_>>();
    let (told, heard) = channel();
    std::thread::scope(|scope| {
        let archiving = graph.archiving();
        scope.spawn(|| (0..20).for_each(|number| told.send(graph.apply(&batch(number)).unwrap()).unwrap()));
        // Seven edges are due, and more than four times as many too many.
        for sequence in 1..=5 {
            assert_eq!(heard.recv_timeout(SOON), Ok(sequence), "a batch waits for who archives");
        }
        assert!(heard.recv_timeout(NEVER).is_err(), "nobody waits for who archives");
        drop(archiving);
        (6..=20).for_each(|sequence| assert_eq!(heard.recv_timeout(SOON), Ok(sequence)));
    });
    assert!(!graph.gate().log.is_due(), "nobody archived the log");
    (0..20).for_each(|number| model.apply(&batch(number)));
    model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
}

/// Fails for a vertex that goes while edges with its number, or with that of the one that gets it, are in somebody's hands.
#[test]
fn a_vertex_goes_only_when_nobody_has_edges_in_hand() {
    let (graph, mut model) = eager();
    let logged = [Update::InsertEdge(7, 8), Update::InsertEdge(2999, 4), Update::InsertEdge(3, 2999)];
    let last = [Update::InsertEdge(9, 7), Update::DeleteVertex(7)];
    graph.apply(&logged).unwrap();
    let (told, heard) = channel();
    std::thread::scope(|scope| {
        let archiving = graph.archiving();
        let edges = graph.gate().log.take();
        assert_eq!(edges.len(), logged.len());
        scope.spawn(|| told.send(graph.apply(&last).unwrap()).unwrap());
        assert!(heard.recv_timeout(NEVER).is_err(), "a vertex went");
        graph.bring(&edges, &mut Due::default());
        drop(archiving);
        assert_eq!(heard.recv_timeout(SOON), Ok(2));
    });
    [&logged[..], &last[..]].into_iter().for_each(|batch| model.apply(batch));
    model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
}

/// Fails for an edge that is not looked for in the log, or not brought in before a snapshot is cut.
#[test]
fn who_looks_sees_what_was_logged_and_leaves_the_log_empty() {
    let (graph, mut model) = eager();
    for (number, id) in [5, 6, 5].into_iter().enumerate() {
        let batch = [Update::InsertEdge(id, 50 + number as u64), Update::DeleteEdge(0, 1)];
        graph.apply(&batch).unwrap();
        model.apply(&batch);
        assert!(graph.gate().log.memory_bytes() > 0, "two edges are not archived at once");
        if number == 1 {
            model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
        } else {
            model.check_vertex(&graph, id).unwrap();
        }
        assert!(graph.gate().log.take().is_empty());
    }
}
