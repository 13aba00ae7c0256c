//! Which records a figure or a conclusion was drawn from, so that a page can lead from it to their lines.
//!
//! Whoever looks for records says which it found ([`Seen::saw`]); whoever draws something from them does so within [`Seen::figure`] or
//! [`Seen::finding`].

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::{Figure, Finding};

/// The records that were looked at since somebody began to draw something.
#[derive(Debug)]
pub(super) struct Seen<'a, R> {
    records: &'a [R],
    lines: RefCell<BTreeSet<u32>>,
}

impl<'a, R> Seen<'a, R> {
    /// Of `records`, in the order of their lines.
    pub(super) fn of(records: &'a [R]) -> Self {
        Self { records, lines: RefCell::default() }
    }

    /// One of them was found and used.
    pub(super) fn saw(&self, record: &R) {
        let place = self.records.iter().position(|other| std::ptr::eq(other, record));
        self.lines.borrow_mut().extend(place.map(|place| place as u32 + 1));
    }

    fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<u32>) {
        self.lines.take();
        let done = work();
        (done, self.lines.take().into_iter().collect())
    }

    /// The figure that `of` draws, with the lines that it draws it from.
    pub(super) fn figure(&self, of: impl FnOnce() -> Figure) -> Figure {
        let (figure, lines) = self.during(of);
        Figure { lines, ..figure }
    }

    /// The conclusion that `of` draws, with the lines that it draws it from.
    pub(super) fn finding(&self, of: impl FnOnce() -> Finding) -> Finding {
        let (finding, lines) = self.during(of);
        Finding { lines, ..finding }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Unit;

    /// Fails if what was looked at before counts, if a record is taken for another one that is equal, or if lines begin with 0.
    #[test]
    fn a_figure_has_the_lines_of_what_was_looked_at_for_it() {
        let records = [7, 7, 8];
        let seen = Seen::of(&records);
        seen.saw(&records[0]);
        let figure = || Figure::new("a", "throughput", Unit::Ratio);
        let of = |places: &'static [usize]| {
            seen.figure(|| {
                places.iter().for_each(|place| seen.saw(&records[*place]));
                figure()
            })
        };
        assert_eq!(of(&[2, 1, 2]).lines, [2, 3]);
        assert_eq!(of(&[]).lines, [0u32; 0]);
        let finding = seen.finding(|| {
            seen.saw(&records[0]);
            seen.saw(&7);
            Finding::unknown(String::new(), None)
        });
        assert_eq!(finding.lines, [1]);
    }
}
