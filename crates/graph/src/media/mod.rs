//! Where a graph's arrays live.
//!
//! `dram`: [`Array`] and the [`Block`]s of a [`Pool`], memory that ends with the process. The static layout on `disk` is read into such
//! arrays, and on `pmem` read where it is, and written through [`Io`](biombo_base::io::Io), whose simulated disk sees every step. `pmem`: regions of
//! persistent memory, whose every store, write-back and fence a recorder can see ([`Backing`] says what is behind them).

#[expect(unsafe_code, reason = "memory of its own, under rules of SAFETY.md")]
mod array;
#[expect(unsafe_code, reason = "numbers lent by what is shared, under a rule of SAFETY.md")]
mod lent;
#[expect(unsafe_code, reason = "numbers read where they are kept, under a rule of SAFETY.md")]
mod numbers;
pub(crate) mod persistent;
#[expect(unsafe_code, reason = "memory lent in blocks, under rules of SAFETY.md")]
mod pool;
mod runs;

#[cfg(test)]
pub(crate) use array::MAPPED;
pub(crate) use array::Spares;
pub use array::{Array, Plain};
pub(crate) use lent::Lent;
pub(crate) use numbers::Numbers;
pub use persistent::{Backing, WriteBack};
pub use pool::{Block, PAGE_LEN, Pool};
