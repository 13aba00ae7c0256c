//! The order of a move's steps, and nothing else: outcomes go in, the next step comes out. No I/O, no clock.
//!
//! ```text
//! Begin Attach ( Read Take Load Forward )*  ( Take Forward )*  Sync  ( Take Forward )*  Close Forward Sync Flip Publish : moved
//!   \      \______________________________________________________________________________/   |
//!    \__ nothing happened        failed: Detach, given up                                      unknown: undecided
//!
//! Close Forward : too much is left to forward.  Reopen Forward ( Take Forward )*  Close Forward ...
//! ```
//!
//! Why it is right. Let A(t) be what the source holds of the units at time t, t_n the n-th taking of the queue (attaching is t_0), P_n
//! the position after the n-th chunk, and Q_n the writes between t_n and t_n+1.
//!
//! 1. *After Load and Forward of round n the target holds A(t_n+1), for keys up to P_n.* By induction: before the round it holds A(t_n) up
//!    to P_n-1. The chunk gives, for each key between P_n-1 and P_n, the value of some instant between t_n and t_n+1, because it was read between
//!    the takings. Forwarding Q_n up to P_n then gives A(t_n+1): keys that Q_n writes end as its last write to them says, whatever the chunk
//!    had; keys that it does not write have not changed between t_n and t_n+1, so the chunk's value is theirs. So neither an engine's
//!    snapshot nor the lane's lock is needed while a chunk is read. Writes of Q_n past P_n are dropped: a later chunk reads them.
//!    A round may take nothing, and Q_n go on: then the chunks of several rounds were read between t_n and t_n+1, and what is said of one
//!    is true of all of them. And of several writes of Q_n to one key the last alone need be forwarded.
//! 2. With the last chunk P is the end, nothing is dropped any more, and every (Take, Forward) brings the target to A of that taking.
//! 3. Close takes the rest, and no write of the units comes after it: after its Forward the target holds A for good. It is synced, and
//!    the rest of the batches is settled of which the units have a part (`run`), before the flip is appended, the flip is durable before it is published, and it is published before a writer of the units goes on.
//!    So whichever partition a crash finds to be the owner holds every write that was acknowledged.
//!    Where that Forward is too much to hold writers back for (a range that was deleted may be of any number of keys), they are let go, and all that Close
//!    took is forwarded again, from its beginning: the operations are absolute, so those that were applied twice leave what they would have left once;
//!    and what came after it is still in the queue. Then it is as in 2.
//! 4. Nothing before Flip changes who owns what: a failure there leaves the source as it is and the target with garbage, as the begin said.

/// What the runtime is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// Append the begin, durably; from then on scans leave out what the target holds of the units.
    Begin,
    /// Under the source's lock: forward writes of the units from now on.
    Attach,
    /// Read the next chunk of the source.
    Read,
    /// Under the source's lock: take what was forwarded; while chunks are read, perhaps nothing.
    Take,
    /// Apply the chunk that was read to the target.
    Load,
    /// Apply what was taken to the target, up to the position.
    Forward,
    /// Make the target durable, and whatever else is of batches that it has a part of.
    Sync,
    /// Under the source's lock: hold back writes of the units from now on, and take what was forwarded.
    Close,
    /// Under the source's lock: hold back nothing any more, what was taken stays taken; then wake who waits.
    Reopen,
    /// Append the flip, durably.
    Flip,
    /// Under the source's lock: replace the topology, detach; then wake who waits.
    Publish,
    /// Under the source's lock: detach; then wake who waits.
    Detach,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Outcome {
    /// It is done.
    Done,
    /// It is done, and no key of the source is left to read.
    End,
    /// So many bytes were taken.
    Taken(usize),
    /// It is more than writers may wait for, and not, or not wholly, done (`Forward` after `Close` alone).
    TooMuch,
    /// It did not happen.
    Failed,
    /// It may have happened (`Flip` alone).
    Unknown,
}

/// How a move ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum End {
    /// Nothing was begun.
    Refused,
    /// The target owns the units.
    Moved,
    /// The source owns them, and the target holds garbage of them.
    GivenUp,
    /// The next opening finds out which of the two.
    Undecided,
}

/// What may be left to forward when the units are closed, in bytes: it is forwarded while writers wait.
pub(crate) const CLOSE_BYTES_MAX: usize = 64 << 10;
/// Keys that may be looked at to forward ranges that were deleted, while writers wait.
pub(crate) const CLOSE_KEYS_MAX: usize = if cfg!(test) { 2 } else { 2048 };
/// Rounds of forwarding after which the target is too slow for the writers, and how many closing in vain counts for.
const ROUNDS_MAX: u32 = 64;
const ROUNDS_OF_REOPENING: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum State {
    /// Copying; whether the last chunk was read.
    Copy {
        step: Step,
        is_last: bool,
    },
    /// Forwarding what came meanwhile; whether the target was synced in bulk, and what was taken.
    CatchUp {
        step: Step,
        is_synced: bool,
        bytes: usize,
        rounds: u32,
    },
    /// The units change hands.
    HandOver {
        step: Step,
        rounds: u32,
    },
    Over(End),
}

/// A move under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Machine(State);

impl Machine {
    pub(crate) fn new() -> Self {
        Self(State::Copy { step: Step::Begin, is_last: false })
    }

    /// What to do next, or how it ended.
    pub(crate) fn step(&self) -> Result<Step, End> {
        match self.0 {
            State::Copy { step, .. } | State::CatchUp { step, .. } | State::HandOver { step, .. } => Ok(step),
            State::Over(end) => Err(end),
        }
    }

    /// Whether the last chunk was read, so that the position is the end: nothing that is forwarded lies past it.
    pub(crate) fn is_copied(&self) -> bool {
        !matches!(self.0, State::Copy { is_last: false, .. })
    }

    /// The step came to `outcome`.
    pub(crate) fn done(&mut self, outcome: Outcome) {
        self.0 = match (self.0, outcome) {
            (State::Over(end), _) => State::Over(end),
            (State::HandOver { step: Step::Detach, .. }, _) => State::Over(End::GivenUp),
            (State::HandOver { step: Step::Flip, .. }, Outcome::Unknown) => State::Over(End::Undecided),
            // The flip is durable: there is no way back.
            (State::HandOver { step: Step::Publish, .. }, Outcome::Failed | Outcome::Unknown) => {
                State::Over(End::Undecided)
            }
            (State::HandOver { step: Step::Forward, rounds }, Outcome::TooMuch) if rounds >= ROUNDS_MAX => {
                give_up(rounds)
            }
            (State::HandOver { step: Step::Forward, rounds }, Outcome::TooMuch) => {
                let rounds = rounds + ROUNDS_OF_REOPENING;
                State::CatchUp { step: Step::Reopen, is_synced: true, bytes: CLOSE_BYTES_MAX + 1, rounds }
            }
            (State::Copy { step: Step::Begin, .. }, Outcome::Failed) => State::Over(End::Refused),
            (_, Outcome::Failed | Outcome::Unknown) => give_up(0),
            (State::Copy { step, is_last }, outcome) => copy(step, is_last || outcome == Outcome::End),
            (State::CatchUp { step, is_synced, bytes, rounds }, outcome) => {
                let bytes = if let Outcome::Taken(taken) = outcome { taken } else { bytes };
                catch_up(step, is_synced, bytes, rounds)
            }
            (State::HandOver { step, rounds }, _) => hand_over(step, rounds),
        };
    }
}

fn copy(step: Step, is_last: bool) -> State {
    let step = match step {
        Step::Begin => Step::Attach,
        Step::Read => Step::Take,
        Step::Take => Step::Load,
        Step::Load => Step::Forward,
        _ if is_last => {
            return State::CatchUp { step: Step::Take, is_synced: false, bytes: 0, rounds: 0 };
        }
        _ => Step::Read,
    };
    State::Copy { step, is_last }
}

fn catch_up(step: Step, is_synced: bool, bytes: usize, rounds: u32) -> State {
    let (step, is_synced) = match step {
        Step::Take | Step::Reopen => (Step::Forward, is_synced),
        Step::Forward if bytes > CLOSE_BYTES_MAX && rounds < ROUNDS_MAX => (Step::Take, is_synced),
        Step::Forward if bytes > CLOSE_BYTES_MAX => return give_up(rounds),
        Step::Forward if !is_synced => (Step::Sync, true),
        Step::Forward => return State::HandOver { step: Step::Close, rounds },
        _ => (Step::Take, is_synced),
    };
    State::CatchUp { step, is_synced, bytes, rounds: rounds + u32::from(step == Step::Take) }
}

fn hand_over(step: Step, rounds: u32) -> State {
    let step = match step {
        Step::Close => Step::Forward,
        Step::Forward => Step::Sync,
        Step::Sync => Step::Flip,
        Step::Flip => Step::Publish,
        _ => return State::Over(End::Moved),
    };
    State::HandOver { step, rounds }
}

fn give_up(rounds: u32) -> State {
    State::HandOver { step: Step::Detach, rounds }
}
