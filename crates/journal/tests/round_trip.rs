//! Any sequence of appends, batches, syncs, trims and reopens gives back what was appended.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;

use biombo_base::io::sim::SimIo;
use biombo_journal::{Durability, JournalOptions, Lsn, Mode, Modes};
use common::{Model, open};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<usize>, Durability),
    Sync,
    Trim(u64),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let durability = prop_oneof![Just(Durability::Os), Just(Durability::Sync)];
    let size = prop_oneof![8 => 0..200usize, 3 => 3900..4300usize, 1 => 8000..30_000usize];
    prop_oneof![
        8 => (vec(size, 1..5), durability).prop_map(|(sizes, durability)| Step::Append(sizes, durability)),
        1 => Just(Step::Sync),
        1 => (0..10u64).prop_map(Step::Trim),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_appended_comes_back(
        steps in vec(step(), 0..60),
        segment_blocks in 2..8u64,
        recycle_segments_max in 0..3usize,
        buffered in any::<bool>(),
    ) {
        let mode = if buffered { Mode::Buffered } else { Mode::Direct };
        let options = JournalOptions { segment_bytes: segment_blocks * 4096, recycle_segments_max, modes: Modes::Always(mode), unsynced_segments_max: 0 };
        let sim = SimIo::new(1);
        biombo_base::io::Io::create_dir_all(&sim, std::path::Path::new("store")).unwrap();
        let mut model = Model::new();
        let (mut journal, _) = open(Arc::new(sim.clone()), &options).unwrap();
        for (number, step) in steps.into_iter().chain([Step::Reopen]).enumerate() {
            match step {
                Step::Append(sizes, durability) => {
                    let records: Vec<_> = sizes.iter().map(|size| vec![number as u8; *size]).collect();
                    let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
                    prop_assert_eq!(journal.append_batch(&slices, durability).unwrap(), Lsn(model.next()));
                    model.push(&records);
                    model.durable_now(0);
                }
                Step::Sync => journal.sync().unwrap(),
                Step::Trim(back) => {
                    let before = model.next().saturating_sub(back).max(1);
                    journal.trim(Lsn(before)).unwrap();
                    model.trimmed_now(0, before);
                }
                Step::Reopen => {
                    drop(journal);
                    let (again, seen) = open(Arc::new(sim.clone()), &options).unwrap();
                    prop_assert_eq!(model.check(0, true, &seen), Ok(()));
                    journal = again;
                }
            }
        }
    }
}
