//! Cache lines, written back with what the processor has for it.
//!
//! `clwb` writes a line back and may keep it in the cache, `clflushopt` evicts it, `clflush` evicts it too and each waits for the one
//! before. All three are done when a following `sfence` is. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2;
//! SNIA NVM Programming Model, "optimized flush".
//!
//! Other processors than x86-64 have no method here: then a region is played by its file and msync, also on a DAX file system.

use std::fmt;

/// How cache lines are written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBack {
    /// `clwb`: the line stays in the cache where the processor can do that.
    Clwb,
    /// `clflushopt`: it is evicted.
    Clflushopt,
    /// `clflush`: it is evicted, one line after the other.
    Clflush,
}

impl fmt::Display for WriteBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clwb => "clwb",
            Self::Clflushopt => "clflushopt",
            Self::Clflush => "clflush",
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod instructions {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    use super::super::LINE_BYTES;
    use super::WriteBack;

    impl WriteBack {
        /// All that this processor has, the best first.
        pub(crate) fn all() -> Vec<Self> {
            let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
            let has = |bit: u32| features & (1 << bit) != 0;
            let methods = [(has(24), Self::Clwb), (has(23), Self::Clflushopt), (true, Self::Clflush)];
            methods.into_iter().filter(|(is_there, _)| *is_there).map(|(_, method)| method).collect()
        }

        /// Have the lines that `bytes` lie in written back. The method is one of [`all`](Self::all).
        #[inline]
        pub(crate) fn write_back(self, bytes: &[u8]) {
            if bytes.is_empty() {
                return;
            }
            let range = bytes.as_ptr_range();
            let mut line = range.start as usize / LINE_BYTES as usize * LINE_BYTES as usize;
            while line < range.end as usize {
                // SAFETY: (G8) the line has a byte of a slice that is borrowed, so it is mapped; the instruction is one that
                // this processor has, and no program sees a byte change by it.
                unsafe {
                    match self {
                        Self::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                        Self::Clflushopt => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
                        Self::Clflush => asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)),
                    }
                }
                line += LINE_BYTES as usize;
            }
        }

        /// Wait until what was written back before has arrived.
        #[inline]
        pub(crate) fn fence(self) {
            // SAFETY: (G8) a fence orders and changes nothing. Each x86-64 processor has it.
            unsafe { asm!("sfence", options(nostack, preserves_flags)) }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl WriteBack {
    /// None here.
    pub(crate) fn all() -> Vec<Self> {
        Vec::new()
    }

    /// Nobody has a method to call this with.
    pub(crate) fn write_back(self, _: &[u8]) {}

    /// Likewise.
    pub(crate) fn fence(self) {}
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn writing_lines_back_changes_no_byte() {
        let methods = WriteBack::all();
        println!("this processor has {methods:?}");
        assert_eq!(methods.last(), Some(&WriteBack::Clflush));
        for method in methods {
            let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
            for range in [0..0, 0..1, 3..64, 63..65, 0..1000, 999..1000] {
                method.write_back(&bytes[range]);
                method.fence();
            }
            assert!(bytes.iter().copied().eq((0..=255).cycle().take(1000)));
        }
    }
}
