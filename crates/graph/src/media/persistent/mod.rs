//! Persistent memory: regions that a program stores to and that survive it, once it has written the cache lines back and fenced.
//!
//! Every store to persistent state, every write-back of a cache line and every fence goes through [`Region`], and every name of a region
//! through [`Medium`]. So a recorder sees all of them, and can make every state that a power cut may leave.
//!
//! What a caller may rely on, and not more:
//!
//! 1. A store may become persistent at any time, in any order, 8 aligned bytes at once: a cache line leaves the processor when it likes.
//! 2. What was stored before a [`write_back`](Region::write_back) of its line is persistent after a later [`fence`](Region::fence) of the
//!    same region returned `Ok`.
//! 3. A name that was made or changed is persistent when that returns; a removed one may come back until the next such call.
//! 4. The death of the process loses no store and no name; but it makes none persistent either.
//! 5. A failed fence says that the data may be gone: its owner writes no more.
//! 6. What could not be made for lack of room has changed no name. After any other failure to make or rename a region either name may be
//!    there.
//!
//! On a file system with DAX a region is the memory itself (MAP_SYNC), on any other file it is played: see [`Backing`].

#[expect(unsafe_code, reason = "instructions for cache lines, under a rule of SAFETY.md")]
mod lines;
#[expect(unsafe_code, reason = "mapped files, under a rule of SAFETY.md")]
mod mapped;

#[cfg(test)]
pub(crate) mod recorder;

use std::fmt;
use std::io::Result;

pub use lines::WriteBack;
pub(crate) use mapped::Mapped;

/// The bytes that leave the processor together.
pub(crate) const LINE_BYTES: u64 = 64;

/// What is behind a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// Persistent memory: a file on a DAX file system, mapped with MAP_SYNC. Lines are written back with this instruction and fenced.
    Dax(WriteBack),
    /// Persistent memory played by memory (tmpfs), with the same instructions. It survives the process and not the machine.
    Memory(WriteBack),
    /// Persistent memory played by an ordinary file: a fence is a msync of what was written back since the last one.
    File,
    /// The recorder of tests.
    #[cfg(test)]
    Recorded,
}

impl Backing {
    /// Whether it is something else than persistent memory.
    pub fn is_played(self) -> bool {
        !matches!(self, Self::Dax(_))
    }

    /// Whether a fence costs some instructions and not a call of the system.
    pub(crate) fn is_fenced_by_an_instruction(self) -> bool {
        !matches!(self, Self::File)
    }
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dax(lines) => write!(f, "persistent memory (MAP_SYNC, {lines})"),
            Self::Memory(lines) => {
                write!(f, "played by memory (tmpfs, {lines}): survives the process, not the machine")
            }
            Self::File => write!(f, "played by an ordinary file: durable by msync"),
            #[cfg(test)]
            Self::Recorded => write!(f, "recorded"),
        }
    }
}

/// A directory of regions. One process at a time has it: its owner sees to that.
pub(crate) trait Medium: Send + Sync {
    /// Make every name that there is persistent: who made one may have died before it was.
    fn settle(&self) -> Result<()>;
    /// A region of so many zeros, at least one, in the place of one of that name: that one or all of this one is there at any time. Its room is
    /// taken: storing there never fails. A crash may leave a name with `.new` behind it, which nobody needs.
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn Region>>;
    /// A region that is there.
    fn open(&self, name: &str) -> Result<Box<dyn Region>>;
    /// Give a region another name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// A region goes; whoever has it open keeps it.
    fn remove(&self, name: &str) -> Result<()>;
    /// All names of the directory, sorted, of other files too.
    fn names(&self) -> Result<Vec<String>>;
}

/// A stretch of persistent memory. The one who has it open is alone with it.
pub(crate) trait Region: Send + Sync {
    /// What is behind it.
    fn backing(&self) -> Backing;
    /// All of it, as stores left it.
    fn bytes(&self) -> &[u8];
    /// Store `bytes` at `offset`, within it.
    fn store(&mut self, offset: u64, bytes: &[u8]);
    /// Have the lines of a range within it written back.
    fn write_back(&mut self, offset: u64, bytes: u64);
    /// Wait until what was written back is persistent.
    fn fence(&mut self) -> Result<()>;
}
