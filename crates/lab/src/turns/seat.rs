//! A bench that takes part in a comparison by turns.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;

use biombo_base::{Error, Result};

/// The variable by which a comparison tells a bench of its socket: its runs take turns with those of another build.
pub const TURNS: &str = "BIOMBO_LAB_TURNS";
/// The variable by which a bench tells a worker which run of the plan it is.
pub(crate) const RUN: &str = "BIOMBO_LAB_RUN";

/// Held by a bench as long as it goes on.
pub(crate) struct Seat(UnixStream);

/// That of this process, which is one bench.
static TAKEN: OnceLock<Seat> = OnceLock::new();

/// Where a comparison asks for it, tell it that this bench knows turns. To be done before anything that takes its time: who says nothing
/// is taken for one that does not.
///
/// # Errors
/// The comparison is not there.
pub fn take_seat() -> Result<()> {
    if let Some(path) = std::env::var_os(TURNS).map(PathBuf::from) {
        let seat = Seat::at(&path)?;
        TAKEN.get_or_init(|| seat);
    }
    Ok(())
}

impl Seat {
    /// What this process took.
    pub(crate) fn taken() -> Option<&'static Self> {
        TAKEN.get()
    }

    pub(super) fn at(path: &std::path::Path) -> Result<Self> {
        let seated = || {
            let mut stream = UnixStream::connect(path)?;
            stream.write_all(b"bench\n")?;
            stream.set_nonblocking(true)?;
            Ok(Self(stream))
        };
        seated().map_err(|e| Error::io(format!("reach the comparison at {} ({TURNS})", path.display()), e))
    }

    /// Whether the comparison is gone: nobody wants the runs that are left.
    pub(crate) fn is_left(&self) -> bool {
        is_gone(&self.0)
    }
}

/// Whether who held the other end of a stream that does not block is gone.
pub(super) fn is_gone(mut stream: &UnixStream) -> bool {
    let read = stream.read(&mut [0; 8]);
    !matches!(read, Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
}
