//! The log's next segment, made before it is needed, so that nobody waits for it with the log in hand.
//!
//! Invariants:
//! 1. A spare segment is zeros, persistently, and nobody stores anything there before it has the name of a segment.
//! 2. It is used once: whoever takes it gives it that name in the same step, so that nobody makes another one under the old name in between.
//!
//! Crash argument: its name is none that the log goes by, and whoever opens the graph removes it. From when it is renamed it is what
//! [`Medium::create`](crate::media::persistent::Medium::create) would have made.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::Result;

use super::Place;
use crate::media::persistent::Region;
use crate::pma::saver::Saver;

/// Its name until it is taken.
pub(super) const NAME: &str = "log.new";

/// See the module.
pub(super) struct Spare {
    shared: Arc<Shared>,
    /// Who makes it; `None` where that is whoever asks.
    maker: Option<Saver>,
}

struct Shared {
    place: Place,
    bytes: u64,
    /// Held while one is being made or gets another name: the one in here is the one that is called [`NAME`].
    made: Mutex<Option<Box<dyn Region>>>,
}

impl Shared {
    fn made(&self) -> MutexGuard<'_, Option<Box<dyn Region>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self) {
        let mut made = self.made();
        if made.is_none() {
            // Where there is no room for one now, there may be when it is needed; otherwise that fails, and says why.
            *made = self.place.medium.create(NAME, self.bytes).ok();
        }
    }
}

impl Spare {
    /// None yet; they will have so many bytes, and are made by a thread of their own if `aside`.
    ///
    /// # Errors
    /// `Io` when the system gives no thread.
    pub(super) fn new(place: &Place, bytes: u64, aside: bool) -> Result<Self> {
        let shared = Arc::new(Shared { place: place.clone(), bytes, made: Mutex::default() });
        let of_maker = shared.clone();
        let maker = aside.then(|| Saver::start(move || of_maker.make())).transpose()?;
        Ok(Self { shared, maker })
    }

    /// One will be needed.
    pub(super) fn ask(&self) {
        match &self.maker {
            Some(maker) => maker.ask(),
            None => self.shared.make(),
        }
    }

    /// The one that was made, which is called `name` now, if it has room for `bytes`.
    pub(super) fn take(&self, bytes: u64, name: &str) -> Option<std::io::Result<Box<dyn Region>>> {
        let mut made = self.shared.made();
        let spare = made.take_if(|region| region.bytes().len() as u64 >= bytes)?;
        match self.shared.place.medium.rename(NAME, name) {
            Ok(()) => Some(Ok(spare)),
            Err(error) => {
                if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
                    // No name has changed: it is one still, whose room can be given back.
                    *made = Some(spare);
                }
                Some(Err(error))
            }
        }
    }

    /// Give its room back; whether there was one.
    pub(super) fn give_back(&self) -> bool {
        let mut made = self.shared.made();
        // Whoever opens the graph next removes one that stays.
        made.take().is_some_and(|_| self.shared.place.medium.remove(NAME).is_ok())
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.maker = None;
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::media::persistent::Medium;
    use crate::media::persistent::recorder::Recorder;

    /// A medium on which somebody makes another spare segment just before one gets its name, as far as he is let.
    struct Overtaken {
        recorder: Recorder,
        by: Mutex<Weak<Shared>>,
        /// There is no room for names meanwhile.
        is_full: AtomicBool,
    }

    impl Medium for Overtaken {
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            if self.is_full.load(Ordering::Relaxed) {
                return Err(ErrorKind::StorageFull.into());
            }
            let other = self.by.lock().expect("no panic").upgrade().expect("the spare segment's owner");
            let (say, heard) = channel();
            std::thread::spawn(move || {
                other.make();
                _ = say.send(());
            });
            _ = heard.recv_timeout(Duration::from_millis(200));
            self.recorder.rename(from, to)
        }

        fn settle(&self) -> io::Result<()> {
            self.recorder.settle()
        }

        fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn Region>> {
            self.recorder.create(name, bytes)
        }

        fn open(&self, name: &str) -> io::Result<Box<dyn Region>> {
            self.recorder.open(name)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.recorder.remove(name)
        }

        fn names(&self) -> io::Result<Vec<String>> {
            self.recorder.names()
        }
    }

    /// Fails when the name goes to a segment that was made after the one that is written: all that is acknowledged there would be nowhere.
    #[test]
    fn the_segment_that_is_taken_is_the_one_that_gets_the_name() {
        let medium =
            Arc::new(Overtaken { recorder: Recorder::new(), by: Mutex::default(), is_full: AtomicBool::new(true) });
        let place = Place { medium: medium.clone(), dir: PathBuf::from("graph") };
        let spare = Spare::new(&place, 4096, false).expect("no thread");
        *medium.by.lock().expect("no panic") = Arc::downgrade(&spare.shared);
        assert!(spare.take(1, "log-0").is_none(), "none was made");
        spare.ask();
        assert!(spare.take(4097, "log-0").is_none(), "it is too short");
        assert!(spare.take(1, "log-0").is_some_and(|taken| taken.is_err()), "there is no room for its name");
        assert!(spare.give_back() && !spare.give_back(), "it is left where it was");
        medium.is_full.store(false, Ordering::Relaxed);
        spare.ask();
        let mut taken = spare.take(4096, "log-1").expect("it was made").expect("renamed");
        taken.store(0, b"acknowledged");
        taken.write_back(0, 12);
        taken.fence().expect("durable");
        let found = medium.open("log-1").expect("it has the name");
        assert!(found.bytes().starts_with(b"acknowledged"), "another segment has the name");
    }
}
