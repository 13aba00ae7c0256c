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
        turn.fail(&Error::invalid("as planned"));
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
