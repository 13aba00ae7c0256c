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
