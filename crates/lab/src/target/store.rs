//! A store over an engine: the layouts `soft` and `hard`.

use std::path::Path;

use biombo_base::Result;
use biombo_engine::{Batch, Compaction, CompactionTail, Durability, IndexFigures, Registry, Segments, Stats};
use biombo_store::{Options, PlanReport, Range, Scan, Store};

use super::{Carried, Moved, Target, Walk, consume};
use crate::record::Moves;
use crate::spec::{Placement, RunSpec};
use crate::workload::Keys;
use crate::workload::trace::Reader;

/// Keys from which the boundaries of a `range` placement are taken: those of the first records to be loaded, or of a trace's first lines.
const SAMPLE_RECORDS: u64 = 10_000;

/// A store.
pub struct StoreTarget {
    store: Store,
    durability: Durability,
    /// Whether it repartitions itself.
    plans: bool,
}

impl StoreTarget {
    /// Create the store that `spec` asks for within its directory.
    pub fn open(registry: &Registry, spec: &RunSpec, keys: &Keys) -> Result<Self> {
        let durability = spec.durability.parse()?;
        let mut options = Options::new()
            .engine(&spec.engine)
            .partitions(spec.partitions)
            .partitioning(spec.partitioning.into())
            .placement(spec.placement.into())
            .cache_bytes(spec.cache_bytes)
            .durability(durability)
            .executor(spec.executor())
            .value_bytes(spec.value_bytes)
            .create_new(true);
        if let Some(bound) = spec.space_amplification {
            options = options.space_amplification(bound);
        }
        if let Some(io) = spec.io()? {
            options = options.io_mode(io);
        }
        if spec.placement == Placement::Range {
            options = options.range_sample(sample(spec, keys)?);
        }
        if let Some(every) = &spec.repartition {
            options = options.repartition(every.parse()?);
        }
        if let Some(planner) = &spec.planner {
            options = options.planner(planner);
        }
        if !spec.dirs.is_empty() {
            options = options.dirs([&spec.dir].into_iter().chain(&spec.dirs).cloned().collect());
        }
        let store = options.open(spec.dir.join(Path::new("store")), registry)?;
        Ok(Self { store, durability, plans: spec.repartition.is_some() })
    }
}

fn sample(spec: &RunSpec, keys: &Keys) -> Result<Vec<Vec<u8>>> {
    if let Some(first) = spec.traces.first() {
        let mut reader = Reader::open(first)?;
        let mut sample = Vec::new();
        while let Some(line) = reader.line()?.filter(|_| (sample.len() as u64) < SAMPLE_RECORDS) {
            sample.push(line.key.to_vec());
        }
        return Ok(sample);
    }
    let key = |place| {
        let mut key = Vec::new();
        keys.write(keys.loaded(place), &mut key);
        key
    };
    Ok((0..spec.records.min(SAMPLE_RECORDS)).map(key).collect())
}

impl Target for StoreTarget {
    #[inline]
    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.store.get_into(key, into)
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.put_with(key, value, self.durability)
    }

    fn load(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.put_with(key, value, Durability::Os)
    }

    fn read_group(&self, keys: &[Vec<u8>], into: &mut Vec<u8>) -> Result<u32> {
        into.clear();
        let mut found = 0;
        for value in self.store.multi_get(keys)?.into_iter().flatten() {
            into.extend_from_slice(&value);
            found += 1;
        }
        Ok(found)
    }

    fn write_group(&self, batch: &Batch) -> Result<()> {
        self.store.write_with(batch, self.durability)
    }

    fn partitions(&self) -> u32 {
        self.store.partitions()
    }

    fn partition_of(&self, key: &[u8]) -> u32 {
        u32::from(self.store.route(key).0)
    }

    fn scan(&self, from: &[u8], limit: u32, into: &mut Vec<u8>) -> Result<u32> {
        let mut scan = self.store.scan(Range { limit: Some(u64::from(limit)), ..Range::from(from) })?;
        let mut count = 0;
        while let Some((key, value)) = scan.next()? {
            consume(key, value, into);
            count += 1;
        }
        Ok(count)
    }

    fn walk(&self) -> Result<Box<dyn Walk>> {
        Ok(Box::new(self.store.scan(Range::all())?))
    }

    fn flush(&self) -> Result<()> {
        self.store.flush()
    }

    fn written_back(&self) {
        self.store.written_back();
    }

    fn stats(&self) -> Result<Stats> {
        let store = self.store.stats()?;
        Ok(Stats {
            keys: store.keys,
            keys_estimated: store.keys_estimated,
            written_bytes: store.written_bytes(),
            ..together(&store.instances)
        })
    }

    fn counters(&self) -> Result<Stats> {
        let instances = together(&self.store.instance_stats()?);
        let journals = self.store.journal_write_bytes();
        Ok(Stats { written_bytes: instances.written_bytes.map(|bytes| bytes + journals), ..instances })
    }

    fn moved(&self) -> Result<Moved> {
        if !self.plans {
            return Ok(Moved::default());
        }
        let (moves, plans) = (self.store.stats()?.moves, self.store.plans()?);
        let say = |plan: PlanReport| {
            let moved = format!("{} {}, {:.2} MB", plan.units, plan.level.name(), plan.bytes as f64 / 1e6);
            let predicted_ms = plan.predicted_ns_per_s / 1e6;
            Carried {
                begun_ns: plan.at_ns,
                ended_ns: plan.at_ns + plan.took_ns,
                plan: format!("{}: {moved}, predicted {predicted_ms:.1} ms a second", plan.why),
                moved: format!("{moved} moved in {:.0} ms", plan.took_ns as f64 / 1e6),
            }
        };
        Ok(Moved {
            moves: Moves { plans: moves.plans, units: moves.units, bytes: moves.bytes },
            planner: Some(self.store.planner().to_owned()),
            planning_seconds: moves.planning_ns as f64 / 1e9,
            plans: plans.last.into_iter().filter(|plan| plan.error.is_none()).map(say).collect(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close()
    }
}

impl Walk for Scan {
    #[inline]
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool> {
        let Some((key, value)) = Scan::next(self)? else { return Ok(false) };
        consume(key, value, into);
        Ok(true)
    }
}

/// The instances' figures as those of one engine; what one of them does not tell is unknown. The options are the first instance's: all are
/// opened alike.
fn together(instances: &[Stats]) -> Stats {
    let sum = |of: fn(&Stats) -> Option<u64>| instances.iter().map(of).sum::<Option<u64>>();
    fn all<'a, T>(instances: &'a [Stats], of: impl Fn(&'a Stats) -> Option<T>) -> Option<Vec<T>> {
        instances.iter().map(of).collect()
    }
    let mut options = vec![("instances".to_owned(), instances.len().to_string())];
    options.extend(instances.first().map(|s| s.options.clone()).unwrap_or_default());
    Stats {
        keys: sum(|s| s.keys),
        keys_estimated: instances.iter().any(|s| s.keys_estimated),
        logical_bytes: sum(|s| s.logical_bytes),
        physical_bytes: sum(|s| s.physical_bytes),
        written_bytes: sum(|s| s.written_bytes),
        unflushed_bytes: sum(|s| s.unflushed_bytes),
        leaves_unflushed: instances.iter().any(|s| s.leaves_unflushed),
        cache_bytes: sum(|s| s.cache_bytes),
        cache_hits_misses: all(instances, |s| s.cache_hits_misses)
            .map(|all| all.into_iter().fold((0, 0), |(hits, misses), (h, m)| (hits + h, misses + m))),
        compaction: all(instances, |s| s.compaction.as_ref()).map(Compaction::together),
        compaction_tail: all(instances, |s| s.compaction_tail.as_ref()).and_then(CompactionTail::together),
        segments: all(instances, |s| s.segments).map(Segments::together),
        index: all(instances, |s| s.index).and_then(IndexFigures::together),
        elsewhere: instances.iter().any(|s| s.elsewhere),
        options,
    }
}

#[cfg(test)]
mod tests {
    use biombo_engine::memory;

    use super::*;
    use crate::bench::Plan;
    use crate::spec::Partitioning;
    use crate::workload::KeyFormat;

    #[test]
    fn hard_partitions_are_dealt_to_all_directories_of_a_run() {
        let mut registry = Registry::new();
        registry.add(memory::kind());
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let plan = Plan {
            engines: vec!["memory".into()],
            partitionings: vec![Partitioning::None, Partitioning::Hard],
            partitions: vec![4],
            more_dirs: vec!["elsewhere".into()],
            ..Plan::default()
        };
        let mut runs = plan.runs();
        assert!(runs[0].dirs.is_empty(), "one engine lies in one place");
        let mut spec = runs.remove(1);
        assert_eq!(spec.dirs, plan.more_dirs);
        (spec.dir, spec.dirs) = (dirs[0].path().to_owned(), vec![dirs[1].path().to_owned()]);
        let keys = Keys::new(KeyFormat::Hashed, 16, 10).unwrap();
        drop(StoreTarget::open(&registry, &spec, &keys).unwrap());
        for (number, dir) in dirs.iter().enumerate() {
            let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut found: Vec<String> =
                names.filter_map(|name| Some(name.to_str()?.rsplit_once("-p")?.1.to_owned())).collect();
            found.sort();
            assert_eq!(found, [format!("{number:04}"), format!("{:04}", number + 2)]);
        }
    }

    /// Fails if what is advised is tried as something else than the store that its configuration opens.
    #[test]
    fn a_whole_engine_is_a_store_where_that_is_asked_for_and_used_directly_elsewhere() {
        let mut registry = Registry::new();
        registry.add(memory::kind());
        let keys = Keys::new(KeyFormat::Hashed, 16, 10).unwrap();
        for in_store in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut spec = Plan { engines: vec!["memory".into()], in_store, ..Plan::default() }.runs().remove(0);
            spec.dir = dir.path().to_owned();
            drop(crate::target::open(&registry, &spec, &keys).unwrap());
            assert_eq!(dir.path().join("store").exists(), in_store);
        }
    }

    /// Fails if what one instance does not tell is taken for 0.
    #[test]
    fn instances_add_up_where_all_of_them_tell() {
        let one = |written_bytes, max| Stats {
            written_bytes,
            physical_bytes: Some(10),
            compaction: Some(Compaction { count: 2, seconds: 0.5, latency_ns_p50: Some(5), bytes: 7, moves: 1 }),
            compaction_tail: Some(CompactionTail { latency_ns_p99: Some(6), latency_ns_max: max }),
            ..Stats::default()
        };
        let both = together(&[one(Some(3), Some(9)), one(Some(4), Some(8))]);
        assert_eq!((both.written_bytes, both.physical_bytes, both.unflushed_bytes), (Some(7), Some(20), None));
        assert_eq!(both.compaction.map(|done| (done.count, done.bytes)), Some((4, 14)));
        let tail = CompactionTail { latency_ns_p99: Some(6), latency_ns_max: Some(9) };
        assert_eq!(both.compaction_tail, Some(tail));
        let silent = together(&[one(Some(3), Some(9)), Stats::default()]);
        assert_eq!((silent.written_bytes, silent.compaction, silent.compaction_tail), (None, None, None));
    }
}
