//! A thread that saves the graph when somebody asks, so that who asks need not wait.
//!
//! Invariants: asking never waits for a save; what was asked for before the thread ends is either done or not begun; who waits until
//! nothing is asked for goes on then, also when a save panicked; and after a panic the next save is done as any other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use biombo_base::{Error, Result};

/// The thread; it ends with this value, after what it is at.
#[derive(Debug)]
pub(super) struct Saver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    is_wanted: bool,
    is_busy: bool,
    is_over: bool,
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until somebody asks: whether that was for a save.
    fn wait(&self) -> bool {
        let mut asked = self.asked();
        while !asked.is_wanted && !asked.is_over {
            asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
        asked.is_busy = asked.is_wanted;
        asked.is_wanted = false;
        !asked.is_over
    }
}

/// The thread is at it, until this goes.
struct Busy<'a>(&'a Shared);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.asked().is_busy = false;
        self.0.changed.notify_all();
    }
}

/// Nobody asks the thread any more, which is over.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.asked().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Saver {
    /// `save` is done once for each time, or for several times at once, that somebody asks. What it leaves when it panics is its own affair.
    ///
    /// # Errors
    /// `Io` when the system gives no thread.
    pub(super) fn start(save: impl Fn() + Send + 'static) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("graph-saver".to_owned()).spawn(move || {
            let _over = Over(&of_thread);
            while of_thread.wait() {
                let _busy = Busy(&of_thread);
                // It has said so, and whoever asks again gets another try.
                let _ = catch_unwind(AssertUnwindSafe(&save));
            }
        });
        Ok(Self { shared, thread: Some(thread.map_err(|e| Error::io("start a thread", e))?) })
    }

    /// Save once more, soon.
    pub(super) fn ask(&self) {
        self.shared.asked().is_wanted = true;
        self.shared.changed.notify_all();
    }

    /// Wait until all that was asked for is done, or the thread is over.
    pub(super) fn until_done(&self) {
        let mut asked = self.shared.asked();
        while (asked.is_wanted || asked.is_busy) && !asked.is_over {
            asked = self.shared.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        drop(Over(&self.shared));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_saves_when_asked_and_who_asks_does_not_wait() {
        let (began, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let goes_on = Mutex::new(goes_on);
        let saver = Saver::start(move || {
            began.send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
        })
        .unwrap();
        saver.ask();
        begins.recv().unwrap();
        // It is at it: what is asked for now is one more.
        saver.ask();
        saver.ask();
        go_on.send(()).unwrap();
        begins.recv().unwrap();
        go_on.send(()).unwrap();
        drop(saver);
        assert!(begins.recv().is_err(), "no third one, and the thread has ended");
    }

    /// Fails if who waits goes on because the thread has not begun yet, or if a panic ends it; never ends if a panic leaves it waiting.
    #[test]
    fn who_waits_goes_on_when_all_is_done() {
        let done = Arc::new(AtomicUsize::new(0));
        let by_saver = done.clone();
        let saver = Saver::start(move || {
            let before = by_saver.fetch_add(1, Ordering::Relaxed);
            assert!(before % 5 != 3, "this panic is meant");
        })
        .unwrap();
        saver.until_done();
        for times in 1..=22 {
            saver.ask();
            saver.until_done();
            assert_eq!(done.load(Ordering::Relaxed), times);
        }
    }
}
