//! Openable copies of one point in history, while reads and writes go on.
//!
//! A copy is a new instance that is written from a snapshot and synced as a whole before this returns. One that is cut short is
//! removed; after a crash it is an instance with a prefix of the keys, which nobody was told is a copy.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::create_dirs;
use biombo_base::{Error, Result};
use biombo_engine::{Batch, Cursor, Durability, Engine, OpenOptions};

use crate::cursor::View;
use crate::engine::LogEngine;
use crate::open::open;

/// Bytes of one batch of a copy.
const BATCH_BYTES: usize = 1 << 20;

impl LogEngine {
    /// Copy what a snapshot sees into a new instance in `dest`; durable when this returns.
    pub(crate) fn copy_to(&self, dest: &Path) -> Result<()> {
        let io = &self.io;
        let failed = |doing: &str, e| Error::io(format_args!("{doing} {}", dest.display()), e);
        // A file in its place cannot be listed either.
        if io.exists(dest).map_err(|e| failed("look at", e))? && !io.read_dir(dest).is_ok_and(|names| names.is_empty())
        {
            return Err(Error::invalid(format!("{} is no empty directory: a copy needs its own", dest.display())));
        }
        let engine = self.me.upgrade().expect("invariant: whoever calls holds the engine");
        let view = View::open(engine);
        create_dirs(&**io, dest).map_err(|e| failed("create", e))?;
        self.fill(&view, dest).inspect_err(|_| {
            // Best effort: the caller hears of the error that made the copy useless.
            let _ = io.remove_dir_all(dest);
        })
    }

    fn fill(&self, view: &Arc<View>, dest: &Path) -> Result<()> {
        let copy = open(Arc::clone(&self.io), &OpenOptions::new(dest), false)?;
        let mut cursor = View::cursor(Arc::clone(view));
        let mut batch = Batch::new();
        cursor.first()?;
        while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
            batch.put(key, value);
            if batch.bytes() > BATCH_BYTES {
                copy.apply(&batch.to_ops(), Durability::Os)?;
                batch.clear();
            }
            cursor.next()?;
        }
        copy.apply(&batch.to_ops(), Durability::Os)?;
        copy.sync()
    }
}
