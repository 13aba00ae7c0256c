//! `biombo graph add` and `delete`: edges of a graph that changes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use biombo::graph::input::{EdgeReader, Item};
use biombo::graph::pma::{Durability, Update};
use biombo::graph::team::Team;
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
whatever happens. Vertices that are missing are made; edges that are there already are left. A static graph (--layout csr) takes none, on any
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
As graph add. Edges that are not there are passed over; vertices stay.

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
    edges: u64,
    groups: u64,
    vertices: u64,
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
    let graph = open_changing(&args.dir.dir, &mut Team::new(1)?)?;
    let (sender, updates) = sync_channel(GROUP_MAX);
    // Apart, since a read may wait for long: what came until then must not. Nobody waits for it when something fails here.
    let file = args.file.clone();
    let reader = std::thread::spawn(move || read(&file, adds, &sender));
    let mut out = Out::new();
    let (mut edges, mut groups) = (0, 0);
    let mut group = Vec::new();
    while gather(&updates, &mut group) {
        graph.apply(&group, Durability::Sync).map_err(|error| stopped(&error, edges, adds))?;
        edges += group.iter().filter(|update| !matches!(update, Update::InsertVertex(_))).count() as u64;
        groups += 1;
        group.clear();
        if args.acks {
            out.line(format_args!("acked {edges}"))?;
            out.flush().map_err(|e| Failure::output(&e))?;
        }
    }
    let done = done(adds);
    match reader.join() {
        // What came before a line that is no edge is done.
        Ok(Err(error)) => return Err(Failure::failed(format!("{error}; {edges} edges before that were {done}"))),
        Ok(Ok(())) => {}
        Err(panic) => std::panic::resume_unwind(panic),
    }
    let changed = Changed { edges, groups, vertices: graph.vertices() as u64, seconds: begun.elapsed().as_secs_f64() };
    if args.json.json {
        out.json(&changed)?;
    } else if !args.acks {
        let (edges, groups, seconds) = (show_count(edges), show_count(groups), changed.seconds);
        let vertices = show_count(changed.vertices);
        out.line(format_args!("{done} {edges} edges in {groups} groups in {seconds:.2} s: {vertices} vertices now"))?;
    }
    out.finish()
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

/// Send the updates that a file asks for, until it ends or nobody takes them.
fn read(file: &Path, adds: bool, updates: &SyncSender<Update>) -> biombo_base::Result<()> {
    let mut reader = EdgeReader::open(file)?;
    while let Some(item) = reader.next_item()? {
        let is_taken = match item {
            Item::Edge(source, target) if adds => updates.send(Update::InsertEdge(source, target)).is_ok(),
            Item::Edge(source, target) => updates.send(Update::DeleteEdge(source, target)).is_ok(),
            Item::Vertices { first, last } => {
                !adds || (first..=last).all(|id| updates.send(Update::InsertVertex(id)).is_ok())
            }
        };
        if !is_taken {
            break;
        }
    }
    Ok(())
}

/// The next group; false at the end.
fn gather(updates: &Receiver<Update>, group: &mut Vec<Update>) -> bool {
    let Ok(first) = updates.recv() else { return false };
    group.push(first);
    let end = Instant::now() + GROUP_TIME;
    while group.len() < GROUP_MAX {
        let next = updates.try_recv();
        let next = next.or_else(|_| updates.recv_timeout(end.saturating_duration_since(Instant::now())));
        match next {
            Ok(update) => group.push(update),
            // Time is over, or the end was reached.
            Err(_) => break,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use biombo_base::Error;

    use super::*;

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
