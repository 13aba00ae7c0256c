//! What is accessed, how often, and together with what.
//!
//! Who accesses pays next to nothing: a count-down, and now and then a copy of a few keys into a ring of its own thread
//! ([`Tracker`]). Who wants to know drains the rings ([`Tracker::drain`]) into a bounded [`Window`], whose weights halve with each
//! half-life: loads of units, keys with their loads, and pairs of keys that are accessed together.
//!
//! Nothing here waits for anybody: a full ring loses samples, and those that it kept stand for those that were lost. Where that goes on, samples
//! get rarer.
//! Nothing is known of stores either: a unit is a number that the caller gives to a key.
//!
//! ```
//! use biombo_tracker::{Limits, Rates, Tracker, Window};
//!
//! let tracker = Tracker::new(Rates { singles: 1, groups: 1, ..Rates::default() });
//! for _ in 0..100 {
//!     tracker.write_group(2, || [&b"order"[..], b"stock"]);
//! }
//! tracker.read(b"alone");
//!
//! let mut window = Window::new(Limits::default());
//! tracker.drain(|sample| window.note(sample, |key| u32::from(key[0])));
//! let order = window.keys().find(|key| key.key == b"order").expect("it was written");
//! assert_eq!((order.load.writes, order.load.reads), (100.0, 0.0));
//! assert_eq!(window.pairs().count(), 1);
//! ```

#![forbid(unsafe_code)]

mod ring;
mod sample;
mod thinning;
mod tracker;
mod window;

pub use sample::{GROUP_KEYS_MAX, Kind, Sample, Shape};
pub use tracker::{Drained, Rates, Tracker};
pub use window::{KeyView, Limits, Load, Pair, Window};
