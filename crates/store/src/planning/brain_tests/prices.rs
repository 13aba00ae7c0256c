//! What moves cost, and the room that they take.

use biombo_engine::{Capabilities, Durability};

use super::*;

/// Workload A over LMDB lost 4 to 7 % to plans that promised half a percent: each of their moves wrote what users had put into two trees.
#[test]
fn what_saves_little_is_not_moved_where_moves_write_what_users_have_put_into_a_tree() {
    let memory = (memory::kind().capabilities)();
    let costly = Capabilities { costly_transactions: true, survives_power_cut: Some(Durability::Sync), ..memory };
    let [apart, tree] = [false, true].map(|has_unsynced| way_ns(&costly, has_unsynced));
    assert_eq!(apart, way_ns(&Capabilities { survives_power_cut: Some(Durability::Os), ..costly }, true));
    let hot: Vec<u64> = (0..).filter(|n| Placement::hash(PARTITIONS).owner(&key(*n)).0 == 3).take(40).collect();
    for (way_ns, waited_ns, moves) in
        [(apart, SECOND_NS / 64, true), (tree, SECOND_NS / 64, false), (tree, SECOND_NS / 4, true)]
    {
        let mut world = World { way_ns, waited_ns, ..World::new(DEFAULT_PLANNER) };
        for _ in 0..4 {
            world.second(Kind::Write, 10_000, |random| vec![hot[random.usize(0..hot.len())]]);
        }
        assert_eq!(!world.drafts.is_empty(), moves, "{way_ns}, {waited_ns}: {:?}", world.refused);
    }
}

/// A part that was cut by bytes made no group of few whole, and taught nothing. (Mutation: keys that are taken one by one.)
#[test]
fn what_is_moved_to_learn_from_are_whole_groups_however_few_there_are_and_also_where_they_overlap() {
    for (count, hub) in [(8, false), (16, false), (12, true)] {
        let mut world = World::new(DEFAULT_PLANNER);
        let mut choose = |random: &mut fastrand::Rng| {
            let mut group = group(0, random.u64(0..count));
            group[0] = if hub { 9_999 } else { group[0] };
            group
        };
        for _ in 0..4 {
            world.second(Kind::Write, 4000, &mut choose);
            if !world.drafts.is_empty() {
                break;
            }
        }
        assert!(matches!(&world.drafts[..], [probe] if probe.is_probe), "{count}: {:?}", world.drafts);
        let whole =
            |world: &World| (0..count).filter(|number| world.width(&group(0, *number)[1..]) == 1).count() as u64;
        assert!((1..=count / 2).contains(&whole(&world)), "{} of {count} groups are together", whole(&world));
        (0..4).for_each(|_| world.second(Kind::Write, 4000, &mut choose));
        assert!(hub || whole(&world) == count, "{} of {count} groups; {:?}", whole(&world), world.refused);
    }
}

/// (Mutations: no look at what is free; one that small stores can never pass.)
#[test]
fn nothing_moves_unasked_where_little_room_is_left_until_there_is_more() {
    let mut world = World::new(DEFAULT_PLANNER);
    world.free_bytes = Some(100 << 20);
    for _ in 0..8 {
        world.second(Kind::Write, 4000, |random| group(0, random.u64(0..200)));
    }
    assert!(world.moved() == 0 && world.refused.is_some_and(|why| why.contains("room")), "{:?}", world.refused);
    // What is free would not do for a whole budget, and does for all that there is.
    (world.free_bytes, world.store_bytes) = (Some(200 << 20), 1e7);
    for _ in 0..12 {
        world.second(Kind::Write, 4000, |random| group(0, random.u64(0..200)));
    }
    assert!(world.moved() > 1000, "{:?}", world.refused);
}
