//! A store that changes to an engine which takes shorter keys: what that engine cannot take stays readable where it is, and the store goes back.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::SimIo;
use biombo_engine::{
    Capabilities, Cursor, Damage, Durability, Engine, EngineKind, ErrorKind, Op, Result, Snapshot, Stats, Value, memory,
};
use biombo_store::{Options, Pace, PartitionId, Range, Store};

const LONG: &str = "simulated";
const SHORT: &str = "short";

/// Refuses longer keys, and to look for them.
struct Short {
    engine: Arc<dyn Engine>,
    capabilities: Capabilities,
}

fn capabilities() -> Capabilities {
    let level = Some(Durability::Os);
    let memory = (memory::kind().capabilities)();
    Capabilities { persistent: true, survives_kill: level, survives_power_cut: level, key_bytes_max: 20, ..memory }
}

fn short(io: Arc<dyn Io>) -> EngineKind {
    let long = common::kind(SHORT, io, common::Commit::Apart);
    let open = Arc::clone(&long.open);
    EngineKind {
        capabilities,
        open: Arc::new(move |options| Ok(Arc::new(Short { engine: open(options)?, capabilities: capabilities() }))),
        ..long
    }
}

impl Engine for Short {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        self.engine.get(key)
    }
    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        ops.iter().try_for_each(|op| self.capabilities.check(op))?;
        self.engine.apply(ops, durability)
    }
    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        let snapshot = Arc::clone(&self.engine).snapshot()?;
        Ok(Arc::new(ShortSnapshot { snapshot, capabilities: capabilities() }))
    }
    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Arc::clone(&self.engine).cursor()
    }
    fn checkpoint(&self, dest: &Path) -> Result<()> {
        self.engine.checkpoint(dest)
    }
    fn compact(&self) -> Result<()> {
        self.engine.compact()
    }
    fn stats(&self) -> Result<Stats> {
        self.engine.stats()
    }
    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.engine.verify(report)
    }
}

struct ShortSnapshot {
    snapshot: Arc<dyn Snapshot>,
    capabilities: Capabilities,
}

impl Snapshot for ShortSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        self.snapshot.get(key)
    }
    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Arc::clone(&self.snapshot).cursor()
    }
}

fn open(io: &SimIo, options: Options) -> Store {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let mut registry = common::registry(Arc::clone(&io), common::Commit::Apart);
    registry.add(short(Arc::clone(&io)));
    options.journal_segment_bytes(32 << 10).io(io).open(Path::new("db"), &registry).expect("a store")
}

fn contents(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut scan = store.scan(Range::all()).expect("scan");
    let mut found = BTreeMap::new();
    while let Some((key, value)) = scan.next().expect("next") {
        found.insert(key.to_vec(), value.to_vec());
    }
    found
}

fn long(number: u8) -> Vec<u8> {
    [&[b'l', number][..], &[b'.'; 40]].concat()
}

#[test]
fn keys_that_are_too_long_for_the_new_engine_are_read_until_the_store_goes_back() {
    let io = SimIo::new(1);
    let store = open(&io, Options::new().engine(LONG).partitions(2));
    for number in 0..20 {
        store.put(&long(number), &[number]).expect("put");
        store.put(&[number], b"short").expect("put");
    }
    drop(store);
    let store = open(&io, Options::new().engine(SHORT).reshape(true));
    let placement = store.placement();
    let taken: Vec<_> = (0..20).map(|number| placement.unit_of(&long(number))).collect();
    let absent = (100..200).map(long).find(|key| !taken.contains(&placement.unit_of(key))).expect("one of many");
    store.move_units(&[placement.unit_of(&absent)], PartitionId(2), Pace::default()).expect("nothing long is in it");
    assert_eq!(store.route(&absent), PartitionId(2));
    let error = store.spread(Pace::default()).expect_err("keys are too long");
    assert!(error.kind() == ErrorKind::Invalid && error.message().contains("former engine"), "{error}");
    let snapshot = store.snapshot().expect("snapshot");
    let mut into = b"what was there".to_vec();
    for number in 0..20 {
        let key = long(number);
        assert_eq!(store.get(&key).expect("get").as_deref(), Some(&[number][..]));
        assert_eq!(snapshot.get(&key).expect("get").as_deref(), Some(&[number][..]));
        assert!(store.get_into(&key, &mut into).expect("get_into") && into == [number]);
        assert_eq!(store.put(&key, b"it could not move").expect_err("too long").kind(), ErrorKind::Invalid);
    }
    // One that is nowhere, looked for in a partition that could not hold it.
    assert!(store.get(&absent).expect("get").is_none() && snapshot.get(&absent).expect("get").is_none());
    assert!(!store.get_into(&absent, &mut into).expect("get_into") && into.is_empty());
    assert_eq!(store.get(&[b'l'; 1 << 17]).expect_err("no engine holds it").kind(), ErrorKind::Invalid);
    let end = [long(19), vec![0]].concat();
    store.delete_range(&long(19), Some(&end)).expect("a range has no length");
    let expected = contents(&store);
    assert_eq!(expected.len(), 39);
    drop((snapshot, store));
    let store = open(&io, Options::new().engine(LONG).reshape(true));
    store.spread(Pace::default()).expect("back");
    drop(store);
    let store = open(&io, Options::new());
    assert_eq!((store.partitions(), store.engine(), contents(&store)), (2, LONG, expected));
    store.put(&long(0), b"again").expect("put");
}
