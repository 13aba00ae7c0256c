//! Existing storage engines behind Biombo's Engine contract: one file and one Cargo feature each.
//!
//! Each adapter sets the options that the engine's own experts would, reports them all in its `Stats`, and declares in its
//! `Capabilities` exactly what the library behind it gives.

#[cfg(any(
    feature = "rocksdb",
    feature = "leveldb",
    feature = "tkrzw-tree",
    feature = "tkrzw-tree-zlib",
    feature = "tkrzw-hash"
))]
mod c;
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
mod files;
pub mod home;
#[cfg(feature = "leveldb")]
pub mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
mod log_tail;
#[cfg(any(
    feature = "rocksdb",
    feature = "leveldb",
    feature = "tkrzw-tree",
    feature = "tkrzw-tree-zlib",
    feature = "tkrzw-hash",
    feature = "wiredtiger",
    feature = "postgres"
))]
mod poison;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
mod status;
#[cfg(any(feature = "tkrzw-tree", feature = "tkrzw-tree-zlib", feature = "tkrzw-hash"))]
pub mod tkrzw;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

use biombo_engine::Registry;

/// Add every engine that this build has.
pub fn register(registry: &mut Registry) {
    let _ = &registry;
    #[cfg(feature = "lmdb")]
    registry.add(lmdb::kind());
    #[cfg(feature = "rocksdb")]
    registry.add(rocksdb::kind());
    #[cfg(feature = "leveldb")]
    registry.add(leveldb::kind());
    #[cfg(feature = "tkrzw-tree")]
    registry.add(tkrzw::kind(tkrzw::Flavor::Tree));
    #[cfg(feature = "tkrzw-tree-zlib")]
    registry.add(tkrzw::kind(tkrzw::Flavor::TreeZlib));
    #[cfg(feature = "tkrzw-hash")]
    registry.add(tkrzw::kind(tkrzw::Flavor::Hash));
    #[cfg(feature = "wiredtiger")]
    registry.add(wiredtiger::kind());
    #[cfg(feature = "postgres")]
    registry.add(postgres::kind());
}
