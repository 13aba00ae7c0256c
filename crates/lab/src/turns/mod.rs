//! Two builds that take turns of some milliseconds, so that what the machine does meanwhile meets both alike.
//!
//! A virtual machine is faster in one tenth of a second than in the next, by more than builds differ. Runs that are made one after another
//! have that in their ratio; runs that change places twenty times a second have not.
//!
//! Three kinds of processes take part. The *umpire* is the comparison, which starts a bench of each build. A bench takes its *seat*, which says that it
//! knows turns, and that the umpire lives (`Seat`). Each run of it is a *player* (`Player`), in the worker's process. The umpire speaks with both
//! over a socket of each side, in words of one line ([`Umpire`]):
//!
//! | player | umpire | meaning |
//! |---|---|---|
//! | `run INDEX` | | a run of the plan wants to begin; runs of one number play together, those that the other side lacks alone |
//! | | `load` | it may open and load: the other one does not work meanwhile |
//! | `ready` | | loaded; its clients wait for the beginning. It is stopped with all its threads |
//! | | `go` | its turn begins; it was continued |
//! | | `rest` | its turn is over: no client begins another operation |
//! | `resting` | | its clients stand still, their clocks with them. It is stopped |
//! | `done` | | its last operation has ended. It is stopped |
//! | | `close` | both are done: it may close, by itself again |
//!
//! 1. At most one of the two works at any moment: the other one has not begun, or is stopped by `SIGSTOP`, and the servers that it
//!    started with it, so that its own threads do not meet the one that is measured. What the kernel does for both goes on: pages that one wrote are
//!    written back in the other's turns, too, and the memory for files is shared. A build that writes more slows the other as well, by some of
//!    it; where that is what is to be seen, turns of seconds or none (`--turn 0`) show it better.
//! 2. Clients stand still between two operations (`Gate`), so that no operation is cut by a stop; while they do, their clocks do (`RunClock::skip`).
//!    Throughput, latencies and their timeline are of the time of turns. What engines time for themselves, such as compactions, is not, nor what
//!    they pace by the machine's clock: seen from turns, a checkpoint of so many bytes a second has twice of them. The series of
//!    amplification, whose clock is the machine's, and bytes that the device counts, which are both builds', are left out.
//! 3. Whoever goes away, for whatever reason, is out: the other one goes on alone. When the umpire goes away, seats are left, benches end their runs, and
//!    a worker is killed, stopped or not. When a bench does, the kernel ends its worker.
//! 4. How long a run may take is its bench's business, as ever; a worker says when it waits for the other, and that time does not count.

mod gate;
mod player;
mod seat;
mod umpire;

pub(crate) use self::gate::Gate;
pub(crate) use self::player::Player;
pub(crate) use self::seat::{RUN, Seat};
pub use self::seat::{TURNS, take_seat};
pub use self::umpire::Umpire;

#[cfg(test)]
mod tests;
