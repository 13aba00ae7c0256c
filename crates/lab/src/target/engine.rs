//! An engine used directly: the layout `none`, and what every other layout is compared with.

use std::sync::Arc;

use biombo_base::Result;
use biombo_engine::{Batch, Cursor, Durability, Engine, EngineKind, Op, OpenOptions, Stats};

use super::{Target, Walk, consume};

/// One engine instance, used directly through the Engine contract: the layout `none`.
pub struct EngineTarget {
    engine: Arc<dyn Engine>,
    durability: Durability,
}

impl EngineTarget {
    /// Open an instance.
    pub fn open(kind: &EngineKind, options: &OpenOptions) -> Result<Self> {
        Ok(Self { engine: (kind.open)(options)?, durability: options.durability })
    }
}

impl Target for EngineTarget {
    #[inline]
    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.engine.get_into(key, into)
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.apply(&[Op::Put { key, value }], self.durability)
    }

    fn load(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.apply(&[Op::Put { key, value }], Durability::Os)
    }

    fn read_group(&self, keys: &[Vec<u8>], into: &mut Vec<u8>) -> Result<u32> {
        let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.engine.prefetch(&borrowed);
        into.clear();
        let mut found = 0;
        for key in borrowed {
            if let Some(value) = self.engine.get(key)? {
                into.extend_from_slice(&value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn write_group(&self, batch: &Batch) -> Result<()> {
        self.engine.apply(&batch.to_ops(), self.durability)
    }

    fn scan(&self, from: &[u8], limit: u32, into: &mut Vec<u8>) -> Result<u32> {
        let mut cursor = Arc::clone(&self.engine).cursor()?;
        cursor.expect(u64::from(limit));
        cursor.seek(from)?;
        let mut count = 0;
        while count < limit {
            let (Some(key), Some(value)) = (cursor.key(), cursor.value()) else { break };
            consume(key, value, into);
            count += 1;
            if count < limit {
                cursor.next()?;
            }
        }
        Ok(count)
    }

    fn walk(&self) -> Result<Box<dyn Walk>> {
        Ok(Box::new(EngineWalk { cursor: Arc::clone(&self.engine).cursor()?, begun: false }))
    }

    fn flush(&self) -> Result<()> {
        self.engine.sync()
    }

    fn written_back(&self) {
        self.engine.written_back();
    }

    fn stats(&self) -> Result<Stats> {
        self.engine.stats()
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Dropping the last reference closes the engine.
        Ok(())
    }
}

struct EngineWalk {
    cursor: Box<dyn Cursor>,
    begun: bool,
}

impl Walk for EngineWalk {
    #[inline]
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool> {
        if self.begun {
            self.cursor.next()?
        } else {
            self.cursor.first()?
        }
        self.begun = true;
        let (Some(key), Some(value)) = (self.cursor.key(), self.cursor.value()) else { return Ok(false) };
        consume(key, value, into);
        Ok(true)
    }
}
