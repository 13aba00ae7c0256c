//! How data that is written no more is read back.

use std::fmt;
use std::str::FromStr;

/// How data that is written no more is read back from its files.
///
/// ```
/// use biombo_base::io::IoMode;
/// assert_eq!("direct".parse(), Ok(IoMode::Direct));
/// assert_eq!(IoMode::default().to_string(), "mmap");
/// assert!("mapped".parse::<IoMode>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IoMode {
    /// Through mappings: the kernel's page cache, which takes what memory is free. A page that the device cannot read back
    /// ends the process with a signal.
    #[default]
    Mmap,
    /// By O_DIRECT reads through a cache of its own, as large as the caller says. A block that the device cannot read back is
    /// an error of that read.
    Direct,
}

impl IoMode {
    /// All, in the order in which they are listed.
    pub const ALL: [Self; 2] = [Self::Mmap, Self::Direct];

    /// Its one name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mmap => "mmap",
            Self::Direct => "direct",
        }
    }
}

impl fmt::Display for IoMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for IoMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| format!("`{name}` is no way of reading; there are mmap and direct"))
    }
}
