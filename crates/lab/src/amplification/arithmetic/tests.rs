//! Samples made by hand, with figures that can be checked in the head.

use super::*;

fn sample(at_seconds: f64, put: u64, own: Option<u64>, process: Option<u64>) -> Sample {
    Sample { at_seconds, put_bytes: put, written: Ways { own, process, ..Ways::default() }, ..Sample::default() }
}

/// Fails if a phase's figures have the phase before in them: a base that is left out gives 600 and 1,300 bytes.
#[test]
fn a_phase_counts_from_its_beginning() {
    let base = sample(2.0, 0, Some(100), Some(1_000));
    let samples = [sample(3.0, 100, Some(300), Some(1_100)), sample(4.5, 200, Some(600), Some(1_300))];
    let figures = PhaseFigures::of(&base, &samples, None);
    assert_eq!(figures.seconds, 2.5);
    assert_eq!((figures.write_bytes.own, figures.write_bytes.process), (Some(500), Some(300)));
    assert_eq!((figures.waf.own, figures.waf.process), (Some(2.5), Some(1.5)));
    assert_eq!((figures.waf.statistics, figures.waf.device), (None, None), "what was not counted is not 0");
    let series = figures.series;
    assert_eq!(series.at_seconds, [1.0, 2.5]);
    assert_eq!(series.logical_write_bytes, [100, 100]);
    assert_eq!(series.write_bytes.own, Some(vec![200, 300]));
    assert_eq!(series.write_bytes.process, Some(vec![100, 200]));
    assert_eq!(series.waf.own, Some(vec![Some(2.0), Some(2.5)]));
    assert_eq!(series.waf.process, Some(vec![Some(1.0), Some(1.5)]));
    assert_eq!(series.waf.device, None);
}

/// Fails if what is unflushed is left out (0.81, as was published of such a run), or if what loading left counts for the run.
#[test]
fn what_is_still_to_be_written_belongs_to_those_who_put_it() {
    let owing = |sample: Sample, bytes| Sample { unflushed_bytes: Some(bytes), ..sample };
    let base = owing(sample(0.0, 0, Some(5_000), None), 160);
    let samples =
        [owing(sample(1.0, 1_000, Some(5_160), None), 900), owing(sample(2.0, 2_000, Some(6_620), None), 540)];
    let figures = PhaseFigures::of(&base, &samples, None);
    assert_eq!(figures.waf.own, Some((1_620.0 + 540.0 - 160.0) / 2_000.0));
    assert_eq!(figures.series.waf.own, Some(vec![Some(0.9), Some(1.0)]));
    assert_eq!((figures.write_bytes.own, figures.unflushed_bytes), (Some(1_620), Some(540)));
    assert_eq!(figures.series.unflushed_bytes, Some(vec![900, 540]));
    // The same by the statistics of others: what is dirty in PostgreSQL's cache, what RocksDB's memtables hold.
    let of_others =
        |sample: Sample| Sample { written: Ways { statistics: sample.written.own, ..Ways::default() }, ..sample };
    let by_statistics = PhaseFigures::of(&of_others(base), &samples.map(of_others), None);
    assert_eq!((by_statistics.waf.own, by_statistics.waf.statistics), (None, figures.waf.own));
    assert_eq!(by_statistics.series.waf.statistics, figures.series.waf.own);
    // The kernel's counters know nothing of it.
    let of_process = PhaseFigures::of(
        &owing(sample(0.0, 0, None, Some(0)), 0),
        &[owing(sample(1.0, 100, None, Some(150)), 999)],
        None,
    );
    assert_eq!(of_process.waf.process, Some(1.5));
}

/// Fails if who only reads is given an amplification of writes, or if it is infinite: JSON has no such number.
#[test]
fn a_phase_that_puts_nothing_has_bytes_and_no_write_amplification() {
    let base = sample(0.0, 0, Some(10), Some(10));
    let mut end = sample(1.0, 0, Some(4_106), Some(10));
    (end.returned_bytes, end.read) = (1_000, Sides { process: Some(4_096), device: None });
    let base = Sample { read: Sides { process: Some(96), device: None }, ..base };
    let figures = PhaseFigures::of(&base, &[end], None);
    assert_eq!(
        (figures.write_bytes.own, figures.waf.own, figures.series.waf.own),
        (Some(4_096), None, Some(vec![None]))
    );
    assert_eq!((figures.read_amplification.process, figures.read_amplification.device), (Some(4.0), None));
    assert_eq!(figures.series.read_bytes.process, Some(vec![4_000]));
    let silent = PhaseFigures::of(&base, &[sample(1.0, 0, None, None)], None);
    assert_eq!((silent.read_amplification, silent.waf), (Sides::default(), Ways::default()));
}

/// Fails if a counter that is missing for a moment, or falls back because written pages were dropped, gives a negative or a double increment.
#[test]
fn the_increments_of_a_series_add_up_to_the_phase() {
    let base = sample(0.0, 0, None, Some(1_000));
    let seen = [Some(1_500), None, Some(1_400), Some(2_000)];
    let samples: Vec<Sample> =
        seen.into_iter().enumerate().map(|(i, process)| sample(i as f64 + 1.0, 100, None, process)).collect();
    let figures = PhaseFigures::of(&base, &samples, None);
    assert_eq!(figures.series.write_bytes.process, Some(vec![400, 0, 0, 600]));
    assert_eq!(figures.write_bytes.process, Some(1_000));
    let fallen = [sample(1.0, 100, None, Some(1_200)), sample(2.0, 100, None, Some(900))];
    let figures = PhaseFigures::of(&base, &fallen, None);
    assert_eq!((figures.series.write_bytes.process, figures.write_bytes.process), (Some(vec![0, 0]), Some(0)));
}

/// Fails if what the kernel took back is lost, or if a phase has that of the one before.
#[test]
fn what_the_kernel_took_back_stands_beside_what_it_wrote() {
    let at = |process, cancelled_bytes| Sample { cancelled_bytes, ..sample(1.0, 100, None, Some(process)) };
    let figures = PhaseFigures::of(&at(1_000, Some(300)), &[at(1_050, Some(450))], None);
    assert_eq!((figures.write_bytes.process, figures.cancelled_write_bytes), (Some(50), Some(150)));
    assert_eq!(PhaseFigures::of(&at(1_000, None), &[at(1_050, None)], None).cancelled_write_bytes, None);
}

/// Fails if bytes of other phases, or of an unknown store, are divided.
#[test]
fn space_is_that_at_the_end_by_what_is_live_then() {
    let at = |disk_bytes| Sample { disk_bytes, ..sample(1.0, 0, None, None) };
    let of = |disk, live| PhaseFigures::of(&at(Some(9)), &[at(Some(77)), at(disk)], live).space_amplification;
    assert_eq!(of(Some(300), Some(200)), Some(1.5));
    assert_eq!((of(None, Some(200)), of(Some(300), None), of(Some(300), Some(0))), (None, None, None));
}

/// Fails if compactions of the load count for the run.
#[test]
fn compactions_are_those_that_ended_in_the_phase() {
    let done = |count, seconds, bytes| CompactionFigures {
        count: Some(count),
        seconds: Some(seconds),
        bytes: Some(bytes),
        ..CompactionFigures::default()
    };
    let at = |compaction| Sample { compaction, ..sample(1.0, 0, None, None) };
    let figures = PhaseFigures::of(&at(done(4, 1.5, 1_000)), &[at(done(5, 2.0, 1_300)), at(done(9, 4.0, 2_000))], None);
    assert_eq!(figures.compaction, done(5, 2.5, 1_000));
    assert_eq!(figures.series.compactions, Some(vec![1, 4]));
    assert_eq!(figures.series.compaction_bytes, Some(vec![300, 700]));
    // Before the engine was open there were none.
    let first = PhaseFigures::of(&at(CompactionFigures::default()), &[at(done(2, 0.5, 10))], None);
    assert_eq!(first.compaction, done(2, 0.5, 10));
    // Nor checkpoints of an index.
    let saved = |count, bytes, seconds| Sample {
        index_checkpoints: Some(count),
        index_checkpoint_bytes: Some(bytes),
        index_checkpoint_seconds: Some(seconds),
        ..sample(1.0, 0, None, None)
    };
    let figures = PhaseFigures::of(&saved(1, 300, 0.25), &[saved(3, 900, 1.0)], None);
    assert_eq!((figures.index_checkpoints, figures.index_checkpoint_bytes), (Some(2), Some(600)));
    assert_eq!(figures.index_checkpoint_seconds, Some(0.75));
}

#[test]
fn neighbours_are_put_together_and_the_last_sample_stays() {
    for count in 1..=9u64 {
        let samples: Vec<_> = (0..count).map(|at| sample(at as f64, at, None, None)).collect();
        let kept: Vec<u64> = thinned(samples).iter().map(|sample| sample.put_bytes).collect();
        assert_eq!(kept.len() as u64, count.div_ceil(2));
        assert_eq!(kept.last(), Some(&(count - 1)), "{count}");
        assert!(kept.windows(2).all(|pair| pair[1] - pair[0] == 2), "{kept:?}");
    }
}

/// Fails if a name of a field changes that scripts rely on.
#[test]
fn a_phase_is_json_with_these_names_and_comes_back() {
    let base = sample(0.0, 0, Some(0), Some(0));
    let figures = PhaseFigures::of(&base, &[sample(1.0, 16, Some(4_096), Some(8_192))], Some(16));
    let mut json = serde_json::to_value(&figures).unwrap();
    assert_eq!(json["waf"]["own"], 256.0);
    assert_eq!(json["series"]["waf"]["process"][0], 512.0);
    for name in [
        "logical_write_bytes",
        "logical_read_bytes",
        "write_bytes",
        "cancelled_write_bytes",
        "unflushed_bytes",
        "read_bytes",
        "read_amplification",
        "disk_bytes",
        "live_bytes",
        "space_amplification",
        "compaction",
        "index_checkpoints",
        "index_checkpoint_bytes",
        "index_checkpoint_seconds",
    ] {
        assert!(json.get(name).is_some(), "{name}");
    }
    assert_eq!(serde_json::from_value::<PhaseFigures>(json.clone()).unwrap(), figures);
    // A line of before the kernel was asked what it took back.
    json.as_object_mut().unwrap().remove("cancelled_write_bytes");
    assert_eq!(serde_json::from_value::<PhaseFigures>(json).unwrap(), figures);
}
