//! What is tried: engines, numbers of partitions, placements and executors that the build and the machine allow.

use std::fmt;

use biombo_base::{Error, Result};
use biombo_engine::{Capabilities, Durability, Registry};
use biombo_store::Executor;
use serde::Serialize;

use super::{Question, Size, scale};
use crate::bench::Plan;
use crate::bench::plan::impossible;
use crate::spec::{Partitioning, Placement, RunSpec};
use crate::units::plural;
use crate::workload::OpKind;

/// Engines that are there to be compared with; they take part where they are named.
const FOR_COMPARISON: [&str; 5] =
    ["postgres", "micro-btree", "micro-lsm", "micro-btree-published", "micro-lsm-published"];
/// Partitions for each processor, where nobody says how many.
const PARTITIONS_PER_CORE: u32 = 4;

/// A store that could be advised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// The engine's name.
    pub engine: String,
    /// `none` or `hard`.
    pub partitioning: Partitioning,
    /// Into how many; 1 for `none`.
    pub partitions: u32,
    /// How keys find their partition.
    pub placement: Placement,
    /// The workers of the executor `pinned`; `None`: `direct`.
    pub workers: Option<u32>,
}

impl fmt::Display for Candidate {
    /// `log`, `log in 8 partitions by hash`, `log in 8 partitions by hash on 2 workers`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.engine)?;
        if self.partitioning != Partitioning::None {
            write!(f, " in {} partitions by {}", self.partitions, self.placement)?;
        }
        self.workers.map_or(Ok(()), |workers| write!(f, " on {}", plural(u64::from(workers), "worker")))
    }
}

impl Candidate {
    /// Who runs the writes of its partitions.
    pub fn executor(&self) -> Executor {
        self.workers.map_or(Executor::Direct, |workers| Executor::Pinned { workers })
    }

    /// The same with so many workers.
    pub(super) fn with(&self, workers: Option<u32>) -> Self {
        Self { workers, ..self.clone() }
    }

    /// Its trial of round `round`, from 1: what all candidates of a round have, they have alike.
    pub(super) fn trial(&self, question: &Question, size: Size, round: u32) -> Option<RunSpec> {
        let spec = self.plan(question, size, round).runs().pop()?;
        Some(RunSpec { repetition: round, ..spec })
    }

    fn plan(&self, question: &Question, size: Size, round: u32) -> Plan {
        Plan {
            engines: vec![self.engine.clone()],
            tasks: vec![question.task],
            records: question.trial_records(size),
            seconds: Some(size.seconds),
            threads: vec![question.threads],
            partitionings: vec![self.partitioning],
            // Who follows the advice opens a store, whole or divided: what that costs is in the figures of both.
            in_store: true,
            partitions: vec![self.partitions],
            placement: self.placement,
            executors: vec![self.executor()],
            durability: question.durability,
            key_bytes: vec![question.key_bytes],
            value_bytes: vec![question.value_bytes],
            cache_bytes: Some(scale::cache_bytes(question, size)),
            memory_bytes: scale::memory_bytes(question, size),
            seed: question.seed.wrapping_add(u64::from(round - 1)),
            traces: question.traces.clone(),
            dir: question.dir.clone(),
            ..Plan::default()
        }
    }
}

/// Something that could be tried and is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The engine.
    pub engine: String,
    /// Why.
    pub why: String,
}

/// A worker for each processor.
pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// The numbers of partitions that are tried where nobody names them: one, and some for each processor.
fn usual_partitions() -> Vec<u32> {
    vec![1, cores().saturating_mul(PARTITIONS_PER_CORE).min(biombo_store::PARTITIONS_MAX)]
}

/// All of them, and what is left out.
///
/// # Errors
/// `Unsupported` for a named engine that the build or the machine lacks; what every engine says against the question, where none can
/// be tried.
pub fn candidates(question: &Question, registry: &Registry) -> Result<(Vec<Candidate>, Vec<LeftOut>)> {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    let mut first_error = None;
    let mut engines: Vec<String> = question.engines.clone();
    if engines.is_empty() {
        let stores = registry.iter().filter(|kind| (kind.capabilities)().persistent && kind.is_installed());
        engines =
            stores.map(|kind| kind.name.to_owned()).filter(|name| !FOR_COMPARISON.contains(&name.as_str())).collect();
    }
    for engine in engines {
        let kind = registry.get(&engine)?;
        if !kind.is_installed() {
            return Err(Error::unsupported(format!(
                "the programs of {engine} are not installed: leave it out, or install them"
            )));
        }
        let can = (kind.capabilities)();
        let ordered = can.ordered;
        let mut leave_out = |error: Error| {
            if !left_out.iter().any(|known: &LeftOut| known.engine == engine) {
                left_out.push(LeftOut { engine: engine.clone(), why: error.to_string() });
            }
            first_error.get_or_insert(error);
        };
        if question.engines.is_empty()
            && let Some(why) = promises_less(&can, question.durability)
        {
            leave_out(Error::unsupported(format!("{why}; --engine tries it all the same")));
            continue;
        }
        let layouts = layouts(question, &engine, ordered);
        if layouts.is_empty() && !ordered {
            let why = format!("the engine {engine} keeps no order of keys, which a placement by range needs");
            leave_out(Error::unsupported(why));
        }
        for candidate in layouts {
            let plan = candidate.plan(question, Size { records: question.records, seconds: 1.0 }, 1);
            let refused = plan.check(registry).err().or_else(|| refusal(registry, plan.runs().first()?));
            match refused {
                None if !all.contains(&candidate) => all.push(candidate),
                None => {}
                Some(error) => leave_out(error),
            }
        }
    }
    match first_error {
        Some(error) if all.is_empty() => Err(error),
        None if all.is_empty() => {
            Err(Error::unsupported("this build has no engine that keeps data: name one with --engine"))
        }
        _ => Ok((all, left_out)),
    }
}

/// The engines that were named although they promise less than what is asked, and what.
pub(super) fn promising_less(question: &Question, registry: &Registry) -> Vec<LeftOut> {
    let less = |engine: &String| {
        let can = (registry.get(engine).ok()?.capabilities)();
        Some(LeftOut { engine: engine.clone(), why: promises_less(&can, question.durability)? })
    };
    question.engines.iter().filter_map(less).collect()
}

/// In what an engine does not keep what `durability` says.
fn promises_less(can: &Capabilities, durability: Durability) -> Option<String> {
    let (weakest, what) = match durability {
        Durability::Relaxed => return None,
        Durability::Os => (can.survives_kill, "the end of its process"),
        Durability::Sync => (can.survives_power_cut, "a power cut"),
    };
    weakest
        .is_none_or(|weakest| weakest > durability)
        .then(|| format!("it does not promise that writes at {durability} outlive {what}"))
}

/// Why the engine cannot do it, without the trial's own name.
fn refusal(registry: &Registry, spec: &RunSpec) -> Option<Error> {
    let error = impossible(registry, spec)?;
    let text = error.to_string();
    let why = text.strip_prefix(&spec.label()).and_then(|rest| rest.strip_prefix(": "));
    Some(why.map(Error::unsupported).unwrap_or(error))
}

/// The layouts of one engine. Ranges of keys mean nothing to an engine without order, executors nothing where nobody writes.
fn layouts(question: &Question, engine: &str, ordered: bool) -> Vec<Candidate> {
    let partitions = if question.partitions.is_empty() { usual_partitions() } else { question.partitions.clone() };
    let writes = OpKind::ALL.into_iter().any(|kind| kind.writes() && question.task.share(kind) > 0.0);
    let executors = if writes { &question.executors[..] } else { &[Executor::Direct] };
    let mut layouts = Vec::new();
    for partitions in partitions {
        let whole = Candidate {
            engine: engine.to_owned(),
            partitioning: Partitioning::None,
            partitions,
            placement: Placement::Hash,
            workers: None,
        };
        if partitions == 1 {
            layouts.push(whole);
            continue;
        }
        for &placement in question.placements.iter().filter(|placement| ordered || **placement == Placement::Hash) {
            layouts.extend(executors.iter().map(|executor| Candidate {
                partitioning: Partitioning::Hard,
                placement,
                // There are no more of them than partitions; that there are none of these is refused by their own name.
                workers: executor.workers().map(|workers| workers.min(partitions.max(1))),
                ..whole.clone()
            }));
        }
    }
    layouts
}

#[cfg(test)]
mod tests {
    use biombo_engine::registry::NOT_INSTALLED;
    use biombo_engine::{Capabilities, EngineKind, memory};

    use super::*;
    use crate::workload::Workload;

    /// As `log` does.
    fn keeps_all() -> Capabilities {
        let keeps = Some(Durability::Os);
        let memory = (memory::kind().capabilities)();
        Capabilities { persistent: true, survives_kill: keeps, survives_power_cut: keeps, ..memory }
    }

    fn registry() -> Registry {
        let mut registry = Registry::new();
        for name in ["log", "lmdb", "postgres", "micro-btree"] {
            registry.add(EngineKind { name, capabilities: keeps_all, ..memory::kind() });
        }
        let unordered = || Capabilities { ordered: false, ..keeps_all() };
        registry.add(EngineKind { name: "hash", capabilities: unordered, ..memory::kind() });
        registry.add(memory::kind());
        registry
    }

    fn labels(question: &Question) -> Vec<String> {
        candidates(question, &registry()).unwrap().0.iter().map(Candidate::to_string).collect()
    }

    fn question() -> Question {
        let executors = vec![Executor::Direct, Executor::Pinned { workers: 2 }];
        Question { partitions: vec![1, 8], executors, records: 1_000, ..Question::default() }
    }

    #[test]
    fn every_engine_that_keeps_data_is_tried_whole_and_in_parts() {
        let size = Size { records: 10, seconds: 0.2 };
        let tried = candidates(&question(), &registry()).unwrap().0;
        assert!(tried.iter().all(|one| one.trial(&question(), size, 1).unwrap().in_store), "not what is advised");
        let all = labels(&question());
        let log: Vec<_> = all.iter().filter(|label| label.starts_with("log")).collect();
        let (by_hash, by_range) = ("log in 8 partitions by hash", "log in 8 partitions by range");
        assert_eq!(
            log,
            ["log", by_hash, &format!("{by_hash} on 2 workers"), by_range, &format!("{by_range} on 2 workers")]
        );
        assert_eq!(all.len(), 5 + 5 + 3, "{all:?}");
        assert!(all.iter().all(|label| !["memory", "postgres", "micro"].iter().any(|name| label.starts_with(name))));
        let named = Question { engines: vec!["memory".into(), "postgres".into(), "memory".into()], ..question() };
        assert_eq!(labels(&named).len(), 10, "what is named takes part, once");
        let usual = labels(&Question { partitions: Vec::new(), placements: vec![Placement::Hash], ..question() });
        assert_eq!(usual.len(), 9, "{usual:?}");
    }

    #[test]
    fn what_an_engine_cannot_do_is_left_out_with_its_reason() {
        let scans = Question { task: Workload::E.into(), ..question() };
        let (all, left_out) = candidates(&scans, &registry()).unwrap();
        assert!(all.iter().all(|candidate| candidate.engine != "hash"));
        assert!(left_out.len() == 1 && left_out[0].why.contains("order"), "{left_out:?}");
        let alone = Question { engines: vec!["hash".into()], ..scans };
        assert!(candidates(&alone, &registry()).unwrap_err().to_string().contains("order"));
        // No layout of it is left: neither does it vanish, nor is the build said to have no engine.
        let ranges = Question { placements: vec![Placement::Range], partitions: vec![8], ..question() };
        let (all, left_out) = candidates(&ranges, &registry()).unwrap();
        assert!(all.iter().all(|candidate| candidate.engine != "hash"));
        assert!(left_out.iter().any(|out| out.engine == "hash" && out.why.contains("range")), "{left_out:?}");
        let alone = Question { engines: vec!["hash".into()], ..ranges };
        assert!(candidates(&alone, &registry()).unwrap_err().to_string().contains("placement by range"));
    }

    #[test]
    fn an_engine_that_promises_less_than_is_asked_takes_part_where_it_is_named() {
        let mut registry = registry();
        let cut = || Capabilities { survives_power_cut: Some(Durability::Sync), ..keeps_all() };
        registry.add(EngineKind { name: "lmdb", capabilities: cut, ..memory::kind() });
        let forgets = || Capabilities { survives_kill: None, survives_power_cut: None, ..keeps_all() };
        registry.add(EngineKind { name: "hash", capabilities: forgets, ..memory::kind() });
        let tried = |durability, engines: &[&str]| {
            let engines = engines.iter().map(|name| (*name).to_owned()).collect();
            let question = Question { durability, engines, ..question() };
            let (all, left_out) = candidates(&question, &registry).unwrap();
            let has = |name: &str| all.iter().any(|candidate| candidate.engine == name);
            ((has("lmdb"), has("hash")), left_out, promising_less(&question, &registry))
        };
        for (durability, what) in [(Durability::Sync, "a power cut"), (Durability::Os, "the end of its process")] {
            let (has, left_out, less) = tried(durability, &[]);
            assert!(has == (true, false) && less.is_empty(), "{durability}: {left_out:?}");
            assert!(left_out.len() == 1 && left_out[0].why.contains(what), "{left_out:?}");
            let (has, left_out, less) = tried(durability, &["lmdb", "hash"]);
            assert!(has == (true, true) && left_out.is_empty(), "{left_out:?}");
            assert!(less.len() == 1 && less[0].engine == "hash" && less[0].why.contains(what), "{less:?}");
        }
        assert_eq!(tried(Durability::Relaxed, &[]).0, (true, true), "nothing is promised there");
    }

    #[test]
    fn executors_are_tried_where_there_are_partitions_and_somebody_writes() {
        let of = |question: Question| labels(&Question { engines: vec!["log".into()], ..question });
        let reads = of(Question { task: Workload::C.into(), ..question() });
        assert!(reads.len() == 3 && reads.iter().all(|label| !label.contains("worker")), "{reads:?}");
        assert_eq!(of(Question { partitions: vec![1], ..question() }), ["log"]);
        let alone = Question { executors: vec![Executor::Pinned { workers: 9 }], partitions: vec![1, 4], ..question() };
        assert_eq!(
            of(alone.clone()),
            ["log", "log in 4 partitions by hash on 4 workers", "log in 4 partitions by range on 4 workers"]
        );
        let (all, _) = candidates(&Question { engines: vec!["log".into()], ..alone }, &registry()).unwrap();
        let trial = all[1].trial(&question(), Size { records: 5, seconds: 0.2 }, 1).unwrap();
        assert_eq!((trial.workers, trial.executor()), (Some(4), Executor::Pinned { workers: 4 }));
        let none = Question { executors: vec![Executor::Pinned { workers: 0 }], ..question() };
        assert!(candidates(&none, &registry()).unwrap().1[0].why.contains("--workers"), "only whole stores are left");
    }

    #[test]
    fn bad_questions_are_refused_by_name() {
        let refuse = |question: Question, says: &str| {
            let error = candidates(&question, &registry()).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        };
        refuse(Question { engines: vec!["nosuch".into()], ..question() }, "nosuch");
        refuse(Question { threads: 0, ..question() }, "--threads");
        refuse(Question { partitions: vec![0], ..question() }, "--partitions");
        let pinned = vec![Executor::Pinned { workers: 2 }];
        refuse(Question { partitions: vec![0], executors: pinned, ..question() }, "--partitions");
        refuse(Question { key_bytes: 2, ..question() }, "--key-bytes");
        refuse(Question { records: 0, ..question() }, "--records");
        let mut without = registry();
        without.add(EngineKind { version: || NOT_INSTALLED.to_owned(), name: "log", ..memory::kind() });
        let named = Question { engines: vec!["log".into()], ..question() };
        assert!(candidates(&named, &without).unwrap_err().to_string().contains("not installed"));
        assert!(candidates(&question(), &Registry::new()).unwrap_err().to_string().contains("keeps data"));
    }

    #[test]
    fn a_round_has_one_seed_for_all_and_the_next_another() {
        let question = question();
        let (all, _) = candidates(&question, &registry()).unwrap();
        let size = Size { records: 500, seconds: 0.2 };
        for candidate in &all {
            let (first, second) =
                (candidate.trial(&question, size, 1).unwrap(), candidate.trial(&question, size, 2).unwrap());
            assert_eq!((first.seed, second.seed, first.repetition, second.repetition), (1, 2, 1, 2));
            assert_eq!((first.records, first.seconds, first.partitions), (500, Some(0.2), candidate.partitions));
        }
    }

    #[test]
    fn a_trial_of_a_tenth_has_a_tenth_of_the_caches_and_the_whole_has_all() {
        let (cache_bytes, memory_bytes) = (Some(1 << 30), Some(4 << 30));
        let question = Question { records: 10_000_000, cache_bytes, memory_bytes, limits_memory: true, ..question() };
        let (all, _) = candidates(&question, &registry()).unwrap();
        let trial = |records| all[0].trial(&question, Size { records, seconds: 0.2 }, 1).unwrap();
        assert_eq!(trial(1_000_000).cache_bytes, (1 << 30) / 10);
        assert!(trial(1_000_000).memory_bytes.is_some_and(|limit| limit < 1 << 30));
        assert_eq!((trial(10_000_000).cache_bytes, trial(10_000_000).memory_bytes), (1 << 30, None));
    }
}
