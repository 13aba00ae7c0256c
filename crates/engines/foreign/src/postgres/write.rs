//! Writes: one statement for a single operation, one transaction with few statements for a batch.
//!
//! 1. A batch is reduced to *steps* whose order matters only where a range is deleted between others; within a step each key is named
//!    once, with what the last operation on it wants.
//! 2. The keys of a step are in order, so that batches which share keys lock their rows in one order; those that still wait for each
//!    other (over several steps) are told so by the server, and one of them is repeated.
//! 3. A `Sync` that changes no row (of no operations, of keys that are absent, of empty ranges) makes the log durable all the same, as far as
//!    it reaches: the server's commit of it alone would wait for nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use biombo_base::Result;
use biombo_engine::{Durability, Op};

use super::Postgres;
use super::errors::is_conflict;
use super::pool::{Sql, Taken};

/// How long a transaction is repeated while others conflict with it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes and rows of one statement at most: it is held in memory here and there.
const STEP_BYTES: usize = 32 << 20;
const STEP_ROWS: usize = 10_000;

/// A part of a batch that one statement does.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    Put(Vec<&'a [u8]>, Vec<&'a [u8]>),
    Delete(Vec<&'a [u8]>),
    Range(&'a [u8], Option<&'a [u8]>),
}

/// The statements of a batch, in order.
fn steps<'a>(ops: &[Op<'a>]) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let mut wanted: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    let finish = |wanted: &mut BTreeMap<&'a [u8], Option<&'a [u8]>>, steps: &mut Vec<Step<'a>>| {
        let mut gone = Vec::new();
        let (mut keys, mut values, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (key, value) in std::mem::take(wanted) {
            let Some(value) = value else {
                gone.push(key);
                continue;
            };
            let more = key.len() + value.len();
            if !keys.is_empty() && (bytes + more > STEP_BYTES || keys.len() == STEP_ROWS) {
                steps.push(Step::Put(std::mem::take(&mut keys), std::mem::take(&mut values)));
                bytes = 0;
            }
            keys.push(key);
            values.push(value);
            bytes += more;
        }
        if !keys.is_empty() {
            steps.push(Step::Put(keys, values));
        }
        steps.extend(gone.chunks(STEP_ROWS).map(|keys| Step::Delete(keys.to_vec())));
    };
    for op in ops {
        match *op {
            Op::Put { key, value } => drop(wanted.insert(key, Some(value))),
            Op::Delete { key } => drop(wanted.insert(key, None)),
            Op::DeleteRange { from, to } => {
                finish(&mut wanted, &mut steps);
                steps.push(Step::Range(from, to));
            }
        }
    }
    finish(&mut wanted, &mut steps);
    steps
}

impl Step<'_> {
    /// Do it; how many rows it changed.
    fn run(&self, link: &mut Taken<'_>) -> Result<u64, postgres::Error> {
        match self {
            Self::Put(keys, values) => match (keys.as_slice(), values.as_slice()) {
                ([key], [value]) => link.execute(Sql::Put, &[key, value]),
                _ => link.execute(Sql::PutMany, &[keys, values]),
            },
            Self::Delete(keys) => match keys.as_slice() {
                [key] => link.execute(Sql::Delete, &[key]),
                _ => link.execute(Sql::DeleteMany, &[keys]),
            },
            Self::Range(from, Some(to)) => link.execute(Sql::DeleteRange, &[from, to]),
            Self::Range(from, None) => link.execute(Sql::DeleteFrom, &[from]),
        }
    }
}

impl Postgres {
    /// Apply checked operations in one transaction.
    pub(super) fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let mut link = self.link()?;
        link.commit_at(durability).map_err(|e| self.after(e, "write to"))?;
        if let [Op::Put { key, value }] = ops {
            // The common one, without a copy of its bytes.
            return self.repeated(&mut link, |link| link.execute(Sql::Put, &[key, value]).map(drop));
        }
        let steps = steps(ops);
        let changed = match steps.as_slice() {
            [] => 0,
            // One statement commits by itself.
            [only] => self.repeated(&mut link, |link| only.run(link))?,
            all => self.repeated(&mut link, |link| {
                link.batch("BEGIN")?;
                let rows = |link: &mut Taken<'_>| all.iter().try_fold(0, |rows, step| Ok(rows + step.run(link)?));
                let done = rows(link).and_then(|rows| link.batch("COMMIT").map(|()| rows));
                if done.is_err() {
                    // Of a connection that was lost the server ends the transaction itself.
                    let _ = link.batch("ROLLBACK");
                }
                done
            })?,
        };
        if changed == 0 && durability == Durability::Sync {
            // Its commit had nothing to put into the log, and so waited for nothing that stands before it there.
            self.repeated(&mut link, |link| link.execute(Sql::Sync, &[]).map(drop))?;
        }
        Ok(())
    }

    /// Do `work`, again while it conflicts with others'.
    fn repeated<T>(
        &self,
        link: &mut Taken<'_>,
        mut work: impl FnMut(&mut Taken<'_>) -> Result<T, postgres::Error>,
    ) -> Result<T> {
        let began = Instant::now();
        loop {
            match work(link) {
                Ok(done) => return Ok(done),
                Err(error) if is_conflict(&error) && began.elapsed() < PATIENCE => std::thread::yield_now(),
                Err(error) => return Err(self.after(error, "write to")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_names_each_key_once_in_order_and_keeps_ranges_in_their_place() {
        let put = |key: &'static str, value: &'static str| Op::Put { key: key.as_bytes(), value: value.as_bytes() };
        let delete = |key: &'static str| Op::Delete { key: key.as_bytes() };
        let range = Op::DeleteRange { from: b"a", to: Some(b"c") };
        let ops = [put("b", "1"), put("a", "1"), put("b", "2"), delete("c"), range, delete("a"), put("a", "3")];
        let found = steps(&ops);
        assert_eq!(
            found,
            [
                Step::Put(vec![b"a", b"b"], vec![b"1", b"2"]),
                Step::Delete(vec![b"c"]),
                Step::Range(b"a", Some(b"c")),
                Step::Put(vec![b"a"], vec![b"3"]),
            ]
        );
        assert!(steps(&[]).is_empty());
    }

    #[test]
    fn a_large_batch_is_cut_into_statements() {
        let value = vec![0; STEP_BYTES / 3];
        let keys: Vec<Vec<u8>> = (0..8u8).map(|i| vec![i]).collect();
        let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Put { key, value: &value }).collect();
        let rows: Vec<usize> = steps(&ops)
            .iter()
            .map(|step| match step {
                Step::Put(keys, values) if keys.len() == values.len() => keys.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(rows, [2, 2, 2, 2]);
        let keys: Vec<Vec<u8>> = (0..25_000u32).map(|i| i.to_be_bytes().to_vec()).collect();
        let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Delete { key }).collect();
        assert_eq!(steps(&ops).len(), 3);
    }
}
