//! Batches in the order of their records, whoever brings them, and none after one that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use biombo_base::{Error, ErrorKind};

use crate::pma::turn::Turn;

#[test]
fn batches_pass_in_the_order_of_their_records_and_none_after_a_failure() {
    let turn = Turn::from(1);
    let passed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in (1..=20).rev() {
            let (turn, passed) = (&turn, &passed);
            scope.spawn(move || turn.take(number, || passed.lock().unwrap().push(number)).unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(passed.into_inner().unwrap().into_iter().eq(1..=20));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| turn.take(22, || ()));
        std::thread::sleep(Duration::from_millis(5));
        turn.fail(Error::invalid("as planned"));
        assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
    });
}

#[test]
fn after_one_that_ends_in_the_middle_nobody_waits_for_ever() {
    let turn = Turn::from(0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| turn.take(1, || ()));
        assert!(catch_unwind(AssertUnwindSafe(|| turn.take(0, || panic!("in the middle")))).is_err());
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
    });
    assert!(turn.take(2, || ()).is_err());
}

/// Fails when a batch that ends before its turn leaves others waiting for it, or when who asks is not told.
#[test]
fn after_one_that_ends_before_its_turn_nobody_waits_for_ever() {
    let turn = Turn::from(0);
    let passed = turn.through(|| turn.take(0, || 7));
    assert_eq!((passed.unwrap(), turn.check().is_ok(), turn.settle().is_ok()), (7, true, true));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| turn.through(|| turn.take(2, || ())));
        assert!(catch_unwind(AssertUnwindSafe(|| turn.through(|| panic!("before its turn")))).is_err());
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
    });
    for said in [turn.check(), turn.settle()] {
        assert_eq!(said.unwrap_err().kind(), ErrorKind::Poisoned);
    }
}

/// Fails when who settles does not wait for one that is at work, and that ends in the middle.
#[test]
fn who_settles_waits_for_who_is_at_work() {
    let turn = Turn::from(0);
    let (began, begins) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let turn = &turn;
        scope.spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                turn.take(0, || {
                    began.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                    panic!("in the middle");
                })
            }));
            assert!(ended.is_err());
        });
        begins.recv().unwrap();
        assert_eq!(turn.settle().unwrap_err().kind(), ErrorKind::Poisoned);
    });
}
