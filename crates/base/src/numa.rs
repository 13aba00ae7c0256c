//! On which NUMA nodes the pages of a mapping lie.
//!
//! Where a page lies changes how fast it is, never what is in it: these calls are safe for any memory. A kernel without NUMA and a
//! container that forbids such calls refuse them: that is an error that says so, and what was asked for is simply not done.
//!
//! Source: mbind(2), get_mempolicy(2). They are called by number, since neither the C library nor `rustix` has them.

use std::io;

use crate::{Error, ErrorKind, Result};

/// Where pages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy<'n> {
    /// All to this node of the kernel's, as long as it has room; those that come later, to others. (`MPOL_BIND` would have the kernel kill
    /// processes for want of memory on one node, while others have some.)
    Prefer(u32),
    /// In turns, page by page, to these.
    Interleave(&'n [u32]),
}

/// Bits of a mask of nodes: as many as a kernel can have.
const MASK_BITS: usize = 1024;

/// `MPOL_MF_MOVE`: pages that lie elsewhere are moved.
const MOVE: libc::c_long = 2;

/// `MPOL_F_NODE | MPOL_F_ADDR`: ask for the node of the page at an address.
const NODE_OF_ADDRESS: libc::c_ulong = 3;

/// Have the pages that begin within `memory` lie where `policy` says, those too that are there already. A page that begins before it
/// is left where it is: of neighbouring pieces of one array, each page follows the piece that it begins in.
///
/// # Errors
/// `Unsupported` when the kernel has no NUMA or the process may not say where memory lies; `Invalid` for nodes that are not there;
/// `Io`. The memory is as usable as before.
pub fn place<T>(memory: &[T], policy: Policy<'_>) -> Result<()> {
    let page = rustix::param::page_size();
    let begin = (memory.as_ptr() as usize).next_multiple_of(page);
    let end = (memory.as_ptr() as usize + size_of_val(memory)).next_multiple_of(page);
    if begin >= end {
        return Ok(());
    }
    let (mode, nodes) = match &policy {
        Policy::Prefer(node) => (libc::MPOL_PREFERRED, std::slice::from_ref(node)),
        Policy::Interleave(nodes) => (libc::MPOL_INTERLEAVE, *nodes),
    };
    let mut mask = [0u64; MASK_BITS / 64];
    for node in nodes {
        let word = mask.get_mut(*node as usize / 64);
        *word.ok_or_else(|| Error::invalid(format!("there is no NUMA node {node}")))? |= 1 << (node % 64);
    }
    // SAFETY: (B13) the range is pages that the slice has bytes in, and the kernel reads the mask during the call. Neither the policy
    // nor the move of a page changes a byte or a reference.
    let outcome =
        unsafe { libc::syscall(libc::SYS_mbind, begin, end - begin, mode, mask.as_ptr(), MASK_BITS + 1, MOVE) };
    match outcome {
        0 => Ok(()),
        _ => Err(refused(io::Error::last_os_error(), nodes)),
    }
}

/// The node that the page with the first byte of `memory` lies on; `None` when there is no byte or the kernel does not say.
pub fn node_of<T>(memory: &[T]) -> Option<u32> {
    if size_of_val(memory) == 0 {
        return None;
    }
    let mut node: libc::c_int = -1;
    let none = std::ptr::null::<libc::c_ulong>();
    // SAFETY: (B13) the kernel writes one integer, which is borrowed for the call, and looks at an address of the slice.
    let outcome = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut node, none, 0usize, memory.as_ptr(), NODE_OF_ADDRESS)
    };
    (outcome == 0).then_some(node).and_then(|node| u32::try_from(node).ok())
}

fn refused(error: io::Error, nodes: &[u32]) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Error::new(ErrorKind::Unsupported, "this kernel has no NUMA"),
        Some(libc::EPERM) => {
            Error::new(ErrorKind::Unsupported, "this process may not say where memory lies (a container forbids it)")
        }
        Some(libc::EINVAL) => Error::invalid(format!("memory cannot lie on the NUMA nodes {nodes:?}")),
        _ => Error::io(format_args!("place memory on the NUMA nodes {nodes:?}"), error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn memory_goes_to_its_node_and_keeps_its_bytes_or_the_refusal_says_why() {
        let node = Topology::detect().nodes.iter().rev().find(|node| !node.cpus.is_empty()).unwrap().id;
        let memory: Vec<u64> = (0..40_000).collect();
        for policy in [Policy::Prefer(node), Policy::Interleave(&[node])] {
            match place(&memory, policy) {
                Ok(()) => assert!(node_of(&memory[1000..]).is_none_or(|found| found == node)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
            }
            assert!(memory.iter().copied().eq(0..40_000));
        }
    }

    #[test]
    fn nodes_that_are_not_there_are_refused_and_no_memory_is_placed_anywhere() {
        let memory = vec![1u8; 100_000];
        for nodes in [&[][..], &[1023], &[u32::MAX]] {
            assert!(place(&memory, Policy::Interleave(nodes)).is_err(), "{nodes:?}");
        }
        place(&[0u8; 0], Policy::Prefer(0)).unwrap();
        // Within one page: it begins elsewhere.
        let page = rustix::param::page_size();
        let begin = memory.as_ptr().align_offset(page) + 1;
        place(&memory[begin..begin + page / 2], Policy::Prefer(1023)).unwrap();
        assert_eq!(node_of(&[0u8; 0]), None);
    }
}
