//! Which mode the next append is written in: by what appends ask for, without flapping.

use crate::{Durability, Mode, Modes};

/// `Sync` appends that a mapped segment takes, each with an fdatasync, before it is sealed. Few: a sync through a mapping
/// writes a megabyte where a direct write takes a block.
const MAPPED_SYNCS_MAX: u32 = 3;
/// `Os` appends in sequence that a direct segment takes before it is sealed. Each costs some fifty copies into a mapping,
/// sealing and beginning a segment about as much as ten of them.
const DIRECT_OS_MAX: u32 = 32;

#[derive(Debug)]
pub(crate) struct Chooser {
    modes: Modes,
    /// `Sync` appends to mapped segments, not many `Os` appends apart.
    syncs: u32,
    /// `Os` appends in sequence.
    os_run: u32,
}

impl Chooser {
    pub fn new(modes: Modes) -> Self {
        Self { modes, syncs: 0, os_run: 0 }
    }

    /// The mode for an append, when segments are written in `active` now.
    #[inline]
    pub fn choose(&mut self, active: Option<Mode>, durability: Durability) -> Mode {
        let Modes::ByDurability = self.modes else {
            let Modes::Always(mode) = self.modes else { return Mode::Direct };
            return mode;
        };
        match durability {
            Durability::Os => {
                self.os_run = self.os_run.saturating_add(1);
                if self.os_run >= DIRECT_OS_MAX {
                    self.syncs = 0;
                }
                if active == Some(Mode::Direct) && self.os_run < DIRECT_OS_MAX { Mode::Direct } else { Mode::Mapped }
            }
            Durability::Sync => {
                self.os_run = 0;
                self.syncs = self.syncs.saturating_add(1);
                if active == Some(Mode::Mapped) && self.syncs <= MAPPED_SYNCS_MAX {
                    return Mode::Mapped;
                }
                self.syncs = 0;
                Mode::Direct
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_follow_what_is_asked_for_and_do_not_flap() {
        let mut chooser = Chooser::new(Modes::ByDurability);
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
        assert_eq!(run(sync, 1), (Mode::Direct, 1), "syncs with few appends between them count together");
        assert_eq!(run(os, 31), (Mode::Direct, 0));
        assert_eq!(run(sync, 1000), (Mode::Direct, 0));
        assert_eq!(run(os, 100), (Mode::Mapped, 1));
        for _ in 0..20 {
            assert_eq!(
                (run(sync, 3), run(os, 100)),
                ((Mode::Mapped, 0), (Mode::Mapped, 0)),
                "a rare sync changes nothing"
            );
        }
        assert_eq!(Chooser::new(Modes::Always(Mode::Buffered)).choose(None, os), Mode::Buffered);
    }
}
