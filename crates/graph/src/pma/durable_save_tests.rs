//! Saving a graph as a whole: aside, after failures and panics, beside batches that come in.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use biombo_base::io::sim::{EventInfo, Fault, FaultKind, SimIo, When};

use super::tests::{DIR, MODES, check, create, open, options, team};
use super::*;
use crate::pma::tests::model::Model;

#[test]
fn a_graph_saves_itself_aside_and_drops_what_it_has_saved() {
    let io = SimIo::new(1);
    create(&io, Shape::DIRECTED).unwrap();
    let options = DurableOptions { saves_aside: true, ..options(MODES[0], 4000) };
    let open = || Durable::open(Arc::new(io.clone()), Path::new(DIR), options.clone(), &mut team()).unwrap();
    let mut model = Model::new(Shape::DIRECTED);
    let graph = open();
    for batch in 0..400u64 {
        let updates: Vec<Update> = (0..10).map(|n| Update::InsertEdge(batch % 50, batch + n)).collect();
        graph.apply(&updates, Durability::Os).unwrap();
        model.apply(&updates);
        // Who brings batches waits once too much has come for the saver to keep up with.
        assert!(graph.logged_bytes() <= 4000 * (BEHIND_MAX + 2), "{} bytes at batch {batch}", graph.logged_bytes());
    }
    check(&graph, &model).unwrap();
    drop(graph);
    let graph = open();
    assert!(graph.logged_bytes() < 4000 * (BEHIND_MAX + 2), "{} bytes to replay", graph.logged_bytes());
    assert!(graph.inner.first > 1, "it was never saved: the first record has the number 1");
    check(&graph, &model).unwrap();
}

/// Fails when half a batch, which a panic has left in memory, is saved as a whole one, or when batches are recorded after it.
#[test]
fn after_a_panic_in_the_middle_of_a_batch_nothing_is_kept_and_reopening_gives_whole_batches() {
    let io = SimIo::new(1);
    create(&io, Shape::DIRECTED).unwrap();
    let (graph, mut model) = (open(&io, 1 << 20).unwrap(), Model::new(Shape::DIRECTED));
    let batches =
        [[Update::InsertEdge(0, 1), Update::InsertEdge(1, 2)], [Update::InsertEdge(2, 3), Update::InsertEdge(3, 4)]];
    graph.apply(&batches[0], Durability::Sync).unwrap();
    let inner = &graph.inner;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let number = inner.kept.append(record::encode(&batches[1]), Durability::Sync).unwrap();
        inner.turn.take(number, || {
            inner.graph.apply(&batches[1][..1]).unwrap();
            panic!("this panic is meant");
        })
    }));
    assert!(ended.is_err());
    let next = inner.kept.next();
    assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned);
    let error = graph.apply(&[Update::InsertEdge(8, 9)], Durability::Sync).unwrap_err();
    assert_eq!((error.kind(), inner.kept.next()), (ErrorKind::Poisoned, next));
    drop(graph);
    batches.iter().for_each(|batch| model.apply(batch));
    let graph = open(&io, 1 << 20).unwrap();
    check(&graph, &model).unwrap();
    graph.checkpoint().unwrap();
}

/// Fails when a save that begins in the middle of a batch does not wait for what becomes of that.
#[test]
fn a_save_that_sees_half_a_batch_hears_of_its_end() {
    let io = SimIo::new(1);
    create(&io, Shape::DIRECTED).unwrap();
    let graph = open(&io, 1 << 20).unwrap();
    let (inner, batch) = (&graph.inner, [Update::InsertEdge(0, 1), Update::InsertEdge(1, 2)]);
    let (began, begins) = std::sync::mpsc::channel();
    let take_half = || {
        let number = inner.kept.append(record::encode(&batch), Durability::Sync).unwrap();
        inner.turn.take(number, || {
            inner.graph.apply(&batch[..1]).unwrap();
            began.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            panic!("this panic is meant");
        })
    };
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(take_half)).is_err()));
        begins.recv().unwrap();
        assert_eq!(graph.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned);
    });
    drop(graph);
    assert_eq!(open(&io, 1 << 20).unwrap().neighbors(1), Some(vec![2]));
}

/// A fault of the first save from now on: an error, or a panic.
fn fail_once(io: &SimIo, panics: bool) {
    let strikes = AtomicBool::new(true);
    let matches = move |event: &EventInfo| {
        let is_it = event.label == "rename graph.pma.new -> graph.pma" && strikes.swap(false, Relaxed);
        assert!(!(is_it && panics), "this panic is meant");
        is_it
    };
    io.inject(Fault { when: When::Matches(Arc::new(matches)), kind: FaultKind::Eio, times: 1 });
}

/// Fails when a save that fails or panics is the last one, or is told to nobody.
#[test]
fn a_save_that_fails_is_told_and_tried_again() {
    for (saves_aside, panics) in [(true, false), (true, true), (false, false)] {
        let io = SimIo::new(1);
        create(&io, Shape::DIRECTED).unwrap();
        let options = DurableOptions { saves_aside, ..options(MODES[0], 4000) };
        let open = || Durable::open(Arc::new(io.clone()), Path::new(DIR), options.clone(), &mut team()).unwrap();
        let (graph, mut model) = (open(), Model::new(Shape::DIRECTED));
        fail_once(&io, panics);
        let mut bring_until = |fails: bool| {
            for batch in 0..400 {
                let updates: Vec<Update> = (0..10).map(|n| Update::InsertEdge(batch, batch + n)).collect();
                graph.apply(&updates, Durability::Os).unwrap();
                model.apply(&updates);
                graph.saver.iter().for_each(Saver::until_done);
                if graph.last_save_error().is_some() == fails {
                    return;
                }
            }
            panic!("aside: {saves_aside}, panics: {panics}: nothing was heard of a save, {fails}");
        };
        bring_until(true);
        let error = graph.last_save_error().unwrap().to_string();
        assert!(error.contains("could not be saved") && error.contains("panic") == panics, "{error}");
        let logged = graph.logged_bytes();
        assert!(logged >= 4000, "{logged} bytes are not saved");
        bring_until(false);
        assert!(graph.logged_bytes() < logged, "{} bytes of {logged}", graph.logged_bytes());
        drop(graph);
        let graph = open();
        assert!(graph.inner.first > 1, "it was never saved");
        check(&graph, &model).unwrap();
    }
}

/// Fails when a checkpoint leaves the next save as far away as a failure had put it, and when what is saved already is saved once more.
#[test]
fn after_a_checkpoint_the_next_save_is_due_as_if_none_had_failed() {
    let io = SimIo::new(1);
    create(&io, Shape::DIRECTED).unwrap();
    let graph = open(&io, 100).unwrap();
    fail_once(&io, false);
    let batch: Vec<Update> = (0..20).map(|n| Update::InsertEdge(n, n)).collect();
    graph.apply(&batch, Durability::Os).unwrap();
    assert!(graph.last_save_error().is_some() && graph.inner.save_at.load(Relaxed) > 200);
    graph.checkpoint().unwrap();
    assert!(graph.last_save_error().is_none());
    assert_eq!(graph.inner.save_at.load(Relaxed), 100);
    // Somebody found a save to be due before that.
    graph.inner.save_at.store(UNDER_WAY, Relaxed);
    let events = io.event_count();
    graph.inner.save_due();
    assert_eq!((io.event_count(), graph.inner.save_at.load(Relaxed)), (events, 100));
}
