//! The log's next segment, made before it is needed, so that nobody waits for it with the log in hand.
//!
//! Invariants:
//! 1. A spare segment is zeros, persistently, and nobody stores anything there before it has the name of a segment.
//! 2. It is used once: whoever takes it gives it that name, or leaves it.
//!
//! Crash argument: its name is none that the log goes by, and whoever opens the graph removes it. From when it is renamed it is what
//! [`Medium::create`](crate::media::persistent::Medium::create) would have made.

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
    /// Held while one is being made: whoever needs it waits for that.
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

    /// The one that was made, if that has room for `bytes`. Whoever takes it renames it.
    pub(super) fn take(&self, bytes: u64) -> Option<Box<dyn Region>> {
        let mut made = self.shared.made();
        let is_large = made.as_ref().is_some_and(|region| region.bytes().len() as u64 >= bytes);
        if is_large { made.take() } else { None }
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
