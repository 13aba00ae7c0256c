//! Where callers hand over what a worker is to do, and wait for its answer.
//!
//! A caller has one [`Ticket`], which it uses again and again: it writes what it wants on it, puts it into the worker's [`Queue`] and
//! sleeps. The worker takes all tickets that there are, exchanges what is written on each for a blank of its own, and answers. So what is
//! written circulates in buffers that have grown, and nothing is allocated for an operation.
//!
//! What nobody waits for is a [`Wish`]: many have it, one puts it into the queue, and it is fulfilled for all who had it until then.
//!
//! Invariants:
//!
//! 1. From putting its ticket into a queue until the answer, the caller does nothing but wait: nobody else writes on the ticket.
//! 2. Tickets are taken in the order in which they came, each once. A closed queue takes no more, and what it holds is still taken.
//! 3. A queue holds no more than it has room for; who finds it full waits for room.
//! 4. A worker sleeps only on an empty queue, and who puts the next ticket in wakes it; a caller who waits for room is woken by who takes.
//! 5. What was done before a wish was had is seen by who fulfils it: at once, if it was not in the queue, or by the one that is.
//!
//! The loom test (`tests/pinned_loom`) tries it in every order of its steps.

use std::collections::VecDeque;

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, PoisonError};

/// Something that is to be done once for all who want it.
pub(crate) struct Wish(AtomicBool);

impl Wish {
    /// One that nobody has.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Want it. True: it is not in the queue, and who calls puts it there.
    pub(crate) fn have(&self) -> bool {
        // An exchange on both sides: whoever finds it there came before the worker's own, which then sees all that came before.
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Begin to fulfil it. The worker's, before it looks what there is to be done.
    pub(crate) fn begin(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// What a caller wants, and what came of it.
pub(crate) struct Ticket<J, A> {
    desk: Mutex<(J, Option<A>)>,
    answered: Condvar,
}

impl<J, A> Ticket<J, A> {
    pub(crate) fn new(job: J) -> Self {
        Self { desk: Mutex::new((job, None)), answered: Condvar::new() }
    }

    /// Write what is wanted. The caller's own.
    pub(crate) fn fill(&self, fill: impl FnOnce(&mut J)) {
        fill(&mut self.desk().0);
    }

    /// Wait for the answer. The caller's own, after the ticket went into a queue.
    pub(crate) fn wait(&self) -> A {
        let mut desk = self.desk();
        loop {
            if let Some(answer) = desk.1.take() {
                return answer;
            }
            desk = self.answered.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Take what is wanted, and leave `blank` for the next time. The worker's.
    pub(crate) fn exchange(&self, blank: &mut J) {
        std::mem::swap(&mut self.desk().0, blank);
    }

    /// Answer, once for each time that the ticket was taken. The worker's.
    pub(crate) fn answer(&self, answer: A) {
        self.desk().1 = Some(answer);
        self.answered.notify_one();
    }

    fn desk(&self) -> MutexGuard<'_, (J, Option<A>)> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tickets that wait for one worker.
pub(crate) struct Queue<T> {
    line: Mutex<Line<T>>,
    came: Condvar,
    room: Condvar,
    capacity: usize,
}

struct Line<T> {
    tickets: VecDeque<T>,
    /// The worker sleeps.
    asleep: bool,
    /// Callers who wait for room.
    outside: usize,
    closed: bool,
}

/// The queue takes no more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// How a worker came to the tickets that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// They were there already.
    Waiting,
    /// It had slept.
    Awaited,
}

impl<T> Queue<T> {
    /// A queue with room for so many tickets.
    pub(crate) fn new(capacity: usize) -> Self {
        let line = Line { tickets: VecDeque::with_capacity(capacity), asleep: false, outside: 0, closed: false };
        Self { line: Mutex::new(line), came: Condvar::new(), room: Condvar::new(), capacity }
    }

    /// Put a ticket in, as soon as there is room.
    pub(crate) fn push(&self, ticket: T) -> Result<(), Closed> {
        let mut line = self.line();
        while line.tickets.len() >= self.capacity && !line.closed {
            line.outside += 1;
            line = self.room.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.outside -= 1;
        }
        if line.closed {
            return Err(Closed);
        }
        line.tickets.push_back(ticket);
        let asleep = std::mem::take(&mut line.asleep);
        drop(line);
        if asleep {
            self.came.notify_one();
        }
        Ok(())
    }

    /// Move all tickets into `into`, as soon as there is one; `None`: the queue is closed, and empty.
    pub(crate) fn take(&self, into: &mut impl Extend<T>) -> Option<Came> {
        let mut came = Came::Waiting;
        let mut line = self.line();
        while line.tickets.is_empty() {
            if line.closed {
                return None;
            }
            came = Came::Awaited;
            line.asleep = true;
            line = self.came.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        line.asleep = false;
        into.extend(line.tickets.drain(..));
        let outside = line.outside > 0;
        drop(line);
        if outside {
            self.room.notify_all();
        }
        Some(came)
    }

    /// Take no more tickets.
    pub(crate) fn close(&self) {
        self.line().closed = true;
        self.came.notify_all();
        self.room.notify_all();
    }

    fn line(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
