//! When a write counts as done.

use std::fmt;
use std::str::FromStr;

use biombo_base::Error;

/// When a write is acknowledged. Ordered: a later variant promises more.
///
/// ```
/// use biombo_engine::Durability;
/// assert!(Durability::Sync > Durability::Os);
/// assert_eq!("os".parse::<Durability>().ok(), Some(Durability::Os));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Durability {
    /// Visible at once, logged a bounded time later; errors surface at the next flush. Engines without it treat it as `Os`.
    Relaxed,
    /// In the kernel's hands: survives the death of the process, not a power cut.
    Os,
    /// On the device: survives a power cut.
    #[default]
    Sync,
}

impl Durability {
    /// The name that the command line, records and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relaxed => "relaxed",
            Self::Os => "os",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "relaxed" => Ok(Self::Relaxed),
            "os" => Ok(Self::Os),
            "sync" => Ok(Self::Sync),
            other => Err(Error::invalid(format!("durability `{other}` is none of sync, os, relaxed"))),
        }
    }
}
