//! Whether vertices that a file names all at once fit this machine.
//!
//! A header of some bytes may name two thousand million vertices. Each takes [`VERTEX_BYTES`] at least, whether it has edges or not, and
//! what has been taken for half of them, in memory or in the log of a good graph, is hard to undo: it is refused before.

use biombo_base::{Error, Result};
use rustix::process::{Resource, getrlimit};

use crate::VERTICES_MAX;

/// What a vertex takes, in bytes: its id, its place in the table of ids, where its list is and how long.
const VERTEX_BYTES: u64 = 24;

/// Refuse vertices from `first` to `last` where they are more than a graph can have, or than there is memory for. `name` is the file that
/// names them.
///
/// # Errors
/// `Invalid`.
pub(super) fn check(name: &str, (first, last): (u64, u64)) -> Result<()> {
    check_with(name, (first, last), available_bytes())
}

fn check_with(name: &str, (first, last): (u64, u64), available: Option<u64>) -> Result<()> {
    let count = u128::from(last.saturating_sub(first)) + 1;
    if count > VERTICES_MAX as u128 {
        let message = format!("{name} is of {count} vertices; {VERTICES_MAX} are the most of a graph");
        return Err(Error::invalid(message));
    }
    let needed = count as u64 * VERTEX_BYTES;
    match available.filter(|available| needed > *available) {
        None => Ok(()),
        Some(available) => Err(Error::invalid(format!(
            "{name} is of {count} vertices, which take {} MiB at least; {} MiB of memory are available",
            needed >> 20,
            available >> 20
        ))),
    }
}

/// How much memory there is for this process, in bytes; `None` where nothing says so.
fn available_bytes() -> Option<u64> {
    let of_machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    let of_process = getrlimit(Resource::As).current;
    of_machine.into_iter().chain(of_process).min()
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_out_of_all_proportion_to_memory_are_refused() {
        let refused = |last, available| check_with("f", (1, last), available).map_err(|error| error.to_string());
        assert_eq!(refused(1 << 20, Some(24 << 20)), Ok(()));
        let error = refused((1 << 20) + 1, Some(24 << 20)).expect_err("a vertex too many");
        assert!(error.contains("f is of 1048577 vertices, which take 24 MiB at least; 24 MiB of memory"), "{error}");
        assert_eq!(refused(VERTICES_MAX as u64, None), Ok(()), "who does not know does not refuse");
        for last in [VERTICES_MAX as u64 + 1, u64::MAX] {
            let error = refused(last, None).expect_err("more than any graph has");
            assert!(error.contains(&format!("of {last} vertices; {VERTICES_MAX} are the most")), "{error}");
        }
    }

    #[test]
    fn this_machine_says_how_much_there_is() {
        assert_eq!(available_in("MemTotal: 9 kB\nMemFree: 2 kB\nMemAvailable:    7 kB\n"), Some(7 << 10));
        assert_eq!(available_in("MemTotal: 9 kB\n"), None);
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
