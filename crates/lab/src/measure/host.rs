//! The machine that a run is on.

use serde::{Deserialize, Serialize};

/// For the record and the report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Host {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// The kernel's release.
    pub kernel: String,
}

impl Host {
    /// This one.
    pub fn here() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| ["model name", "Model", "cpu"].contains(&name.trim()))
                .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, value)| value.trim().to_owned()),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        }
    }
}

/// The memory that there is for this process, in bytes: the machine's, or what its control groups allow where that is less; `None` where the
/// kernel does not say.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    Some(super::memory::granted().map_or(machine, |granted| granted.min(machine)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_cores_and_memory() {
        let host = Host::here();
        assert!(!host.cpu.is_empty() && host.cores > 0 && !host.kernel.is_empty());
        assert!(memory_bytes().unwrap() > 1 << 20);
    }
}
