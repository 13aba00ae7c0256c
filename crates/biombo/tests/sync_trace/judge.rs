//! Whether each acknowledgement in a trace came after the device sync of its data.
//!
//! The traced program writes `begin I` before and `ack I` after write number I to a file called [`MARKERS`], and the value
//! of that write contains [`needle`]`(I)`. For each acknowledged write:
//!
//! 1. The files that hold its data are those to which a call wrote the needle between `begin` and `ack`. After such a write
//!    a sync of that file must begin, succeed and end before `ack`; a write through a descriptor opened with O_DSYNC or
//!    O_SYNC is its own sync.
//! 2. If no other window overlaps this one, the same holds for every write to such a file in the window (the meta page that
//!    makes the data reachable, the header of the log). Otherwise it cannot be told whose those are.
//! 3. Where no call shows the needle (the engine writes through a mapping, or compresses), a file that is mapped for shared
//!    writing, or was written in the window, must be synced in the window after the last write to it there.
//! 4. A file that was created in the trace needs a sync of its directory between its creation and `ack`.
//!
//! `sync_file_range` and `MS_ASYNC` make nothing durable and do not count. Asynchronous I/O is not understood: seeing it is
//! an error, never a pass.

use std::collections::{BTreeSet, HashMap};

use super::calls::{Call, parse};

/// The name of the file of markers.
pub const MARKERS: &str = "markers";

/// What the value of write `i` contains.
pub fn needle(i: usize) -> String {
    format!("needle-{i:05}-")
}

/// The calls that strace must report for this.
pub const TRACED: &str = "fsync,fdatasync,msync,sync,syncfs,write,pwrite64,writev,pwritev,pwritev2,open,openat,creat,close,\
    mmap,mremap,munmap,rename,renameat,renameat2,io_submit,io_uring_enter,dup,dup2,dup3";

/// Why an acknowledgement came too early.
pub type Early = String;

/// What a sync before the acknowledgement was seen to cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The write's own bytes (rule 1).
    OfItsData,
    /// A file of the engine; the bytes were not to be seen (rule 3).
    OfSomeFile,
}

/// Each acknowledged write with its verdict.
pub type Verdicts = Vec<(usize, Result<Proof, Early>)>;

struct Write {
    begun: usize,
    done: usize,
    path: String,
    text: String,
    is_sync: bool,
    /// All that is written is zeros.
    is_room: bool,
}

struct Sync {
    begun: usize,
    done: usize,
    /// `None`: everything.
    path: Option<String>,
}

#[derive(Default)]
struct Seen {
    writes: Vec<Write>,
    syncs: Vec<Sync>,
    /// Paths with the line on which they appeared.
    created: Vec<(usize, String)>,
    /// Paths mapped for shared writing, with the line from which they were.
    mapped: Vec<(usize, String)>,
    begins: HashMap<usize, usize>,
    acks: Vec<(usize, usize)>,
    asynchronous: Option<String>,
    /// The line of a write, while others wait to be acknowledged, that is not shown whole.
    cut: Option<usize>,
}

/// The verdict of each acknowledged write on the files below `dir`, in the order of acknowledgement.
pub fn judge(trace: &str, dir: &str) -> Result<Verdicts, String> {
    let seen = see(&parse(trace), dir);
    if let Some(call) = seen.asynchronous {
        return Err(format!("the engine uses {call}, whose writes a trace of calls does not show"));
    }
    if let Some(line) = seen.cut {
        return Err(format!("line {}: not all of what was written is shown, and the rest may be anything", line + 1));
    }
    let mut verdicts = Vec::new();
    for (i, ack) in &seen.acks {
        let begin = *seen.begins.get(i).ok_or_else(|| format!("`ack {i}` without `begin {i}`"))?;
        verdicts.push((*i, seen.acknowledged(*i, begin, *ack)));
    }
    Ok(verdicts)
}

impl Seen {
    fn acknowledged(&self, i: usize, begin: usize, ack: usize) -> Result<Proof, Early> {
        let window: Vec<&Write> = self.writes.iter().filter(|w| w.done > begin && w.begun < ack).collect();
        let needle = needle(i);
        let has_data = |write: &Write| write.text.contains(&needle);
        let holders: BTreeSet<&str> = window.iter().filter(|w| has_data(w)).map(|w| w.path.as_str()).collect();
        if holders.is_empty() {
            self.some_file_synced(&window, begin, ack)?;
            return Ok(Proof::OfSomeFile);
        }
        let is_unsynced = |write: &Write| !write.is_sync && !self.synced(&write.path, write.done, ack);
        let synced = |write: &Write| {
            let (written, acknowledged, path) = (write.done + 1, ack + 1, &write.path);
            let early = || format!("line {written}: {path} was written, but not synced before line {acknowledged}");
            if is_unsynced(write) { Err(early()) } else { Ok(()) }
        };
        if self.alone(i, begin, ack) {
            window.iter().filter(|w| holders.contains(w.path.as_str())).try_for_each(|w| synced(w))?;
            holders.iter().try_for_each(|path| self.named(path, ack))?;
        } else {
            // What others write to the same file meanwhile, older data copied along with theirs too, to files of their own even, is not
            // this one's: it is to be durable once.
            let mut of_data =
                window.iter().filter(|w| has_data(w)).map(|w| synced(w).and_then(|()| self.named(&w.path, ack)));
            let first = of_data.next().expect("invariant: who holds the data wrote it");
            of_data.fold(first, Result::or)?;
        }
        Ok(Proof::OfItsData)
    }

    /// Whether no other window overlaps this one.
    fn alone(&self, i: usize, begin: usize, ack: usize) -> bool {
        let overlaps = |other: &usize, other_begin: usize| {
            let other_ack = self.acks.iter().find(|(acked, _)| acked == other).map_or(usize::MAX, |(_, line)| *line);
            *other != i && other_begin < ack && other_ack > begin
        };
        !self.begins.iter().any(|(other, other_begin)| overlaps(other, *other_begin))
    }

    fn some_file_synced(&self, window: &[&Write], begin: usize, ack: usize) -> Result<(), Early> {
        let mapped = self.mapped.iter().filter(|(line, _)| *line < ack).map(|(_, path)| path.as_str());
        let candidates: BTreeSet<&str> = window.iter().map(|w| w.path.as_str()).chain(mapped).collect();
        let last_write = |path: &str| {
            let of_path = window.iter().filter(|w| w.path == path && !w.is_sync && !w.is_room);
            of_path.map(|w| w.done).max().unwrap_or(begin)
        };
        let synced: Vec<&&str> = candidates.iter().filter(|path| self.synced(path, last_write(path), ack)).collect();
        if synced.is_empty() {
            return Err(format!("between lines {} and {} none of {candidates:?} was synced", begin + 1, ack + 1));
        }
        synced.iter().try_for_each(|path| self.named(path, ack))
    }

    /// Whether a sync of `path` began after line `after` and ended before line `before`.
    fn synced(&self, path: &str, after: usize, before: usize) -> bool {
        let covers = |sync: &Sync| sync.path.as_deref().is_none_or(|synced| synced == path);
        self.syncs.iter().any(|sync| covers(sync) && sync.begun > after && sync.done < before)
    }

    fn named(&self, path: &str, ack: usize) -> Result<(), Early> {
        let created =
            self.created.iter().filter(|(line, name)| *line < ack && name == path).map(|(line, _)| *line).max();
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        match created {
            Some(line) if !self.synced(dir, line, ack) => Err(format!(
                "line {}: {path} was created, but its directory not synced before line {}",
                line + 1,
                ack + 1
            )),
            _ => Ok(()),
        }
    }
}

fn see(calls: &[Call], dir: &str) -> Seen {
    let mut seen = Seen::default();
    let below = |path: &str| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
    let mut sync_fds: HashMap<i64, bool> = HashMap::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut maps: Vec<(u64, u64, String)> = Vec::new();
    for call in calls {
        let (begun, done) = (call.begun, call.done);
        match call.name.as_str() {
            "open" | "openat" | "creat" if call.result >= 0 => {
                let at = usize::from(call.name == "openat");
                let path = call.arg(at).trim_matches('"').to_owned();
                let flags = if call.name == "creat" { "O_CREAT" } else { call.arg(at + 1) };
                let has = |name| flags.split('|').any(|flag| flag == name);
                sync_fds.insert(call.result, has("O_DSYNC") || has("O_SYNC"));
                if below(&path) && has("O_CREAT") && known.insert(path.clone()) {
                    seen.created.push((done, path));
                }
            }
            "dup" | "dup2" | "dup3" if call.result >= 0 => {
                let of = call.file(0).and_then(|(fd, _)| sync_fds.get(&fd)).copied().unwrap_or(false);
                sync_fds.insert(call.result, of);
            }
            "rename" | "renameat" | "renameat2" if call.result == 0 => {
                let (from, to) = if call.name == "rename" { (0, 1) } else { (1, 3) };
                let (from, to) = (call.arg(from).trim_matches('"'), call.arg(to).trim_matches('"'));
                if below(to) {
                    known.insert(to.to_owned());
                    seen.created.push((done, to.to_owned()));
                    // What is mapped keeps its mapping, and has this name from now on.
                    for (.., path) in maps.iter_mut().filter(|(.., path)| path == from) {
                        to.clone_into(path);
                        seen.mapped.push((done, to.to_owned()));
                    }
                }
            }
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" if call.result >= 0 => {
                let Some((fd, path)) = call.file(0) else { continue };
                if path.rsplit('/').next() == Some(MARKERS) {
                    mark(&mut seen, call);
                } else if below(path) {
                    let by_flag = call.name == "pwritev2" && call.args.contains("SYNC");
                    let is_sync = by_flag || sync_fds.get(&fd).copied().unwrap_or(false);
                    let is_room = is_zeros(call.arg(1));
                    let is_cut = call.arg(1).ends_with("\"...") && !seen.begins.is_empty();
                    seen.cut = seen.cut.or(is_cut.then_some(begun));
                    seen.writes.push(Write {
                        begun,
                        done,
                        path: path.to_owned(),
                        text: call.args.clone(),
                        is_sync,
                        is_room,
                    });
                }
            }
            "fsync" | "fdatasync" if call.result == 0 => {
                let path = call.file(0).map(|(_, path)| path.to_owned());
                seen.syncs.extend(path.map(|path| Sync { begun, done, path: Some(path) }));
            }
            "sync" | "syncfs" if call.result == 0 => seen.syncs.push(Sync { begun, done, path: None }),
            "mmap" if call.result != -1 => {
                let (address, bytes) = (call.result as u64, call.number(1).unwrap_or(0));
                let writable = call.arg(2).contains("PROT_WRITE") && call.arg(3).contains("MAP_SHARED");
                if let Some((_, path)) = call.file(4).filter(|(_, path)| writable && below(path)) {
                    maps.push((address, bytes, path.to_owned()));
                    seen.mapped.push((done, path.to_owned()));
                }
            }
            "mremap" if call.result != -1 => {
                let (old, bytes) = (call.number(0), call.number(2).unwrap_or(0));
                if let Some(map) = maps.iter_mut().find(|(address, ..)| Some(*address) == old) {
                    (map.0, map.1) = (call.result as u64, bytes);
                }
            }
            "munmap" if call.result == 0 => maps.retain(|(address, ..)| Some(*address) != call.number(0)),
            "msync" if call.result == 0 && call.arg(2).contains("MS_SYNC") => {
                let at = call.number(0).unwrap_or(0);
                let map = maps.iter().find(|(address, bytes, _)| (*address..*address + *bytes).contains(&at));
                seen.syncs.extend(map.map(|(.., path)| Sync { begun, done, path: Some(path.clone()) }));
            }
            "io_submit" | "io_uring_enter" => seen.asynchronous = Some(call.name.clone()),
            _ => {}
        }
    }
    seen
}

/// Whether a string of the trace, shown whole, is of zeros alone.
fn is_zeros(shown: &str) -> bool {
    let within = shown.strip_prefix('"').and_then(|shown| shown.strip_suffix('"'));
    within.is_some_and(|bytes| bytes.split("\\0").all(str::is_empty))
}

fn mark(seen: &mut Seen, call: &Call) {
    let text = call.arg(1).trim_matches('"');
    let number = |rest: &str| rest.trim_end_matches("\\n").parse().ok();
    // A window opens where `begin` was done and closes where `ack` began.
    if let Some(i) = text.strip_prefix("begin ").and_then(number) {
        seen.begins.insert(i, call.done);
    } else if let Some(i) = text.strip_prefix("ack ").and_then(number) {
        seen.acks.push((i, call.begun));
    }
}
