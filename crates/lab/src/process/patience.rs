//! How long a worker may be silent before it is taken for hung.
//!
//! A worker is alive while it enters phases and finishes operations. The limit of silence grows with what the run puts: the
//! longest silences are the closing flush and a compaction, which take as long as their bytes do. A phase that runs by time
//! must also end in time.

use std::time::{Duration, Instant};

use super::Event;
use crate::spec::RunSpec;

/// No run is taken for hung before this.
const SILENCE_MIN: Duration = Duration::from_secs(300);
/// Devices slower than this, in bytes per second, are not waited for.
const SLOWEST_DEVICE: f64 = 2e6;

/// The longest silence of a healthy worker that does `spec`.
pub(crate) fn silence_max(spec: &RunSpec) -> Duration {
    let flush = Duration::from_secs_f64(spec.put_bytes() as f64 / SLOWEST_DEVICE);
    // In an open loop the schedule itself may be slow.
    let pause = Duration::try_from_secs_f64(spec.rate.map_or(0.0, |rate| 2.0 / rate)).unwrap_or(Duration::MAX);
    SILENCE_MIN.saturating_add(flush).saturating_add(pause)
}

/// Watches one worker.
#[derive(Debug)]
pub(crate) struct Patience {
    silence_max: Duration,
    phase: String,
    phase_began: Instant,
    phase_max: Option<Duration>,
    heard: Instant,
    done: u64,
    /// Since when it waits for another process.
    waiting: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(silence_max: Duration) -> Self {
        let now = Instant::now();
        let phase = "start".into();
        Self { silence_max, phase, phase_began: now, phase_max: None, heard: now, done: 0, waiting: None }
    }

    /// Take in what the worker said. That it is where it was is no sign of life.
    pub(crate) fn hear(&mut self, event: &Event) {
        let now = Instant::now();
        match event {
            Event::Phase { phase, seconds, .. } => {
                phase.clone_into(&mut self.phase);
                self.phase_began = now;
                self.phase_max = seconds
                    .map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX).saturating_add(self.silence_max));
                self.done = 0;
                self.heard = now;
            }
            Event::Progress { done } if *done == self.done => {}
            Event::Progress { done } => {
                self.done = *done;
                self.heard = now;
            }
            Event::Waiting { waiting: true } => self.waiting = self.waiting.or(Some(now)),
            // That time is nobody's.
            Event::Waiting { waiting: false } => {
                if let Some(since) = self.waiting.take() {
                    let waited = now - since;
                    (self.heard, self.phase_began) = (self.heard + waited, self.phase_began + waited);
                }
            }
            Event::Result { .. } | Event::Error { .. } => self.heard = now,
        }
    }

    /// Why the worker is given up, if it is.
    pub(crate) fn lost(&self) -> Option<String> {
        if self.waiting.is_some() {
            return None;
        }
        if self.heard.elapsed() > self.silence_max {
            return Some(format!(
                "hung in its phase `{}`, with nothing finished for {:.0} s, and was killed",
                self.phase,
                self.heard.elapsed().as_secs_f64()
            ));
        }
        let max = self.phase_max.filter(|max| self.phase_began.elapsed() > *max)?;
        Some(format!("did not end its phase `{}` within {:.0} s, and was killed", self.phase, max.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Plan;

    #[test]
    fn the_limit_grows_with_the_run() {
        let of = |plan: Plan| silence_max(&Plan { engines: vec!["null".into()], ..plan }.runs()[0]);
        let small = of(Plan { records: 10, operations: 10, ..Plan::default() });
        assert_eq!(small.as_secs(), SILENCE_MIN.as_secs());
        let large = of(Plan { records: 100_000_000, ..Plan::default() });
        assert!(large > Duration::from_secs(3_600) && large > 10 * small, "{large:?}");
        assert_eq!(of(Plan { records: 10, operations: 10, rate: Some(0.001), ..Plan::default() }).as_secs(), 2_300);
        assert_eq!(of(Plan { rate: Some(f64::MIN_POSITIVE), ..Plan::default() }), Duration::MAX);
    }

    #[test]
    fn only_phases_and_finished_operations_are_signs_of_life() {
        // So long that on a busy machine it is not over between two lines of this.
        let pause = || std::thread::sleep(Duration::from_millis(550));
        let mut patience = Patience::new(Duration::from_millis(500));
        let phase = |seconds| Event::Phase { phase: "run".into(), operations: None, seconds };
        patience.hear(&phase(None));
        assert_eq!(patience.lost(), None);
        pause();
        patience.hear(&Event::Progress { done: 0 });
        assert!(patience.lost().is_some_and(|why| why.contains("`run`")));
        patience.hear(&Event::Progress { done: 1 });
        assert_eq!(patience.lost(), None);
        // By time, going on for ever is no better than silence.
        patience.hear(&phase(Some(0.001)));
        pause();
        patience.hear(&Event::Progress { done: 2 });
        assert!(patience.lost().is_some_and(|why| why.contains("did not end")));
    }

    /// Fails if who waits is taken for hung, if waiting counts, or if it begins the time anew: a worker that has turns and finishes nothing hangs.
    #[test]
    fn time_in_which_it_waits_for_another_does_not_count() {
        let mut patience = Patience::new(Duration::from_millis(600));
        let waits = |patience: &mut Patience, waiting| patience.hear(&Event::Waiting { waiting });
        for _ in 0..2 {
            waits(&mut patience, true);
            std::thread::sleep(Duration::from_millis(700));
            assert_eq!(patience.lost(), None, "it waits");
            waits(&mut patience, false);
            assert_eq!(patience.lost(), None, "it had no time yet");
        }
        for _ in 0..100 {
            waits(&mut patience, true);
            waits(&mut patience, false);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(patience.lost().is_some(), "it had turns enough");
    }
}
