//! What a trial that is smaller than the question has of the caches and of the memory: its share, so that what will be read from a device
//! is not measured in memory.
//!
//! 1. The caches of a store are scaled by the records of the trial by those that are asked about (of a trace, by the different keys that its
//!    beginning names and all of it), down to a size that engines can work with.
//! 2. The memory, the kernel's cache of files included, is scaled likewise where the data are more than the memory and this process may limit
//!    its trials (a control group); what a process needs for itself comes on top.
//! 3. What could not be scaled far enough is told ([`sentences`]).

use super::{Question, Size};
use crate::bench::Plan;
use crate::units::bytes;
use crate::workload::Task;

/// The smallest caches of a trial's store: engines have floors of their own, some for each partition.
const CACHE_BYTES_MIN: u64 = 4 << 20;
/// What a trial's process needs beside its data: the program, its histograms, the engines' own structures.
const PROCESS_BYTES: u64 = 64 << 20;

impl Question {
    /// Bytes of keys and values that are asked about.
    pub fn data_bytes(&self) -> u64 {
        self.keys.unwrap_or(self.records).saturating_mul(self.record_bytes())
    }

    /// The records that a trial of such a size has: of a trace, the different keys that it names.
    pub(super) fn trial_records(&self, size: Size) -> u64 {
        match self.task {
            Task::Trace { counts } => counts.keys,
            _ => size.records,
        }
    }

    fn record_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }

    /// All caches of the store that is asked about.
    pub(super) fn cache_bytes(&self) -> u64 {
        Plan { cache_bytes: self.cache_bytes, ..Plan::default() }.cache_bytes()
    }
}

/// The part of `all` that a trial of such a size has.
fn share(all: u64, question: &Question, size: Size) -> u64 {
    let share = question.trial_records(size) as f64 / question.keys.unwrap_or(question.records).max(1) as f64;
    if share < 1.0 { (all as f64 * share) as u64 } else { all }
}

/// The caches of a trial's store.
pub(super) fn cache_bytes(question: &Question, size: Size) -> u64 {
    let all = question.cache_bytes();
    share(all, question, size).max(CACHE_BYTES_MIN).min(all)
}

/// The limit on the memory of a trial; `None`: it needs none, or it cannot be limited.
pub(super) fn memory_bytes(question: &Question, size: Size) -> Option<u64> {
    let memory = question.memory_bytes.filter(|memory| question.data_bytes() > *memory && question.limits_memory)?;
    Some(share(memory, question, size).saturating_add(PROCESS_BYTES)).filter(|limit| *limit < memory)
}

/// What a trial of such a size had of caches and memory, and a warning where it worked in memory and the store will not; of a trace, the question
/// is that about the trial's beginning of it.
pub(super) fn sentences(question: &Question, size: Size) -> Vec<String> {
    if size.records >= question.records {
        return Vec::new();
    }
    let text = |figure: u64| bytes(figure as f64);
    let (data, of_trial) =
        (question.data_bytes(), question.trial_records(size).saturating_mul(question.record_bytes()));
    let (cache, trial_cache) = (question.cache_bytes(), cache_bytes(question, size));
    let (memory, limit) = (question.memory_bytes.filter(|memory| data > *memory), memory_bytes(question, size));
    let limited = limit.map_or(String::new(), |limit| format!(", and {} of memory", text(limit)));
    let mut said = vec![format!(
        "A store of a trial had its share of the caches, {} of {}{limited}.",
        text(trial_cache),
        text(cache)
    )];
    let mut exceeded = Vec::new();
    if data > cache && of_trial <= trial_cache {
        exceeded.push(format!("the caches ({})", text(cache)));
    }
    if let Some(memory) = memory.filter(|memory| of_trial <= limit.unwrap_or(*memory)) {
        exceeded.push(format!("the memory ({})", text(memory)));
    }
    if !exceeded.is_empty() {
        let hint = if memory.is_some() && !question.limits_memory {
            "Trials that may be limited to their share of the memory (as root) and a longer --budget come closer to it."
        } else {
            "A longer --budget comes closer to it."
        };
        said.push(format!(
            "Take care: the {} that are asked about are more than {}, and the {} of a trial were not: what will be read from the device was \
             read from memory. {hint}",
            text(data),
            exceeded.join(" and "),
            text(of_trial)
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::trace::Counts;

    /// 100 million records of 1,016 bytes under 2 GiB of cache and 8 GiB of memory.
    fn large() -> Question {
        let (cache_bytes, memory_bytes) = (Some(2 << 30), Some(8 << 30));
        Question { records: 100_000_000, cache_bytes, memory_bytes, limits_memory: true, ..Question::default() }
    }

    fn of(records: u64) -> Size {
        Size { records, seconds: 0.5 }
    }

    #[test]
    fn a_trial_has_its_share_of_the_caches_and_of_the_memory_and_all_of_them_where_it_is_whole() {
        let question = large();
        assert_eq!(cache_bytes(&question, of(10_000_000)), (2 << 30) / 10);
        assert_eq!(memory_bytes(&question, of(10_000_000)), Some((8 << 30) / 10 + PROCESS_BYTES));
        assert_eq!(cache_bytes(&question, of(1_000)), CACHE_BYTES_MIN, "down to what engines can work with");
        assert_eq!(memory_bytes(&question, of(1_000)).map(|limit| limit >> 20), Some(PROCESS_BYTES >> 20));
        for records in [100_000_000, 200_000_000] {
            assert_eq!((cache_bytes(&question, of(records)), memory_bytes(&question, of(records))), (2 << 30, None));
        }
        let small = Question { cache_bytes: Some(1 << 20), ..large() };
        assert_eq!(cache_bytes(&small, of(1_000)), 1 << 20, "never more than is asked about");
        // Data that fit the memory stay in it, in a trial and later; and who may not limit does not.
        assert_eq!(memory_bytes(&Question { records: 1_000_000, ..large() }, of(1_000)), None);
        assert_eq!(memory_bytes(&Question { limits_memory: false, ..large() }, of(1_000)), None);
    }

    #[test]
    fn it_is_told_where_a_trial_worked_in_memory_and_the_store_will_not() {
        let said = |question: &Question, records| sentences(question, of(records)).join(" ");
        let tiny = said(&large(), 2_000);
        assert!(
            tiny.contains("102 GB") && tiny.contains("more than the caches (2.15 GB) and the memory (8.59 GB)"),
            "{tiny}"
        );
        assert!(tiny.contains("2.03 MB of a trial were not"), "{tiny}");
        let scaled = said(&large(), 10_000_000);
        assert!(
            scaled.contains("215 MB of 2.15 GB, and 926 MB of memory") && !scaled.contains("Take care"),
            "{scaled}"
        );
        let free = said(&Question { limits_memory: false, ..large() }, 1_000_000);
        assert!(free.contains("more than the memory (8.59 GB), and") && free.contains("as root"), "{free}");
        let fits = said(&Question { records: 1_000_000, ..large() }, 10_000);
        assert!(!fits.contains("Take care"), "{fits}");
        assert_eq!(said(&large(), 100_000_000), "");
    }

    /// Fails if the operations of a trace are taken for its data: ten million of them over a hundred thousand keys fit in memory.
    #[test]
    fn a_trace_has_as_much_data_as_it_names_different_keys() {
        let counts = |operations, keys| Counts { reads: operations, keys, ..Counts::default() };
        let of = |operations, keys| Question {
            task: Task::Trace { counts: counts(operations, keys) },
            records: 10_000_000,
            keys: Some(100_000),
            ..large()
        };
        let whole = of(10_000_000, 100_000);
        assert_eq!(whole.data_bytes(), 101_600_000);
        let whole_size = Size { records: 10_000_000, seconds: 0.5 };
        assert_eq!((cache_bytes(&whole, whole_size), memory_bytes(&whole, whole_size)), (2 << 30, None));
        // A tenth of the operations names most of the keys already.
        let (beginning, size) = (of(1_000_000, 75_000), Size { records: 1_000_000, seconds: 0.5 });
        assert_eq!((cache_bytes(&beginning, size), beginning.trial_records(size)), ((2 << 30) / 4 * 3, 75_000));
        assert!(!sentences(&beginning, size).join(" ").contains("Take care"));
    }
}
