//! A section of each layout by itself: its lists are what a model says, and sections that others have do not change.

use std::collections::BTreeSet;

use super::*;
use crate::media::Pool;
use crate::pma::changes::Change;

/// The lists of a section.
type Lists = Vec<BTreeSet<u32>>;

/// Neighbours are below.
const NEIGHBORS: u32 = 3000;

#[derive(Debug, Clone)]
enum Deed {
    /// From this vertex on, so many, these neighbours.
    Change {
        from: usize,
        vertices: usize,
        neighbors: Vec<(u32, bool)>,
    },
    Settle,
    /// Somebody else has the section from now on, and nobody any more.
    Share,
    LetGo,
}

fn deed() -> impl Strategy<Value = Deed> {
    let neighbors =
        |most| proptest::collection::vec((0..NEIGHBORS, prop_oneof![4 => Just(true), 1 => Just(false)]), 1..most);
    let vertex = || prop_oneof![2 => 0..6usize, 1 => 0..VERTICES, 1 => VERTICES - 3..VERTICES];
    prop_oneof![
        6 => (vertex(), 1..4usize, neighbors(30))
            .prop_map(|(from, vertices, neighbors)| Deed::Change { from, vertices, neighbors }),
        2 => (vertex(), 1..2usize, neighbors(2500))
            .prop_map(|(from, vertices, neighbors)| Deed::Change { from, vertices, neighbors }),
        1 => (vertex(), 200..900usize, neighbors(8))
            .prop_map(|(from, vertices, neighbors)| Deed::Change { from, vertices, neighbors }),
        // Nearly everything goes from a list.
        1 => (vertex(), 1..5usize).prop_map(|(from, vertices)| Deed::Change {
            from,
            vertices,
            neighbors: (0..NEIGHBORS - 5).map(|neighbor| (neighbor, false)).collect(),
        }),
        2 => Just(Deed::Settle),
        2 => Just(Deed::Share),
        1 => Just(Deed::LetGo),
    ]
}

fn same<L: Layout>(section: &L, model: &Lists) -> Result<(), TestCaseError> {
    section.verify(VERTICES, NEIGHBORS as usize).map_err(TestCaseError::fail)?;
    for (local, list) in model.iter().enumerate() {
        prop_assert!(section.list(local).iter().eq(list), "{}: vertex {local}", L::NAME);
        prop_assert_eq!(section.degree(local), list.len());
    }
    prop_assert_eq!(section.edges(), model.iter().map(|list| list.len() as u64).sum::<u64>());
    Ok(())
}

fn section_holds<L: Layout>(deeds: &[Deed]) -> Result<(), TestCaseError> {
    let (pool, mut scratch) = (Pool::new(), Scratch::default());
    let (mut section, mut waiting) = (Arc::new(L::empty(&pool).unwrap()), L::Waiting::default());
    let (mut model, mut shared) = (vec![BTreeSet::new(); VERTICES], Vec::new());
    for deed in deeds {
        match deed {
            Deed::Change { from, vertices, neighbors } => {
                let locals = (*from..from + vertices).map(|local| local % VERTICES);
                let made = locals
                    .flat_map(|local| neighbors.iter().map(move |(neighbor, appears)| (local, *neighbor, *appears)));
                let changes: Vec<Change> =
                    made.clone().map(|(local, neighbor, appears)| Change::new(local, neighbor, appears)).collect();
                L::bring_in(&mut section, &mut waiting, &changes, &pool, &mut scratch).unwrap();
                for (local, neighbor, appears) in made {
                    match appears {
                        true => model[local].insert(neighbor),
                        false => model[local].remove(&neighbor),
                    };
                }
                section.verify(VERTICES, NEIGHBORS as usize).map_err(TestCaseError::fail)?;
            }
            Deed::Settle => {
                L::settle(&mut section, &mut waiting, &pool, &mut scratch).unwrap();
                same(&*section, &model)?;
                prop_assert!((0..VERTICES).all(|local| L::waiting_of(&waiting, local).is_empty()));
            }
            Deed::Share => {
                L::settle(&mut section, &mut waiting, &pool, &mut scratch).unwrap();
                shared.push((section.clone(), model.clone()));
            }
            Deed::LetGo => drop(shared.pop()),
        }
    }
    L::settle(&mut section, &mut waiting, &pool, &mut scratch).unwrap();
    shared.push((section, model));
    shared.iter().try_for_each(|(section, model)| same(&**section, model))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_section_has_the_lists_that_changes_made_and_shared_ones_stay(
        deeds in proptest::collection::vec(deed(), 1..30),
        layout in 0..3u8,
    ) {
        let holds = match layout {
            0 => section_holds::<Image>,
            1 => section_holds::<adjacency::Section>,
            _ => section_holds::<buffered::Section>,
        };
        holds(&deeds)?;
    }
}
