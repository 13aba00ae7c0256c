//! Pins that lie where their slot does already: they keep their place in the table, and nothing is planned for them.

use super::*;

/// Fails when a plan takes keys home that are there: nothing moves, the next plan is the same, and no other is ever made again.
#[test]
fn pins_that_are_home_already_end_no_planning() {
    let change = |settings: &mut Settings| {
        settings.pins_max = 300;
        settings.limits.keys_max = 3000;
    };
    let mut placement = Placement::hash(PARTITIONS);
    let pinned = |number: u64| key(1_000_000 + number);
    for number in 0..300 {
        let key = pinned(number);
        let to = PartitionId((placement.owner(&key).0 + 1) % PARTITIONS as u16);
        let set = UnitSet::of_keys(&placement, [key.as_slice()]).expect("a key");
        let unit = placement.unit_of(&key);
        placement = placement.moved(&set, to).expect("a key");
        // A third of them are followed by their slot.
        if number % 3 == 0 {
            let set = UnitSet::of(&placement, &[unit]).expect("a slot");
            placement = placement.moved(&set, to).expect("a slot");
        }
    }
    assert_eq!(placement.pins(), 300);
    let is_home =
        |placement: &Placement, key: &[u8]| placement.owner_of(placement.unit_of(key)) == Some(placement.owner(key));
    let before = placement.clone();
    let mut world = World::with(DEFAULT_PLANNER, placement, change);
    for _ in 0..60 {
        world.second(Kind::Write, 3000, |random| group(0, random.u64(0..100)));
    }
    let levels: Vec<_> = world.drafts.iter().map(|draft| draft.level).collect();
    assert!(levels.contains(&Level::Home) && levels.contains(&Level::Keys), "{levels:?}, {:?}", world.refused);
    for draft in world.drafts.iter().filter(|draft| draft.level == Level::Home) {
        for load in draft.moves.iter().map(|(_, load)| load) {
            let Load::Keys(keys) = load else { panic!("units go home") };
            let idle: Vec<_> = keys.iter().filter(|key| is_home(&before, key)).collect();
            assert!(idle.is_empty(), "{} of {} keys are there already", idle.len(), keys.len());
        }
    }
}
