//! Random sequences of operations against the model, with failing cases shrunk and their seeds kept.

use std::cell::Cell;
use std::time::Instant;

use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};

use super::sequence::{Profile, cases, run};
use super::subject::Subject;

/// Writes of all kinds and point reads.
pub fn check_random_operations(subject: &Subject) {
    campaign(subject, Profile::Operations);
}

/// Cursors walking, turning and seeking over what was written.
pub fn check_random_cursor_walks(subject: &Subject) {
    if subject.capabilities.ordered {
        campaign(subject, Profile::Walks);
    }
}

/// Snapshots and cursors held across writes, each compared with the model of its time.
pub fn check_random_snapshots(subject: &Subject) {
    if subject.capabilities.snapshots {
        campaign(subject, Profile::Snapshots);
    }
}

/// Closing and opening at any point.
pub fn check_random_reopens(subject: &Subject) {
    campaign(subject, Profile::Reopens);
}

fn campaign(subject: &Subject, profile: Profile) {
    subject.bounded(move |subject| {
        let mut config = Config { max_shrink_time: 30_000, max_shrink_iters: 5_000, ..Config::default() };
        if std::env::var_os("PROPTEST_CASES").is_none() {
            config.cases = u32::MAX;
        }
        config.failure_persistence = subject.regressions.as_ref().map(|dir| {
            let file = dir.join(format!("{}-{profile:?}.txt", subject.name).to_lowercase());
            // The library takes only a static path; one leak per check of a test process.
            let file: &'static str = Box::leak(file.to_string_lossy().into_owned().into_boxed_str());
            Box::new(FileFailurePersistence::Direct(file)) as _
        });
        let deadline = (config.cases == u32::MAX).then(|| Instant::now() + subject.campaign());
        let (failed, ran) = (Cell::new(false), Cell::new(0u64));
        let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        // Cases are counted by the library, time is not: past the deadline the loop below is left between chunks.
        let total = std::mem::replace(&mut config.cases, 0);
        while !late() && ran.get() < u64::from(total) {
            config.cases = total.min(16);
            let outcome = TestRunner::new(config.clone()).run(&cases(subject, profile), |case| {
                if late() && !failed.get() && ran.get() > 0 {
                    return Ok(());
                }
                ran.set(ran.get() + 1);
                run(subject, &case).map_err(|difference| {
                    failed.set(true);
                    TestCaseError::fail(difference)
                })
            });
            match outcome {
                Ok(()) => {}
                Err(TestError::Abort(why)) => panic!("{}: {profile:?}: given up: {why}", subject.name),
                Err(TestError::Fail(why, case)) => panic!("{}: {profile:?}: {why}\nby {case:#?}", subject.name),
            }
        }
        println!("{}: {profile:?}: {} random cases", subject.name, ran.get());
    });
}
