//! Connections: one for a thread in a call, kept for the next one.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use biombo_engine::Durability;
use postgres::{Client, Config, NoTls, Row, Statement};

/// The statements over an instance's table. `{}` stands for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Sql {
    Get,
    Has,
    Put,
    PutMany,
    Delete,
    DeleteMany,
    DeleteRange,
    DeleteFrom,
    From,
    After,
    Below,
    Last,
    Sync,
}

const STATEMENTS: usize = Sql::Sync as usize + 1;

impl Sql {
    fn text(self, table: &str) -> String {
        let text = match self {
            Self::Get => "SELECT v FROM {} WHERE k = $1",
            Self::Has => "SELECT 1 FROM {} WHERE k = $1",
            Self::Put => "INSERT INTO {} (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
            Self::PutMany => {
                "INSERT INTO {} (k, v) SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
            }
            Self::Delete => "DELETE FROM {} WHERE k = $1",
            Self::DeleteMany => "DELETE FROM {} WHERE k = ANY($1::bytea[])",
            Self::DeleteRange => "DELETE FROM {} WHERE k >= $1 AND k < $2",
            Self::DeleteFrom => "DELETE FROM {} WHERE k >= $1",
            Self::From => "SELECT k, v FROM {} WHERE k >= $1 ORDER BY k LIMIT $2",
            Self::After => "SELECT k, v FROM {} WHERE k > $1 ORDER BY k LIMIT $2",
            Self::Below => "SELECT k, v FROM {} WHERE k < $1 ORDER BY k DESC LIMIT $2",
            Self::Last => "SELECT k, v FROM {} ORDER BY k DESC LIMIT $1",
            // Something that the log must have: its commit waits for all that stands before it there.
            Self::Sync => "SELECT pg_logical_emit_message(true, 'biombo', '')",
        };
        text.replace("{}", table)
    }
}

/// One connection with the statements that it has prepared.
pub(super) struct Link {
    client: Client,
    prepared: [Option<Statement>; STATEMENTS],
    commits: Option<Durability>,
}

impl Link {
    /// The statement `sql` over `table`, prepared at its first use.
    fn statement(&mut self, sql: Sql, table: &str) -> Result<Statement, postgres::Error> {
        if let Some(known) = &self.prepared[sql as usize] {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(&sql.text(table))?;
        Ok(self.prepared[sql as usize].insert(statement).clone())
    }

    /// From now on a commit here waits for the device, or does not.
    fn commit_at(&mut self, durability: Durability) -> Result<(), postgres::Error> {
        // The level below is the level that there is.
        let durability = durability.max(Durability::Os);
        if self.commits != Some(durability) {
            self.client.batch_execute(match durability {
                Durability::Sync => "SET synchronous_commit = on",
                _ => "SET synchronous_commit = off",
            })?;
            self.commits = Some(durability);
        }
        Ok(())
    }
}

/// The connections of an instance.
pub(super) struct Pool {
    config: Config,
    table: String,
    idle: Mutex<Vec<Link>>,
}

/// A connection in use; it goes back to the pool unless it was lost.
pub(super) struct Taken<'a> {
    pool: &'a Pool,
    link: Option<Link>,
}

/// A value that a statement takes.
type Parameter<'a> = &'a (dyn postgres::types::ToSql + Sync);

impl Pool {
    pub(super) fn new(config: Config, table: &str) -> Self {
        Self { config, table: table.to_owned(), idle: Mutex::new(Vec::new()) }
    }

    /// One that is idle, or a new one.
    pub(super) fn take(&self) -> Result<Taken<'_>, postgres::Error> {
        Ok(Taken { pool: self, link: Some(self.take_out()?) })
    }

    /// As [`take`](Self::take), for longer than a call; [`give_back`](Self::give_back) it.
    pub(super) fn take_out(&self) -> Result<Link, postgres::Error> {
        if let Some(link) = self.idle().pop() {
            return Ok(link);
        }
        let client = self.config.connect(NoTls)?;
        Ok(Link { client, prepared: Default::default(), commits: None })
    }

    /// Keep a connection that is in no transaction, unless it was lost.
    pub(super) fn give_back(&self, link: Link) {
        if !link.client.is_closed() {
            self.idle().push(link);
        }
    }

    /// A connection that was taken out, to be used for a moment.
    pub(super) fn lend(&self, link: Link) -> Taken<'_> {
        Taken { pool: self, link: Some(link) }
    }

    /// Close all that are idle.
    pub(super) fn clear(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that `sql` answers over `link`.
    pub(super) fn query(
        &self,
        link: &mut Link,
        sql: Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, postgres::Error> {
        let statement = link.statement(sql, &self.table)?;
        link.client.query(&statement, parameters)
    }
}

impl Taken<'_> {
    /// The one row that `sql` answers, or none.
    pub(super) fn row(&mut self, sql: Sql, key: &[u8]) -> Result<Option<Row>, postgres::Error> {
        let table = &self.pool.table;
        let statement = self.deref_mut().statement(sql, table)?;
        self.client.query_opt(&statement, &[&key])
    }

    /// Do what `sql` says; how many rows it touched.
    pub(super) fn execute(&mut self, sql: Sql, parameters: &[Parameter<'_>]) -> Result<u64, postgres::Error> {
        let table = &self.pool.table;
        let statement = self.deref_mut().statement(sql, table)?;
        self.client.execute(&statement, parameters)
    }

    /// See [`Link::commit_at`].
    pub(super) fn commit_at(&mut self, durability: Durability) -> Result<(), postgres::Error> {
        self.deref_mut().commit_at(durability)
    }

    /// Statements without answers.
    pub(super) fn batch(&mut self, text: &str) -> Result<(), postgres::Error> {
        self.client.batch_execute(text)
    }

    /// The figures of the one row that `text` answers.
    pub(super) fn figures(&mut self, text: &str) -> Result<Vec<String>, postgres::Error> {
        let row = self.client.query_one(text, &[])?;
        (0..row.len()).map(|column| row.try_get(column)).collect()
    }

    /// Keep it for longer than a call.
    pub(super) fn into_link(mut self) -> Link {
        self.link.take().expect("invariant: there until it is dropped")
    }
}

impl Deref for Taken<'_> {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("invariant: there until it is dropped")
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("invariant: there until it is dropped")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            self.pool.give_back(link);
        }
    }
}
