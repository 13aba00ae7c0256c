//! What the kernel counts for this process, and for those that it started: the server of an engine that is one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Traffic;

/// Bytes that this process had read from storage and caused to be written to it. Read: what was fetched because it was not in memory
/// (`read_bytes` of `/proc/self/io`). Written: pages dirtied and direct writes, less pages that were dropped before they were written
/// (`write_bytes` less `cancelled_write_bytes`; the latter stand beside). What a child did counts from the moment when it was waited for, and with it what its
/// own children did. `None` where the kernel does not say.
pub fn traffic() -> Option<Traffic> {
    parse_io(&std::fs::read_to_string("/proc/self/io").ok()?)
}

/// The same of another process; an error where it is gone or may not be looked at.
pub(super) fn traffic_of(process: u32) -> std::io::Result<Option<Traffic>> {
    std::fs::read_to_string(format!("/proc/{process}/io")).map(|text| parse_io(&text))
}

fn parse_io(text: &str) -> Option<Traffic> {
    let cancelled_bytes = field(text, "cancelled_write_bytes:")?;
    let written_bytes = field(text, "write_bytes:")?.saturating_sub(cancelled_bytes);
    Some(Traffic { read_bytes: field(text, "read_bytes:")?, written_bytes, cancelled_bytes })
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
/// be told cheaply: each one's own pages, of shared memory what the largest of each child's descendants holds (a server has memory of its own),
/// and of files what the largest of all holds.
pub fn rss_bytes_below() -> u64 {
    let (root, parents) = (std::process::id(), parents());
    let statuses = below(root, &parents).into_iter().map(|process| {
        // One that ended meanwhile has none.
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        (child_above(process, root, &parents), status)
    });
    together(statuses)
}

/// The processes below this one at this moment, parents before their children. Looks at every process of the machine.
pub(super) fn processes_below() -> Vec<u32> {
    below(std::process::id(), &parents())
}

/// The processes below `process` that still run, when they are to be waited for after it ends: what is orphaned has no parent that tells.
pub(crate) struct Descendants(Vec<u32>);

impl Descendants {
    /// Those of this moment.
    pub(crate) fn of(process: u32) -> Self {
        Self(below(process, &parents()))
    }

    /// Stop them all, parents before their children; those that were.
    pub(crate) fn stopped(self) -> Vec<Pid> {
        let processes = self.0.into_iter().filter_map(|process| Pid::from_raw(i32::try_from(process).ok()?));
        processes.filter(|process| kill_process(*process, Signal::STOP).is_ok()).collect()
    }

    /// Kill them all.
    #[cfg(test)]
    pub(crate) fn killed(&self) {
        self.0.iter().filter_map(|process| Pid::from_raw(i32::try_from(*process).ok()?)).for_each(|process| {
            let _ = kill_process(process, Signal::KILL);
        });
    }

    /// Let those go on that are stopped.
    pub(crate) fn go_on(&self) {
        for process in self.0.iter().filter_map(|process| Pid::from_raw(i32::try_from(*process).ok()?)) {
            let _ = kill_process(process, Signal::CONT);
        }
    }

    /// Wait until they have ended, or for so long.
    pub(crate) fn wait(self, most: Duration) {
        let begun = Instant::now();
        while self.0.iter().any(|process| is_running(*process)) && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Wait until every thread of a process stands still that was told to stop, or for so long: one thread hears of it, and tells the others when it
/// has a processor; one that waits for a device stops when that has answered.
pub(crate) fn wait_until_stopped(process: u32, most: Duration) {
    let begun = Instant::now();
    while !is_stopped(process) && begun.elapsed() < most {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Whether no thread of it runs, or will before it is told to go on.
fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| state(&thread.path().join("stat")))
        .all(|state| matches!(state, None | Some('T' | 't' | 'Z' | 'X')))
}

/// What a process or a thread does, by the letter of its `stat`: the first field after the name, which may hold anything.
fn state(stat: &std::path::Path) -> Option<char> {
    let text = std::fs::read_to_string(stat).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether there is such a process that is more than what is left for its parent to ask about.
fn is_running(process: u32) -> bool {
    state(format!("/proc/{process}/stat").as_ref()).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The child of `root` from which `process` descends.
fn child_above(process: u32, root: u32, parents: &BTreeMap<u32, u32>) -> u32 {
    let mut child = process;
    while let Some(parent) = parents.get(&child).filter(|parent| **parent != root) {
        child = *parent;
    }
    child
}

/// The parent of each process of the machine.
fn parents() -> BTreeMap<u32, u32> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        parents.extend(parent(&stat).map(|parent| (process, parent)));
    }
    parents
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

/// Bytes by the texts of `/proc/PID/status`, each with the child that the process descends from.
fn together(statuses: impl Iterator<Item = (u32, String)>) -> u64 {
    let (mut own, mut files) = (0, 0);
    let mut shared: BTreeMap<u32, u64> = BTreeMap::new();
    for (child, status) in statuses {
        let of = |name: &str| field(&status, name).unwrap_or(0) * 1024;
        own += of("RssAnon:");
        files = of("RssFile:").max(files);
        let largest = shared.entry(child).or_default();
        *largest = of("RssShmem:").max(*largest);
    }
    own + shared.values().sum::<u64>() + files
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
        let expected = Traffic { read_bytes: 3, written_bytes: 700, cancelled_bytes: 300 };
        assert_eq!(parse_io(text), Some(expected));
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
        let both = || [status(10, 5, 1_000), status(20, 7, 400), String::new()].into_iter();
        assert_eq!(together(both().map(|status| (9, status))), (30 + 7 + 1_000) * 1024);
        assert_eq!(together((1..).zip(both())), (30 + 7 + 1_400) * 1024, "two servers share nothing with each other");
        assert_eq!([3, 5, 7, 2].map(|process| child_above(process, 1, &parents)), [2, 2, 6, 2]);
    }

    /// Fails if an orphan is not waited for, or if what is not there is.
    #[test]
    fn descendants_of_who_was_killed_are_waited_for() {
        let mut command = std::process::Command::new("/bin/sh");
        let mut shell =
            command.args(["-c", "sleep 0.4 & echo; wait"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        let below = Descendants::of(shell.id());
        let sleeper = below.0[0];
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(is_running(sleeper), "killed with its parent");
        below.wait(Duration::from_secs(20));
        assert!(!is_running(sleeper));
        let begun = Instant::now();
        Descendants(vec![u32::MAX]).wait(Duration::from_secs(20));
        assert!(begun.elapsed() < Duration::from_secs(5));
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
