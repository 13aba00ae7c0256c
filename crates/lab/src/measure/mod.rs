//! What a run costs beside time: memory, room on disk, bytes written, and on which machine.

pub mod device;
pub mod disk;
pub mod host;
pub mod process;

pub use device::Device;
pub use host::Host;
