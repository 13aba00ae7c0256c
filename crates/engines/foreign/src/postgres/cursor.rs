//! Snapshots and cursors: a connection of their own in a transaction that reads one state (REPEATABLE READ).
//!
//! 1. The transaction takes its snapshot when the view is opened, by a statement that reads nothing.
//! 2. A cursor fetches rows in groups, by the index and in the direction of its last movement; they are its own, and stay as they are
//!    while others move over the same view.
//! 3. A view that is kept open keeps the server from removing the versions that it may need, as in any PostgreSQL.

use std::sync::{Arc, Mutex, PoisonError};

use biombo_base::Result;
use biombo_engine::{Cursor, Engine, Snapshot, Value};
use postgres::Row;

use super::Postgres;
use super::pool::{Link, Sql};

/// Rows of a first group where nobody says how many are wanted, and of any group at most.
const ROWS_FIRST: usize = 16;
const ROWS_MAX: usize = 4_096;

/// One point in the history.
pub(super) struct View {
    // There until it is dropped.
    link: Mutex<Option<Link>>,
    engine: Arc<Postgres>,
}

impl View {
    /// The present state.
    pub(super) fn open(engine: Arc<Postgres>) -> Result<Self> {
        let mut link = engine.link()?;
        if let Err(error) = link.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1") {
            let _ = link.batch("ROLLBACK");
            return Err(engine.after(error, "open a snapshot of"));
        }
        let link = link.into_link();
        Ok(Self { link: Mutex::new(Some(link)), engine })
    }

    /// A cursor over it.
    pub(super) fn cursor_of(self: Arc<Self>) -> PostgresCursor {
        PostgresCursor { view: self, group: Vec::new(), at: 0, is_down: false, is_last: false, wanted: None, rows: 0 }
    }

    fn query(&self, sql: Sql, key: &[u8], limit: Option<i64>) -> Result<Vec<Row>> {
        let mut held = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let link = held.as_mut().expect("invariant: there until it is dropped");
        let rows = match (sql, &limit) {
            (Sql::Last, Some(limit)) => self.engine.pool.query(link, sql, &[limit]),
            (sql, Some(limit)) => self.engine.pool.query(link, sql, &[&key, limit]),
            (sql, None) => self.engine.pool.query(link, sql, &[&key]),
        };
        rows.map_err(|e| self.engine.after(e, "read"))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link {
            let mut link = self.engine.pool.lend(link);
            // Ending a transaction that only read cannot fail but with its connection, which then is not kept.
            let _ = link.batch("COMMIT");
        }
    }
}

impl Snapshot for View {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.engine.capabilities().check_key(key)?;
        self.query(Sql::Get, key, None)?.first().map(|row| self.engine.value(row)).transpose()
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(self.cursor_of()))
    }
}

/// A position in a view.
pub(super) struct PostgresCursor {
    view: Arc<View>,
    /// Rows in the direction in which they were fetched, and which of them is here; none: without a position.
    group: Vec<Row>,
    at: usize,
    is_down: bool,
    /// Whether nothing follows the group in its direction.
    is_last: bool,
    wanted: Option<u64>,
    rows: usize,
}

impl PostgresCursor {
    /// Fetch a group from `key` on, as `sql` says; the first one of it is here then.
    fn fetch(&mut self, sql: Sql, key: &[u8]) -> Result<()> {
        let limit = self.view.engine.rows_at_once(self.rows.clamp(1, ROWS_MAX));
        self.group.clear();
        self.at = 0;
        self.is_down = matches!(sql, Sql::Below | Sql::Last);
        self.group = self.view.query(sql, key, Some(limit))?;
        self.is_last = (self.group.len() as i64) < limit;
        let most = self.group.iter().map(|row| bytes(row, 1).map_or(0, <[u8]>::len)).max();
        self.view.engine.saw(most.unwrap_or(0));
        Ok(())
    }

    /// A movement that seeks: how much is fetched begins anew.
    fn jump(&mut self, sql: Sql, key: &[u8]) -> Result<()> {
        self.rows = self.wanted.take().map_or(ROWS_FIRST, |rows| usize::try_from(rows).unwrap_or(ROWS_MAX));
        self.fetch(sql, key)
    }

    /// One key on, in one direction or the other.
    fn step(&mut self, down: bool) -> Result<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        if down != self.is_down {
            // Against the direction of the group.
            if self.at > 0 {
                self.at -= 1;
                return Ok(());
            }
        } else if self.at + 1 < self.group.len() {
            self.at += 1;
            return Ok(());
        } else if self.is_last {
            self.group.clear();
            return Ok(());
        }
        let here = self.key().map(<[u8]>::to_vec).unwrap_or_default();
        self.rows = self.rows.saturating_mul(4).max(ROWS_FIRST);
        self.fetch(if down { Sql::Below } else { Sql::After }, &here)
    }
}

/// The bytes in a column of a row: they are never NULL.
pub(super) fn bytes(row: &Row, column: usize) -> Option<&[u8]> {
    row.try_get(column).ok()
}

impl Cursor for PostgresCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.jump(Sql::From, key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.jump(Sql::Below, key)
    }

    fn first(&mut self) -> Result<()> {
        self.jump(Sql::From, b"")
    }

    fn last(&mut self) -> Result<()> {
        self.jump(Sql::Last, b"")
    }

    fn expect(&mut self, keys: u64) {
        self.wanted = Some(keys);
    }

    fn next(&mut self) -> Result<()> {
        self.step(false)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(true)
    }

    fn key(&self) -> Option<&[u8]> {
        bytes(self.group.get(self.at)?, 0)
    }

    fn value(&self) -> Option<&[u8]> {
        bytes(self.group.get(self.at)?, 1)
    }
}
