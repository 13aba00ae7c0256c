//! `biombo graph add` and `delete`: edges of a graph that changes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use biombo::graph::input::{EdgeReader, Item};
use biombo::graph::pma::{Durability, Durable, Update};
use biombo::graph::team::Team;
use biombo::graph::view::View;
use biombo_base::ErrorKind;
use clap::Args;
use serde::Serialize;

use super::opened::open_changing;
use crate::args::{DirArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::show_count;

/// Add edges to a graph
#[derive(Debug, Args)]
#[command(after_help = "\
Files as for graph load. Edges are durable in groups: of 65,536, or of what came within 10 ms; a group is there as a whole or not at all,
whatever happens. Vertices that are missing are made; edges that are there already are left. What is said at the end is how many stored edges
there are more (an undirected edge is stored in both directions) and how many edges were read. A static graph (--layout csr) takes none, on any
medium.

Examples:
  biombo graph add web more.el
  tail -f links.log | biombo graph add web - --acks      prints how many edges are durable, after each group")]
pub(crate) struct AddArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Delete edges of a graph
#[derive(Debug, Args)]
#[command(after_help = "\
As graph add. Edges that are not there are passed over; vertices stay. At the end it is said how many stored edges there are less.

Example:
  biombo graph delete web gone.el")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
struct ChangeArgs {
    #[command(flatten)]
    dir: DirArg,
    /// A file of edges, `-` for standard input
    file: PathBuf,
    /// Print `acked N` after each group: the first N edges are durable
    #[arg(long)]
    acks: bool,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Changed {
    /// What was read, and is durable: edges that say what is so already among them.
    edges: u64,
    /// How many stored edges there are more, or less; an undirected edge is stored in both directions.
    stored_edges_changed: u64,
    groups: u64,
    vertices: u64,
    stored_edges: u64,
    seconds: f64,
}

/// How long a group waits for more.
const GROUP_TIME: Duration = Duration::from_millis(10);

/// The most updates of a group.
const GROUP_MAX: usize = 1 << 16;

/// Run it.
pub(crate) fn add(args: &AddArgs) -> Done {
    change(&args.change, true)
}

/// Run it.
pub(crate) fn delete(args: &DeleteArgs) -> Done {
    change(&args.change, false)
}

fn change(args: &ChangeArgs, adds: bool) -> Done {
    let begun = Instant::now();
    let mut team = Team::new(1)?;
    let graph = open_changing(&args.dir.dir, &mut team)?;
    let stored_before = stored(&graph, &mut team)?;
    let (sender, updates) = sync_channel(GROUP_MAX);
    // Apart, since a read may wait for long: what came until then must not. Nobody waits for it when something fails here.
    let (file, mirrors) = (args.file.clone(), graph.shape().is_directed);
    let reader = std::thread::spawn(move || read(&file, adds, mirrors, &sender));
    let mut out = Out::new();
    let (mut edges, mut groups, mut said) = (0, 0, Ok(()));
    let mut group = Vec::new();
    while let Some(whole) = gather(&updates, &mut group) {
        graph.apply(&group, Durability::Sync).map_err(|error| stopped(&error, edges, adds))?;
        edges += whole;
        groups += 1;
        group.clear();
        if args.acks && said.is_ok() {
            // Whoever reads of it or not: it is done all the same.
            let line = out.line(format_args!("acked {edges}"));
            said = line.and_then(|()| out.flush().map_err(|e| Failure::output(&e)));
        }
    }
    let done = done(adds);
    match reader.join() {
        // What came before a line that is no edge is done.
        Ok(Err(error)) => return Err(Failure::failed(format!("{error}; {edges} edges before that were {done}"))),
        Ok(Ok(())) => {}
        Err(panic) => std::panic::resume_unwind(panic),
    }
    said?;
    // With --acks everything was said.
    if args.acks && !args.json.json {
        return out.finish();
    }
    let seconds = begun.elapsed().as_secs_f64();
    let stored_edges = stored(&graph, &mut team)?;
    let stored_edges_changed = stored_edges.abs_diff(stored_before);
    let vertices = graph.vertices() as u64;
    if args.json.json {
        out.json(&Changed { edges, stored_edges_changed, groups, vertices, stored_edges, seconds })?;
    } else {
        let (edges, groups, changed) = (show_count(edges), show_count(groups), show_count(stored_edges_changed));
        let (vertices, stored) = (show_count(vertices), show_count(stored_edges));
        out.line(format_args!(
            "{done} {changed} stored edges of {edges} edges read, in {groups} groups, in {seconds:.2} s: {vertices} vertices and \
             {stored} stored edges now"
        ))?;
    }
    out.finish()
}

/// How many edges the graph has; an undirected one has each in both directions.
fn stored(graph: &Durable, team: &mut Team) -> Done<u64> {
    Ok(graph.snapshot(team)?.edges())
}

fn done(adds: bool) -> &'static str {
    if adds { "added" } else { "deleted" }
}

/// A group was not taken in, after `edges` that were: what is durable, and how to go on.
fn stopped(error: &biombo_base::Error, edges: u64, adds: bool) -> Failure {
    let done = done(adds);
    let next = match error.kind() {
        ErrorKind::Full => {
            format!("make room and go on after them, or from the beginning: what is {done} already is passed over")
        }
        ErrorKind::Invalid => "the group after them was refused as a whole, and nothing of it is there".to_owned(),
        _ => "the group after them may be there or not".to_owned(),
    };
    Failure::failed(format!("{error}; {edges} edges before that were {done}, and are durable: {next}"))
}

/// Send the updates that a file asks for, each with whether it is the last one of an edge that was read, until it ends or nobody takes them. An entry of a
/// symmetric matrix is two edges where the graph mirrors none by itself (`mirrors`).
fn read(file: &Path, adds: bool, mirrors: bool, updates: &SyncSender<(Update, bool)>) -> biombo_base::Result<()> {
    let mut reader = EdgeReader::open(file)?;
    let edge = if adds { Update::InsertEdge } else { Update::DeleteEdge };
    while let Some(item) = reader.next_item()? {
        let is_taken = match item {
            Item::Edge(source, target) => {
                let has_mirror = mirrors && source != target && reader.is_symmetric();
                updates.send((edge(source, target), !has_mirror)).is_ok()
                    && (!has_mirror || updates.send((edge(target, source), true)).is_ok())
            }
            Item::Vertices { first, last } => {
                !adds || (first..=last).all(|id| updates.send((Update::InsertVertex(id), false)).is_ok())
            }
        };
        if !is_taken {
            break;
        }
    }
    Ok(())
}

/// The next group, and of how many edges it is the last that was missing; `None` at the end.
fn gather(updates: &Receiver<(Update, bool)>, group: &mut Vec<Update>) -> Option<u64> {
    let (first, is_last) = updates.recv().ok()?;
    group.push(first);
    let mut whole = u64::from(is_last);
    let end = Instant::now() + GROUP_TIME;
    while group.len() < GROUP_MAX {
        let next = updates.try_recv();
        let next = next.or_else(|_| updates.recv_timeout(end.saturating_duration_since(Instant::now())));
        match next {
            Ok((update, is_last)) => {
                group.push(update);
                whole += u64::from(is_last);
            }
            // Time is over, or the end was reached.
            Err(_) => break,
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use biombo_base::Error;

    use super::*;

    /// Fails when an entry of a symmetric matrix counts twice, or before its mirror image is in a group too: who goes on behind it would miss edges.
    #[test]
    fn an_entry_counts_once_and_when_its_mirror_image_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("s.mtx");
        std::fs::write(&file, "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 2\n3 3\n")
            .expect("written");
        let (sender, updates) = sync_channel(GROUP_MAX);
        read(&file, false, true, &sender).expect("read");
        let (halves, rest) = sync_channel(GROUP_MAX);
        updates.try_iter().take(3).for_each(|update| halves.send(update).expect("room"));
        let mut group = Vec::new();
        assert_eq!((gather(&rest, &mut group), group.len()), (Some(1), 3), "the second entry is half");
        group.clear();
        drop(sender);
        assert_eq!((gather(&updates, &mut group), group.len()), (Some(2), 2));
        assert_eq!(gather(&updates, &mut group), None);
    }

    /// Fails when a group that was refused before it was recorded is said to be there or not, or one that may be recorded is said not to be there.
    #[test]
    fn what_is_left_of_a_group_is_said_as_it_is() {
        for (error, said) in [
            (Error::invalid("too many"), "nothing of it is there"),
            (Error::new(ErrorKind::Full, "no room"), "make room"),
            (Error::new(ErrorKind::Io, "bad disk"), "may be there or not"),
            (Error::poisoned("bad disk"), "may be there or not"),
        ] {
            let Failure::Failed(message) = stopped(&error, 7, true) else { panic!("another failure for {error}") };
            assert!(message.contains("7 edges before that were added") && message.contains(said), "{message}");
        }
    }
}
