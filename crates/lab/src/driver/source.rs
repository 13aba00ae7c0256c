//! Where a client's operations come from: any [`Task`], drawn one at a time, outside the time that an operation is measured for.

use std::sync::atomic::AtomicU64;

use biombo_base::{Error, Result};

use super::run::Settings;
use crate::target::Target;
use crate::workload::shift::{Common, Whereabouts};
use crate::workload::trace::Reader;
use crate::workload::{Benchmark, Inserts, Keys, Numbers, OpKind, ShiftStream, Stream, Task};

/// What the sources of one run share.
pub(super) struct Supply<'a> {
    target: &'a dyn Target,
    keys: &'a Keys,
    inserts: Inserts,
    // The next number of a sequence that the clients share.
    turn: AtomicU64,
    common: Common,
}

impl<'a> Supply<'a> {
    pub(super) fn new(target: &'a dyn Target, settings: &Settings, keys: &'a Keys) -> Self {
        let common = match &settings.task {
            Task::Shift { shift } => {
                Common::new(shift, settings.seed, settings.records, keys, &Located { target, keys })
            }
            _ => Common::Nothing,
        };
        Self { target, keys, inserts: Inserts::new(settings.records), turn: AtomicU64::new(0), common }
    }

    /// `request` is done; a new record counts from now on, also if its insert failed.
    #[inline]
    pub(super) fn acknowledge(&self, request: Request) {
        if request.inserts {
            self.inserts.acknowledge(request.number);
        }
    }

    /// What the threads of a shifting workload share.
    pub(super) fn common(&self) -> &Common {
        &self.common
    }
}

/// Asks the target where records are.
struct Located<'a> {
    target: &'a dyn Target,
    keys: &'a Keys,
}

impl Whereabouts for Located<'_> {
    fn partitions(&self) -> u32 {
        self.target.partitions()
    }

    fn partition_of(&self, record: u64) -> u32 {
        let mut key = Vec::with_capacity(self.keys.bytes());
        self.keys.write(record, &mut key);
        self.target.partition_of(&key)
    }
}

/// The next operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) kind: OpKind,
    /// What [`Source::noun`] calls it by.
    pub(super) number: u64,
    /// Records to read, for a scan.
    pub(super) scan_records: u32,
    /// Whether others may read the record once it is put.
    pub(super) inserts: bool,
}

/// The keys of an operation, in buffers that are used again.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The key of a single record.
    pub(super) key: Vec<u8>,
    /// The keys of a group.
    pub(super) group: Vec<Vec<u8>>,
}

/// Where a client's operations come from.
#[expect(clippy::large_enum_variant, reason = "one a thread, and the large ones are drawn from at every operation")]
pub(super) enum Source {
    Core(Stream),
    Keys(OpKind, Numbers),
    Order,
    Shift(ShiftStream),
    Trace { reader: Reader, again: bool },
}

impl Source {
    /// Of client `thread`; one that works `beside` the others has operations of its own.
    pub(super) fn new(settings: &Settings, supply: &Supply<'_>, thread: u32, beside: bool) -> Result<Self> {
        let (records, seed) = (settings.records, settings.seed);
        Ok(match &settings.task {
            Task::Ycsb { workload, distribution } => {
                Self::Core(Stream::new(workload.mix(), *distribution, records, settings.inserts, seed, thread))
            }
            Task::Mix { mix, distribution } => {
                Self::Core(Stream::new(&mix.shares(), *distribution, records, settings.inserts, seed, thread))
            }
            Task::Db { benchmark: Benchmark::ReadSeq } => Self::Order,
            Task::Db { benchmark } => {
                let kind = settings.task.beside().filter(|_| beside).unwrap_or(benchmark.kind());
                Self::Keys(kind, Numbers::new(*benchmark, seed, thread))
            }
            Task::Shift { shift } => Self::Shift(ShiftStream::new(shift, &supply.common, records, seed, thread)),
            Task::Trace { .. } => {
                let files = &settings.traces;
                let file = files.get(thread as usize % files.len().max(1));
                let path = file.ok_or_else(|| Error::invalid("a trace has no file"))?;
                Self::Trace { reader: Reader::open(path)?, again: !settings.once() }
            }
        })
    }

    /// The operation that begins `at_ns` after the run phase did, its keys written into `names`; `None` at the end of a trace
    /// that is replayed once.
    #[inline]
    pub(super) fn next(
        &mut self,
        settings: &Settings,
        supply: &Supply<'_>,
        at_ns: u64,
        names: &mut Names,
    ) -> Result<Option<Request>> {
        let Supply { keys, inserts, turn, .. } = supply;
        let request = match self {
            Self::Core(stream) => {
                let operation = stream.next(inserts);
                let is_insert = operation.kind == OpKind::Insert;
                let number = if is_insert { inserts.begin() } else { stream.resolve(operation, inserts, at_ns) };
                keys.write(number, &mut names.key);
                Request { kind: operation.kind, number, scan_records: operation.scan_records, inserts: is_insert }
            }
            Self::Keys(kind, numbers) => {
                let number = numbers.next(settings.records, turn);
                keys.write(number, &mut names.key);
                Request { kind: *kind, number, scan_records: 0, inserts: false }
            }
            Self::Order => Request { kind: OpKind::Read, number: 0, scan_records: 0, inserts: false },
            Self::Shift(stream) => {
                let whereabouts = Located { target: supply.target, keys };
                let operation = stream.next(at_ns, inserts, &whereabouts);
                let mut members = 0;
                for record in stream.members(operation) {
                    if names.group.len() == members {
                        names.group.push(Vec::with_capacity(keys.bytes()));
                    }
                    keys.write(record, &mut names.group[members]);
                    members += 1;
                }
                if members == 0 {
                    keys.write(operation.number, &mut names.key);
                }
                let (kind, number) = (operation.kind, operation.number);
                Request { kind, number, scan_records: 0, inserts: kind == OpKind::Insert }
            }
            Self::Trace { reader, again } => return replay(reader, *again, names),
        };
        Ok(Some(request))
    }

    /// What a request's number counts.
    pub(super) fn noun(&self, kind: OpKind) -> &'static str {
        match (self, kind) {
            (Self::Trace { .. }, _) => "line",
            (_, OpKind::MultiGet | OpKind::Batch) => "group",
            _ => "record",
        }
    }
}

/// The next line; the first one again after the last if it is to be replayed `again`.
fn replay(reader: &mut Reader, again: bool, names: &mut Names) -> Result<Option<Request>> {
    for _ in 0..2 {
        if let Some(line) = reader.line()? {
            names.key.clear();
            names.key.extend_from_slice(line.key);
            let (kind, scan_records) = (line.kind, line.limit);
            return Ok(Some(Request { kind, number: reader.number(), scan_records, inserts: false }));
        }
        if !again {
            return Ok(None);
        }
        reader.rewind()?;
    }
    Err(Error::invalid("a trace became empty while it was replayed: leave its files as they are"))
}
