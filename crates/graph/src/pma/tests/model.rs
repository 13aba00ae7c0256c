//! A graph as maps of sets, which the real one is compared with.

use std::collections::{BTreeMap, BTreeSet};

use crate::csr::Shape;
use crate::pma::{Changing, Layout, Snapshot, Update};
use crate::view::View;

#[derive(Debug, Clone)]
pub(in crate::pma) struct Model {
    shape: Shape,
    out: BTreeMap<u64, BTreeSet<u64>>,
}

impl Model {
    pub(in crate::pma) fn new(shape: Shape) -> Self {
        Self { shape, out: BTreeMap::new() }
    }

    pub(in crate::pma) fn apply(&mut self, updates: &[Update]) {
        for update in updates {
            match *update {
                Update::InsertEdge(a, b) => {
                    self.out.entry(a).or_default();
                    self.out.entry(b).or_default();
                    if a != b || self.shape.keeps_loops {
                        self.list(a).insert(b);
                        if !self.shape.is_directed {
                            self.list(b).insert(a);
                        }
                    }
                }
                Update::DeleteEdge(a, b) => {
                    let ends = if self.shape.is_directed { vec![(a, b)] } else { vec![(a, b), (b, a)] };
                    for (a, b) in ends {
                        self.out.get_mut(&a).map(|list| list.remove(&b));
                    }
                }
                Update::InsertVertex(a) => _ = self.out.entry(a).or_default(),
                Update::DeleteVertex(a) => {
                    self.out.remove(&a);
                    self.out.values_mut().for_each(|list| _ = list.remove(&a));
                }
            }
        }
    }

    fn list(&mut self, vertex: u64) -> &mut BTreeSet<u64> {
        self.out.get_mut(&vertex).unwrap()
    }

    fn turned(&self) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut turned: BTreeMap<u64, BTreeSet<u64>> = self.out.keys().map(|id| (*id, BTreeSet::new())).collect();
        for (source, list) in &self.out {
            list.iter().for_each(|target| _ = turned.get_mut(target).unwrap().insert(*source));
        }
        turned
    }

    /// How many vertices and stored edges there are.
    pub(in crate::pma) fn counts(&self) -> (usize, u64) {
        (self.out.len(), self.out.values().map(|list| list.len() as u64).sum())
    }

    /// What a snapshot says is exactly this.
    pub(in crate::pma) fn check<L: Layout>(&self, snapshot: &Snapshot<L>) -> Result<(), String> {
        snapshot.verify()?;
        let ids = |list: &[u32]| list.iter().map(|number| snapshot.id(*number).unwrap()).collect::<BTreeSet<u64>>();
        let vertices = 0..snapshot.vertices() as u32;
        let said = |list: &dyn Fn(u32) -> BTreeSet<u64>| {
            vertices.clone().map(|number| (snapshot.id(number).unwrap(), list(number))).collect::<BTreeMap<_, _>>()
        };
        let out = said(&|number| ids(snapshot.out_neighbors(number)));
        if let Some((id, list)) = self.out.iter().find(|(id, list)| out.get(id) != Some(list)) {
            let found = out.get(id);
            return Err(format!("after {} batches, {id} has {found:?} and not {list:?}", snapshot.sequence()));
        }
        if out.len() != self.out.len() || snapshot.vertices() != out.len() {
            return Err(format!("there are {} vertices and not {}", snapshot.vertices(), self.out.len()));
        }
        if said(&|number| ids(snapshot.in_neighbors(number))) != self.turned() {
            return Err(format!("after {} batches, lists inward differ", snapshot.sequence()));
        }
        let (_, edges) = self.counts();
        if snapshot.edges() != edges {
            return Err(format!("there are {} edges and not {edges}", snapshot.edges()));
        }
        match self.out.keys().find(|id| snapshot.vertex(**id).and_then(|number| snapshot.id(number)) != Some(**id)) {
            Some(id) => Err(format!("vertex {id} is not found")),
            None => Ok(()),
        }
    }

    /// What the graph says now about one vertex is exactly this.
    pub(in crate::pma) fn check_vertex<L: Layout>(&self, graph: &Changing<L>, id: u64) -> Result<(), String> {
        let found = graph.neighbors(id).map(|list| list.into_iter().collect::<BTreeSet<u64>>());
        let inward = graph.in_neighbors(id).map(|list| list.into_iter().collect::<BTreeSet<u64>>());
        if found.as_ref() != self.out.get(&id) || inward != self.turned().get(&id).cloned() {
            return Err(format!("vertex {id} has {found:?} now and not {:?}", self.out.get(&id)));
        }
        Ok(())
    }
}
