//! When an operation should begin: at once (closed loop), or at its place in a schedule (open loop).
//!
//! In an open loop latency counts from the intended beginning, so that the operations which had to wait behind a slow one
//! show it: no coordinated omission (Tene, "How NOT to Measure Latency").

use std::time::Duration;

use super::clock::RunClock;
use crate::turns::Gate;

/// The schedule of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    Closed,
    Open { interval_ns: f64, offset_ns: f64, issued: u64 },
}

/// Sleeping shorter than this is left to yielding: a timer's wake-up is that late.
const SLEEP_SLACK_NS: u64 = 150_000;

impl Pace {
    /// For `thread` of `threads` that share `rate` operations per second, evenly staggered.
    pub(crate) fn new(rate: Option<f64>, thread: u32, threads: u32) -> Self {
        match rate {
            None => Self::Closed,
            Some(rate) => Self::Open {
                interval_ns: f64::from(threads) / rate * 1e9,
                offset_ns: f64::from(thread) / rate * 1e9,
                issued: 0,
            },
        }
    }

    /// When the next operation should begin, in nanoseconds since the run began, where the one before ended at `ended_ns`: what a
    /// workload that changes with time goes by. In an open loop it is the schedule's time however late the clients are.
    #[inline]
    pub(crate) fn next_ns(&self, ended_ns: u64) -> u64 {
        match self {
            Self::Closed => ended_ns,
            Self::Open { interval_ns, offset_ns, issued } => (*offset_ns + *issued as f64 * *interval_ns) as u64,
        }
    }

    /// Wait for the next beginning and return it, in nanoseconds since the run began.
    #[inline]
    pub(crate) fn begin(&mut self, clock: &mut RunClock, gate: Option<&Gate>) -> u64 {
        let intended_ns = self.next_ns(0);
        match self {
            Self::Closed => clock.now_ns(),
            Self::Open { issued, .. } => {
                *issued += 1;
                wait_until(clock, gate, intended_ns);
                intended_ns
            }
        }
    }

    /// Whether an open loop wants nothing more before `deadline_ns`. A closed one has its next operation at once.
    pub(crate) fn is_over(&self, deadline_ns: u64) -> bool {
        matches!(self, Self::Open { .. }) && self.next_ns(0) >= deadline_ns
    }
}

/// Wait until so long after the run began. Who stands still at `gate` meanwhile has as much left of it afterwards: clients that are staggered
/// stay so, which they would not if all waited their time out before they rest.
#[inline]
pub(crate) fn wait_until(clock: &mut RunClock, gate: Option<&Gate>, at_ns: u64) {
    loop {
        if let Some(gate) = gate {
            gate.pass(clock);
        }
        let wait_ns = at_ns.saturating_sub(clock.now_ns());
        if wait_ns == 0 {
            return;
        }
        if wait_ns > SLEEP_SLACK_NS {
            let most = Duration::from_nanos(wait_ns - SLEEP_SLACK_NS);
            gate.map_or_else(|| std::thread::sleep(most), |gate| gate.sleep(most));
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Clients of an open loop begin one after another. Fails if one that waits for its time lets the gate wait for it, so that all rest at the end of their
    /// waiting and go on at one moment; or if rests count as waiting.
    #[test]
    fn who_waits_for_its_time_rests_at_once_and_has_as_much_left_of_it_afterwards() {
        const WAIT: Duration = Duration::from_millis(1_000);
        const REST: Duration = Duration::from_millis(100);
        // By so much two clocks may differ.
        const CLOCKS: Duration = Duration::from_millis(5);
        let (gate, first) = (Gate::default(), RunClock::start());
        let begun = Instant::now();
        let clock = first.restart();
        std::thread::scope(|scope| {
            let (inside, mut own) = (gate.enter(), clock.clone());
            let gate = &gate;
            let client = scope.spawn(move || {
                let _inside = inside;
                wait_until(&mut own, Some(gate), WAIT.as_nanos() as u64);
                let own_ns = own.now_ns();
                (own_ns, Instant::now())
            });
            std::thread::sleep(Duration::from_millis(20));
            gate.close();
            let (closed, is_early) = (Instant::now(), begun.elapsed() < WAIT * 4 / 5);
            std::thread::sleep(REST);
            let rested = closed.elapsed();
            gate.open(clock.stamp());
            let (own_ns, ended) = client.join().unwrap();
            assert!(is_early, "the gate waited for who waits");
            assert!(own_ns >= WAIT.as_nanos() as u64 && ended - begun + CLOCKS >= WAIT + REST, "{own_ns} ns");
            let most = ended - begun - rested + CLOCKS;
            assert!(Duration::from_nanos(own_ns) <= most, "{own_ns} ns of {most:?}");
        });
    }
}
