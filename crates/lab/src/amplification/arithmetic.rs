//! From cumulative samples to the figures of a phase and its series.

use super::{PhaseFigures, Series, Sides, Ways};
use crate::record::CompactionFigures;

/// Counters at one moment, each since a beginning of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sample {
    pub(crate) at_seconds: f64,
    /// Bytes of keys and values put since the phase began.
    pub(crate) put_bytes: u64,
    /// Bytes that reads returned since the phase began.
    pub(crate) returned_bytes: u64,
    /// Bytes written. The engine's do not have what it has still to write.
    pub(crate) written: Ways<u64>,
    /// Bytes that the kernel took back.
    pub(crate) cancelled_bytes: Option<u64>,
    pub(crate) unflushed_bytes: Option<u64>,
    pub(crate) read: Sides<u64>,
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) compaction: CompactionFigures,
    pub(crate) index_checkpoints: Option<u64>,
    pub(crate) index_checkpoint_bytes: Option<u64>,
    pub(crate) index_checkpoint_seconds: Option<f64>,
}

impl Sample {
    /// Bytes written, those that the engine owes included by the counters of its own or of others.
    fn owed(&self) -> Ways<u64> {
        let with = |bytes: Option<u64>| bytes.map(|bytes| bytes + self.unflushed_bytes.unwrap_or(0));
        Ways { own: with(self.written.own), statistics: with(self.written.statistics), ..self.written }
    }

    /// As the beginning of the next phase.
    pub(crate) fn restart(&self) -> Self {
        Self { put_bytes: 0, returned_bytes: 0, ..self.clone() }
    }
}

/// One counter of a sample.
type Counter<'a> = &'a dyn Fn(&Sample) -> Option<u64>;

impl PhaseFigures {
    /// Of a phase that began at `base` and ended at the last of `samples`, with so many live bytes then. Without samples nothing is known.
    pub(crate) fn of(base: &Sample, samples: &[Sample], live_bytes: Option<u64>) -> Self {
        let Some(end) = samples.last() else { return Self::default() };
        let grown = |of: Counter<'_>| Some(of(end)?.saturating_sub(of(base)?));
        let (put, returned) = (end.put_bytes, end.returned_bytes);
        let before = base.compaction.seconds.unwrap_or(0.0);
        let read_bytes = Sides { process: grown(&|s| s.read.process), device: grown(&|s| s.read.device) };
        let by_returned = |bytes: Option<u64>| ratio(bytes?, returned);
        Self {
            seconds: end.at_seconds - base.at_seconds,
            logical_write_bytes: put,
            logical_read_bytes: returned,
            write_bytes: Ways::by(|way| grown(&|s| way(&s.written))),
            cancelled_write_bytes: grown(&|s| s.cancelled_bytes),
            unflushed_bytes: end.unflushed_bytes,
            waf: Ways::by(|way| ratio(grown(&|s| way(&s.owed()))?, put)),
            read_bytes,
            read_amplification: Sides {
                process: by_returned(read_bytes.process),
                device: by_returned(read_bytes.device),
            },
            disk_bytes: end.disk_bytes,
            live_bytes,
            space_amplification: end.disk_bytes.zip(live_bytes).and_then(|(disk, live)| ratio(disk, live)),
            compaction: CompactionFigures {
                count: since_opened(base, end, &|s| s.compaction.count),
                seconds: end.compaction.seconds.map(|seconds| (seconds - before).max(0.0)),
                bytes: since_opened(base, end, &|s| s.compaction.bytes),
                ..CompactionFigures::default()
            },
            index_checkpoints: since_opened(base, end, &|s| s.index_checkpoints),
            index_checkpoint_bytes: since_opened(base, end, &|s| s.index_checkpoint_bytes),
            index_checkpoint_seconds: end
                .index_checkpoint_seconds
                .map(|seconds| (seconds - base.index_checkpoint_seconds.unwrap_or(0.0)).max(0.0)),
            series: Series::of(base, samples),
        }
    }
}

impl Series {
    /// Intervals that end with each of `samples`, the first of them beginning with `base`.
    fn of(base: &Sample, samples: &[Sample]) -> Self {
        let of = |counter: Counter<'_>| increments(base, samples, counter);
        let at_the_end = |gauge: Counter<'_>| {
            gauge(samples.last()?)?;
            Some(samples.iter().map(|sample| gauge(sample).unwrap_or(0)).collect::<Vec<u64>>())
        };
        let waf = |way: fn(&Ways<u64>) -> Option<u64>| {
            let before = way(&base.owed())?;
            way(&samples.last()?.owed())?;
            let of = |s: &Sample| ratio(way(&s.owed())?.saturating_sub(before), s.put_bytes).map(rounded);
            Some(samples.iter().map(of).collect::<Vec<Option<f64>>>())
        };
        Self {
            at_seconds: samples.iter().map(|sample| rounded(sample.at_seconds - base.at_seconds)).collect(),
            logical_write_bytes: of(&|s| Some(s.put_bytes)).unwrap_or_default(),
            logical_read_bytes: of(&|s| Some(s.returned_bytes)).unwrap_or_default(),
            write_bytes: Ways::by(|way| of(&|s| way(&s.written))),
            read_bytes: Sides { process: of(&|s| s.read.process), device: of(&|s| s.read.device) },
            unflushed_bytes: at_the_end(&|s| s.unflushed_bytes),
            disk_bytes: at_the_end(&|s| s.disk_bytes),
            compactions: of(&|s| s.compaction.count),
            compaction_bytes: of(&|s| s.compaction.bytes),
            waf: Ways::by(waf),
        }
    }

    /// Its rows.
    pub fn len(&self) -> usize {
        self.at_seconds.len()
    }

    /// Whether nothing was seen of the phase while it went on.
    pub fn is_empty(&self) -> bool {
        self.at_seconds.is_empty()
    }
}

/// What a counter grew by from each sample to the next; `None` where it is not known at the beginning or at the end. One that is missing in
/// between did not grow. What it falls back by later (pages that were dropped before they were written, a process that was being waited
/// for) it never grew by, so that the increments add up to what is left at the end.
fn increments(base: &Sample, samples: &[Sample], counter: Counter<'_>) -> Option<Vec<u64>> {
    let begin = counter(base)?;
    let mut least = counter(samples.last()?)?.max(begin);
    let mut reached: Vec<u64> = Vec::with_capacity(samples.len());
    for sample in samples.iter().rev() {
        least = counter(sample).map_or(least, |now| now.clamp(begin, least));
        reached.push(least);
    }
    reached.reverse();
    let befores = std::iter::once(begin).chain(reached.iter().copied());
    Some(reached.iter().zip(befores).map(|(now, before)| now - before).collect())
}

/// What a counter that begins at 0 when the engine is opened grew by.
fn since_opened(base: &Sample, end: &Sample, counter: Counter<'_>) -> Option<u64> {
    Some(counter(end)?.saturating_sub(counter(base).unwrap_or(0)))
}

fn ratio(bytes: u64, by: u64) -> Option<f64> {
    (by > 0).then(|| bytes as f64 / by as f64)
}

/// To four decimals: a line of JSON is read by people too.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

/// Every second of `samples`, the last one among them: the intervals of each pair become one.
pub(super) fn thinned(samples: Vec<Sample>) -> Vec<Sample> {
    // Of an odd number the first stays alone.
    let left_out = samples.len() % 2;
    samples.into_iter().enumerate().filter(|(i, _)| i % 2 != left_out).map(|(_, sample)| sample).collect()
}

#[cfg(test)]
mod tests;
