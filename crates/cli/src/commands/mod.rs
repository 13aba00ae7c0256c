//! One file a group of commands.

pub(crate) mod advise;
pub(crate) mod bench;
pub(crate) mod compact;
pub(crate) mod copy;
pub(crate) mod engines;
pub(crate) mod graph;
pub(crate) mod key;
pub(crate) mod plan;
pub(crate) mod repair;
pub(crate) mod repartition;
pub(crate) mod reproduce;
pub(crate) mod scan;
pub(crate) mod stat;
pub(crate) mod verify;
