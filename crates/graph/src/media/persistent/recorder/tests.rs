use std::collections::BTreeSet;

use biombo_base::io::sim::Random;

use super::*;

fn images(recorder: &Recorder, samples: usize) -> BTreeSet<Vec<u8>> {
    let mut points = recorder.crash_points();
    while points.advance() {}
    let crashes = points.crashes(samples, &mut Random(1));
    let power = crashes.into_iter().filter(|crash| !matches!(crash, Crash::Kill(_)));
    power.map(|crash| points.image(crash).open("m").unwrap().bytes().to_vec()).collect()
}

#[test]
fn what_is_not_fenced_may_be_there_by_words_and_what_is_must() {
    let recorder = Recorder::new();
    let mut region = recorder.create("m", 128).unwrap();
    region.store(0, &[1; 16]);
    region.store(64, &[2; 4]);
    assert_eq!(images(&recorder, 0).len(), 8, "three words");
    region.write_back(3, 1);
    assert_eq!(images(&recorder, 0).len(), 8, "written back is not there yet");
    region.store(0, &[3; 8]);
    region.fence().unwrap();
    let left = images(&recorder, 0);
    assert_eq!(left.len(), 4, "the store after the write-back, and the line that was not written back");
    assert!(left.iter().all(|bytes| bytes[8..16] == [1; 8] && (bytes[..8] == [1; 8] || bytes[..8] == [3; 8])));
    region.write_back(0, 128);
    region.fence().unwrap();
    let left = images(&recorder, 0);
    assert_eq!(left.len(), 1);
    assert!(left.iter().all(|bytes| bytes[..8] == [3; 8] && bytes[64..68] == [2; 4] && bytes[68..] == [0; 60]));
}

#[test]
fn many_lines_are_sampled_and_few_are_all_there() {
    let recorder = Recorder::new();
    let mut region = recorder.create("m", 64 * 40).unwrap();
    region.store(0, &[1; 64 * 5]);
    assert!(images(&recorder, 0).len() == 32, "all subsets of five lines");
    region.store(0, &[1; 64 * 40]);
    assert!(images(&recorder, 60).len() > 50);
}

#[test]
fn the_death_of_a_process_keeps_stores_and_makes_none_persistent() {
    let recorder = Recorder::new();
    let mut region = recorder.create("m", 8).unwrap();
    region.store(0, &[1; 8]);
    let mut points = recorder.crash_points();
    while points.advance() {}
    let next = points.image(Crash::Kill(0));
    assert_eq!(next.open("m").unwrap().bytes(), [1; 8]);
    assert_eq!(images(&next, 0).len(), 2, "a power cut after that");
    let mut region = next.open("m").unwrap();
    region.write_back(0, 8);
    region.fence().unwrap();
    assert_eq!(images(&next, 0).len(), 1);
}

#[test]
fn removed_names_may_come_back_until_others_change() {
    let recorder = Recorder::new();
    recorder.create("m", 8).unwrap();
    recorder.create("n", 8).unwrap();
    recorder.remove("n").unwrap();
    let names = |crash| {
        let mut points = recorder.crash_points();
        while points.advance() {}
        points.image(crash).names().unwrap()
    };
    assert_eq!(names(Crash::Words(0)), ["m", "n"]);
    assert_eq!(names(Crash::Everything), ["m"]);
    recorder.rename("m", "o").unwrap();
    assert_eq!(names(Crash::Words(0)), ["o"]);
}

#[test]
fn a_name_in_whose_change_the_process_died_may_be_lost_until_it_is_settled() {
    let recorder = Recorder::new();
    recorder.create("m", 8).unwrap();
    recorder.rename("m", "o").unwrap();
    let mut points = recorder.crash_points();
    points.advance();
    let left: Vec<_> = (0..20).map(|seed| points.image(Crash::Kill(seed))).collect();
    assert!(left.iter().any(|image| image.names().unwrap() == ["m"]), "not yet renamed");
    let renamed = left.into_iter().find(|image| image.names().unwrap() == ["o"]).expect("renamed");
    let after_power_cut = |crash| {
        let mut points = renamed.crash_points();
        while points.advance() {}
        points.image(crash).names().unwrap()
    };
    assert_eq!(
        (after_power_cut(Crash::Nothing), after_power_cut(Crash::Everything)),
        (vec!["m".into()], vec!["o".into()])
    );
    renamed.settle().unwrap();
    assert_eq!(after_power_cut(Crash::Nothing), ["o"]);
}
