//! What the kernel counts for this process, and for those that it started: the server of an engine that is one.

use std::collections::BTreeMap;

use super::Traffic;

/// Bytes that this process had read from storage and caused to be written to it. Read: what was fetched because it was not in memory
/// (`read_bytes` of `/proc/self/io`). Written: pages dirtied and direct writes, less pages that were dropped before they were written
/// (`write_bytes` less `cancelled_write_bytes`). What a child did counts from the moment when it was waited for, and with it what its
/// own children did. `None` where the kernel does not say.
pub fn traffic() -> Option<Traffic> {
    parse_io(&std::fs::read_to_string("/proc/self/io").ok()?)
}

/// The same of another process; an error where it is gone or may not be looked at.
pub(super) fn traffic_of(process: u32) -> std::io::Result<Option<Traffic>> {
    std::fs::read_to_string(format!("/proc/{process}/io")).map(|text| parse_io(&text))
}

fn parse_io(text: &str) -> Option<Traffic> {
    let written = field(text, "write_bytes:")?.saturating_sub(field(text, "cancelled_write_bytes:")?);
    Some(Traffic { read_bytes: field(text, "read_bytes:")?, written_bytes: written })
}

/// The most memory that this process has had resident so far, in bytes; pages of mapped files count.
pub fn rss_bytes_max() -> Option<u64> {
    Some(field(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")? * 1024)
}

/// Processor seconds of this process so far, in user code and in the kernel, with those of the children that it waited for and of theirs.
pub fn cpu_seconds() -> Option<f64> {
    let ticks = cpu_ticks(&std::fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Fields 14 to 17 of `/proc/PID/stat`; the name, the second, may hold anything, and ends with the last parenthesis.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4).then(|| ticks.iter().sum())
}

/// The memory that the processes below this one have resident at this moment, in bytes. Pages that they share count once, as far as can
/// be told cheaply: each one's own pages, and of shared memory and of files what the largest holds.
pub fn rss_bytes_below() -> u64 {
    let statuses = processes_below().into_iter().map(|process| {
        // One that ended meanwhile has none.
        std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default()
    });
    together(statuses)
}

/// The processes below this one at this moment, parents before their children. Looks at every process of the machine.
pub(super) fn processes_below() -> Vec<u32> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        parents.extend(parent(&stat).map(|parent| (process, parent)));
    }
    below(std::process::id(), &parents)
}

/// The parent by a line of `/proc/PID/stat`: the second field behind the name, which stands in parentheses and may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// All that descend from `root`.
fn below(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(parents.iter().filter(|(_, parent)| **parent == of).map(|(process, _)| *process));
        at += 1;
    }
    found.split_off(1)
}

/// Bytes by the texts of `/proc/PID/status`.
fn together(statuses: impl Iterator<Item = String>) -> u64 {
    let (mut own, mut shared, mut files) = (0, 0, 0);
    for status in statuses {
        let of = |name: &str| field(&status, name).unwrap_or(0) * 1024;
        own += of("RssAnon:");
        shared = of("RssShmem:").max(shared);
        files = of("RssFile:").max(files);
    }
    own + shared + files
}

/// The number after the line's beginning `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Processes;

    #[test]
    fn dropped_pages_are_not_counted_as_written() {
        let text = "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 1000\ncancelled_write_bytes: 300\n";
        assert_eq!(parse_io(text), Some(Traffic { read_bytes: 3, written_bytes: 700 }));
        assert_eq!(parse_io("nothing"), None);
    }

    #[test]
    fn processor_time_is_that_of_user_and_kernel_with_children() {
        assert_eq!(cpu_ticks("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 100 20 3000 4 20 0"), Some(3_124));
        assert_eq!(cpu_ticks("7 (a) R 1 2"), None);
        assert!(cpu_seconds().is_some_and(|seconds| seconds < 1e6));
    }

    #[test]
    fn processes_below_are_found_whatever_they_are_called_and_shared_pages_count_once() {
        assert_eq!(parent("7 (a) R 99) S 3 7 7 0"), Some(3));
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 2), (5, 4), (6, 1), (7, 6)]);
        let mut found = below(2, &parents);
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5]);
        let status = |own: u32, file: u32, shared: u32| {
            format!("VmHWM:\t9999 kB\nRssAnon:\t  {own} kB\nRssFile:\t {file} kB\nRssShmem:\t {shared} kB\n")
        };
        let both = [status(10, 5, 1_000), status(20, 7, 400), String::new()];
        assert_eq!(together(both.into_iter()), (30 + 7 + 1_000) * 1024);
    }

    #[test]
    fn a_child_counts_with_its_memory_while_it_lives_and_its_bytes_once_it_was_waited_for() {
        const BYTES: u64 = 8 << 20;
        // Beside this program: the place for temporary files may be in memory.
        let program = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let before = traffic();
        let script = "head -c 8388608 /dev/zero > \"$1/file\" && sync \"$1/file\" && echo done && read -r nothing";
        // A child of a child writes.
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "/bin/sh -c \"$0\" sh \"$1\"; exit 0", script])
            .arg(dir.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        assert_eq!(line, "done\n");
        assert!(rss_bytes_below() > 100_000);
        // While it lives it counts for who looks below.
        let on_a_device = crate::measure::Device::of(dir.path()).is_some();
        let mut processes = Processes::new();
        processes.look();
        if let (Some(before), Some(now), true) = (before, processes.traffic(), on_a_device) {
            assert!(now.since(before).written_bytes >= BYTES, "{now:?} after {before:?}");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        if let (Some(before), Some(after), true) = (before, traffic(), on_a_device) {
            assert!(after.since(before).written_bytes >= BYTES, "{after:?} after {before:?}");
        }
    }

    #[test]
    fn this_process_has_memory() {
        assert!(rss_bytes_max().unwrap() > 100_000);
    }
}
