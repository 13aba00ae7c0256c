//! Bytes that went to and came from storage, by counters that can be read while a run goes on.

use std::io::ErrorKind;

use super::process;

/// Bytes since some beginning of the counter's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Read from storage.
    pub read_bytes: u64,
    /// Written to it.
    pub written_bytes: u64,
    /// Not among them, and handed over all the same: files of this were removed, or cut, before the kernel wrote it.
    pub cancelled_bytes: u64,
}

impl Traffic {
    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            cancelled_bytes: self.cancelled_bytes.saturating_sub(before.cancelled_bytes),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            cancelled_bytes: self.cancelled_bytes + other.cancelled_bytes,
        }
    }
}

/// This process with those that it started, while they live. To find them all processes of the machine are looked at, so that is done
/// only where there were some when it was [asked](Self::look): an engine that is a server starts it when it is opened.
#[derive(Debug, Default)]
pub struct Processes {
    others: Others,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Others {
    #[default]
    None,
    Some,
    /// There are some that this process may not look at.
    Hidden,
}

impl Processes {
    /// This one alone, as long as nobody looks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Find out whether this process has started others.
    pub fn look(&mut self) {
        let denied = |other: &u32| process::traffic_of(*other).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
        let below = process::processes_below();
        self.others = if below.is_empty() {
            Others::None
        } else if below.iter().any(denied) {
            Others::Hidden
        } else {
            Others::Some
        };
    }

    /// What all of them had read and written, those included that were waited for. A process that ends while this looks may count
    /// twice or not at all, until it is asked again. `None` where the kernel does not say.
    pub fn traffic(&self) -> Option<Traffic> {
        let own = process::traffic()?;
        match self.others {
            Others::None => Some(own),
            Others::Hidden => None,
            Others::Some => {
                let below = process::processes_below();
                Some(below.into_iter().filter_map(|other| process::traffic_of(other).ok()?).fold(own, Traffic::and))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_fell_back_gives_nothing_rather_than_too_much() {
        let of = |read_bytes, written_bytes, cancelled_bytes| Traffic { read_bytes, written_bytes, cancelled_bytes };
        let (a, b) = (of(5, 9, 3), of(7, 4, 1));
        assert_eq!(a.since(b), of(0, 5, 2));
        assert_eq!(a.and(b), of(12, 13, 4));
    }

    #[test]
    fn without_others_it_is_this_process() {
        let processes = Processes::new();
        assert_eq!(processes.traffic().is_some(), process::traffic().is_some());
    }
}
