//! The machine's processors and NUMA nodes, and pinning a thread to some of them.
//!
//! Nodes and their processors come from `/sys/devices/system/node`. Where there is none (a container without /sys), the
//! machine counts as one node with all processors that this process may use. Processors that the process may not use
//! (cpusets, affinity masks) are left out everywhere. Who wants another number of nodes than the machine has gets virtual ones
//! ([`Topology::spread`]): the same code runs on any machine.

use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Error, Result};

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number of it.
    pub id: u32,
    /// The processors of it that this process may use, ascending; a memory-only node has none.
    pub cpus: Vec<u32>,
}

/// The processors and nodes that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// All nodes, ascending.
    pub nodes: Vec<Node>,
}

/// Nodes for a program to spread over; see [`Topology::spread`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Each has at least one processor. Of a virtual node, `id` is the machine's node that it plays on.
    pub nodes: Vec<Node>,
    /// How many nodes with processors the machine has.
    pub machine_nodes: usize,
}

impl Spread {
    /// The most nodes.
    pub const NODES_MAX: usize = 64;

    /// Whether the machine has other nodes than these.
    pub fn is_virtual(&self) -> bool {
        self.nodes.len() != self.machine_nodes
    }

    /// Whether it makes a difference on which of the nodes memory lies: they are not all the same node of the machine's.
    pub fn has_distance(&self) -> bool {
        self.nodes.iter().any(|node| node.id != self.nodes[0].id)
    }
}

impl Topology {
    /// `count` nodes: the machine's own if it has so many with processors. Otherwise virtual ones, among which all processors are dealt
    /// in their order, node by node; they share processors when there are fewer of those.
    ///
    /// # Errors
    /// `Invalid` for none or more than 64.
    pub fn spread(&self, count: usize) -> Result<Spread> {
        if !(1..=Spread::NODES_MAX).contains(&count) {
            return Err(Error::invalid(format!(
                "a machine is taken for 1 to {} nodes, not {count}",
                Spread::NODES_MAX
            )));
        }
        let own: Vec<Node> = self.nodes.iter().filter(|node| !node.cpus.is_empty()).cloned().collect();
        let machine_nodes = own.len();
        if machine_nodes == count {
            return Ok(Spread { nodes: own, machine_nodes });
        }
        let cpus: Vec<(u32, u32)> = own.iter().flat_map(|node| node.cpus.iter().map(|cpu| (node.id, *cpu))).collect();
        let share = |number: usize| {
            let begin = number * cpus.len() / count;
            let share = &cpus[begin..((number + 1) * cpus.len() / count).max(begin + 1)];
            Node { id: share[0].0, cpus: share.iter().map(|(_, cpu)| *cpu).collect() }
        };
        Ok(Spread { nodes: (0..count).map(share).collect(), machine_nodes })
    }

    /// Of the machine that this runs on.
    pub fn detect() -> Self {
        Self::read(Path::new("/sys/devices/system/node"), &current_cpus())
    }

    /// All processors that this process may use, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = self.nodes.iter().flat_map(|node| node.cpus.iter().copied()).collect();
        cpus.sort_unstable();
        cpus
    }

    fn read(sys: &Path, usable: &[u32]) -> Self {
        let mut nodes = Vec::new();
        let online = fs::read_to_string(sys.join("online")).unwrap_or_default();
        for id in parse_list(&online) {
            let Ok(list) = fs::read_to_string(sys.join(format!("node{id}/cpulist"))) else { continue };
            let cpus = parse_list(&list).into_iter().filter(|cpu| usable.contains(cpu)).collect();
            nodes.push(Node { id, cpus });
        }
        if nodes.iter().all(|node| node.cpus.is_empty()) {
            nodes = vec![Node { id: 0, cpus: usable.to_vec() }];
        }
        Self { nodes }
    }
}

/// Let the calling thread run only on `cpus` (numbers of the kernel). `Invalid` when the list is empty or none of them may
/// be used.
pub fn pin_current_thread(cpus: &[u32]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if (cpu as usize) < CpuSet::MAX_CPU {
            set.set(cpu as usize);
        }
    }
    match sched_setaffinity(None, &set) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL) => {
            Err(Error::invalid(format!("none of the processors {cpus:?} can be used by this process")))
        }
        Err(e) => Err(Error::io("pin a thread", e.into())),
    }
}

/// The processors that the calling thread may run on, ascending.
pub fn current_cpus() -> Vec<u32> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, |n| n.get()) as u32).collect(),
    }
}

/// A list as the kernel prints it: `0-3,8,10-11`. What cannot be read is left out.
fn parse_list(list: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in list.trim().split(',') {
        match part.split_once('-') {
            Some((from, to)) => {
                if let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>())
                    && to.saturating_sub(from) < 1 << 16
                {
                    numbers.extend(from..=to);
                }
            }
            None => numbers.extend(part.parse::<u32>()),
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list("\n"), [] as [u32; 0]);
        assert_eq!(parse_list("0,x,2-,7"), [0, 7]);
    }

    #[test]
    fn nodes_agree_with_sys_and_hold_every_usable_processor() {
        let topology = Topology::detect();
        assert_eq!(topology.cpus(), current_cpus());
        if let Ok(online) = fs::read_to_string("/sys/devices/system/node/online") {
            let ids: Vec<u32> = topology.nodes.iter().map(|node| node.id).collect();
            assert_eq!(ids, parse_list(&online));
        }
    }

    #[test]
    fn two_nodes_are_told_apart_and_unusable_processors_left_out() {
        let sys = tempfile::tempdir().unwrap();
        for (name, text) in [("online", "0-1\n"), ("node0/cpulist", "0-1\n"), ("node1/cpulist", "2-3\n")] {
            let path = sys.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let topology = Topology::read(sys.path(), &[0, 2, 3]);
        assert_eq!(topology.nodes, [Node { id: 0, cpus: vec![0] }, Node { id: 1, cpus: vec![2, 3] }]);
        let without = Topology::read(&sys.path().join("missing"), &[0, 5]);
        assert_eq!(without.nodes, [Node { id: 0, cpus: vec![0, 5] }]);
    }

    #[test]
    fn a_machine_is_taken_for_as_many_nodes_as_are_asked_for() {
        let node = |id: u32, cpus: &[u32]| Node { id, cpus: cpus.to_vec() };
        // A memory-only node has no threads and counts for nothing.
        let machine = Topology { nodes: vec![node(0, &[0, 1, 2]), node(1, &[]), node(2, &[5, 6, 7])] };
        let two = machine.spread(2).unwrap();
        assert_eq!(two.nodes, [node(0, &[0, 1, 2]), node(2, &[5, 6, 7])]);
        assert!(!two.is_virtual() && two.has_distance());
        let one = machine.spread(1).unwrap();
        assert_eq!(one.nodes, [node(0, &[0, 1, 2, 5, 6, 7])]);
        assert!(one.is_virtual() && !one.has_distance());
        let four = machine.spread(4).unwrap();
        assert_eq!(four.nodes, [node(0, &[0]), node(0, &[1, 2]), node(2, &[5]), node(2, &[6, 7])]);
        // More nodes than processors: each has one, which others have too.
        let small = Topology { nodes: vec![node(0, &[3, 9])] };
        let three = small.spread(3).unwrap();
        assert_eq!(three.nodes, [node(0, &[3]), node(0, &[3]), node(0, &[9])]);
        assert!(three.is_virtual() && !three.has_distance());
        assert!(small.spread(0).is_err() && small.spread(Spread::NODES_MAX + 1).is_err());
        assert_eq!(small.spread(Spread::NODES_MAX).unwrap().nodes.len(), Spread::NODES_MAX);
    }

    #[test]
    fn a_pinned_thread_runs_only_where_it_was_told() {
        let last = *current_cpus().last().unwrap();
        std::thread::spawn(move || {
            pin_current_thread(&[last]).unwrap();
            assert_eq!(current_cpus(), [last]);
            assert!(pin_current_thread(&[]).is_err());
        })
        .join()
        .unwrap();
    }
}
