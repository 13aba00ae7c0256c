//! Which mode the next append is written in: by what appends ask for, without flapping.
//!
//! `Sync` appends go through the page cache and are synced by fdatasync, which costs no more than a synced direct write where the
//! room is in use already, and leaves in memory what is likely to be read next: written direct, a record is read back from the
//! device at its first use, page by page. (A at `sync` with 64 threads: 218 k against 138 k operations a second.) Where sealed
//! segments are read past the page cache, they are also written past it.

use biombo_base::io::IoMode;

use crate::{Durability, Mode, Modes};

/// `Sync` appends that a mapped segment takes, each with an fdatasync, before it is sealed. Few: a sync through a mapping
/// writes a megabyte where one after a write takes a block.
const MAPPED_SYNCS_MAX: u32 = 3;
/// `Os` appends in sequence that a segment for synced writes takes before it is sealed. Written direct, each costs some fifty copies
/// into a mapping, and sealing and beginning a segment about as much as ten of them.
const OS_MAX: u32 = 32;

#[derive(Debug, Clone)]
pub(crate) struct Chooser {
    modes: Modes,
    /// What `Sync` appends are written in.
    synced: Mode,
    /// `Sync` appends to mapped segments, not many `Os` appends apart.
    syncs: u32,
    /// `Os` appends in sequence.
    os_run: u32,
}

impl Chooser {
    /// A chooser among `modes` for a log whose sealed segments are read by `io`.
    pub fn new(modes: Modes, io: IoMode) -> Self {
        let synced = match io {
            IoMode::Mmap => Mode::Buffered,
            IoMode::Direct => Mode::Direct,
        };
        Self { modes, synced, syncs: 0, os_run: 0 }
    }

    /// The mode for an append, when segments are written in `active` now.
    #[inline]
    pub fn choose(&mut self, active: Option<Mode>, durability: Durability) -> Mode {
        let Modes::ByDurability = self.modes else {
            let Modes::Always(mode) = self.modes else { return self.synced };
            return mode;
        };
        match durability {
            Durability::Os => {
                self.os_run = self.os_run.saturating_add(1);
                if self.os_run >= OS_MAX {
                    self.syncs = 0;
                }
                if active == Some(self.synced) && self.os_run < OS_MAX { self.synced } else { Mode::Mapped }
            }
            Durability::Sync => {
                self.os_run = 0;
                self.syncs = self.syncs.saturating_add(1);
                if active == Some(Mode::Mapped) && self.syncs <= MAPPED_SYNCS_MAX {
                    return Mode::Mapped;
                }
                self.syncs = 0;
                self.synced
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_follow_what_is_asked_for_and_do_not_flap() {
        for (io, synced) in [(IoMode::Mmap, Mode::Buffered), (IoMode::Direct, Mode::Direct)] {
            follow(io, synced);
        }
        let mut always = Chooser::new(Modes::Always(Mode::Buffered), IoMode::Direct);
        assert_eq!(always.choose(None, Durability::Os), Mode::Buffered);
    }

    fn follow(io: IoMode, synced: Mode) {
        let mut chooser = Chooser::new(Modes::ByDurability, io);
        let mut active = None;
        let mut run = |durability, count: u32| {
            let mut changes = 0;
            for _ in 0..count {
                let mode = chooser.choose(active, durability);
                if active != Some(mode) {
                    changes += 1;
                }
                active = Some(mode);
            }
            (active.unwrap(), changes)
        };
        let (os, sync) = (Durability::Os, Durability::Sync);
        assert_eq!(run(os, 1000), (Mode::Mapped, 1));
        assert_eq!(run(sync, 3), (Mode::Mapped, 0));
        assert_eq!(run(os, 31), (Mode::Mapped, 0));
        assert_eq!(run(sync, 1), (synced, 1), "syncs with few appends between them count together");
        assert_eq!(run(os, 31), (synced, 0));
        assert_eq!(run(sync, 1000), (synced, 0));
        assert_eq!(run(os, 100), (Mode::Mapped, 1));
        for _ in 0..20 {
            assert_eq!(
                (run(sync, 3), run(os, 100)),
                ((Mode::Mapped, 0), (Mode::Mapped, 0)),
                "a rare sync changes nothing"
            );
        }
    }
}
