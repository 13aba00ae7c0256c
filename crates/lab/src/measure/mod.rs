//! What a run costs beside time: memory, room on disk, bytes read and written, and on which machine; what the device gives; and a
//! limit on memory.

pub mod device;
pub mod disk;
pub mod host;
pub mod memory;
pub mod process;
pub mod random_reads;
pub mod traffic;

pub use device::{Device, Place, file_system};
pub use host::Host;
pub use memory::MemoryLimit;
pub use random_reads::random_reads_per_s;
pub use traffic::{Processes, Traffic};
