//! What a worker does with the writes that it takes.
//!
//! All that has come since the last time is one round. A round is cut into runs, each of writes that go to one lane in one way: a run is one
//! application to the engine, or one record of the store's journal, and one sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use biombo_base::clock::monotonic_ns;
use biombo_engine::{Batch, Durability, Error, ErrorKind, Op, Result};

use super::queue::Came;
use super::{Crew, Errand, KEPT_BYTES_MAX, Slip, Work};
use crate::lane::Attempt;
use crate::poison::PANICKED;

/// Bytes of a run, but for its first write: a transaction must not grow without bound.
const RUN_BYTES_MAX: usize = 8 << 20;

/// The writes of a round, and room for the next.
#[derive(Default)]
struct Round {
    /// Tickets to be answered.
    slips: Vec<Option<Slip>>,
    /// Lanes of which it is asked to bring in what was gathered.
    brings: Vec<usize>,
    /// What is written on them; those past the end of `slips` are blanks.
    works: Vec<Work>,
    /// Their order by lanes.
    order: Vec<usize>,
    /// Of a run: whether each was written.
    landed: Vec<bool>,
}

/// Takes what is in a queue.
impl Extend<Errand> for Round {
    fn extend<I: IntoIterator<Item = Errand>>(&mut self, errands: I) {
        for errand in errands {
            match errand {
                Errand::Write(slip) => self.slips.push(Some(slip)),
                Errand::Bring(lane) => self.brings.push(lane),
            }
        }
    }
}

impl Round {
    fn answer(&mut self, at: usize, answer: Result<Attempt>) {
        if let Some(slip) = self.slips.get_mut(at).and_then(Option::take) {
            slip.answer(answer);
        }
    }

    /// Forget the tickets, and buffers that have grown large: else a worker would hold on to one for each caller that there ever was.
    fn clear(&mut self) {
        self.brings.clear();
        let used = self.slips.drain(..).count();
        for work in self.works.iter_mut().take(used).filter(|work| work.batch.capacity() > KEPT_BYTES_MAX) {
            work.batch = Batch::new();
        }
    }
}

/// How many of these writes, by their places in the order of lanes, are one run: at least one.
fn run_length(works: &[Work], order: &[usize]) -> usize {
    let way = |at: usize| (works[at].lane, works[at].may_wait);
    let mut bytes = 0;
    let alike = order.iter().take_while(|at| {
        bytes += works[**at].batch.bytes();
        way(**at) == way(order[0]) && bytes <= RUN_BYTES_MAX
    });
    alike.count().max(1)
}

impl Crew {
    /// The life of a worker.
    pub(super) fn run(&self, number: usize) {
        let mut round = Round::default();
        while let Some(came) = self.queues[number].take(&mut round) {
            let done = catch_unwind(AssertUnwindSafe(|| self.serve(&mut round, came)));
            if done.is_err() {
                let error = Error::poisoned(PANICKED);
                self.site.poison.set(&error);
                for at in 0..round.slips.len() {
                    round.answer(at, Err(Error::new(ErrorKind::Poisoned, error.message())));
                }
            }
            round.clear();
        }
    }

    /// Do all writes of a round and answer them.
    fn serve(&self, round: &mut Round, came: Came) {
        let begun_ns = monotonic_ns();
        let count = round.slips.len();
        if round.works.len() < count {
            round.works.resize_with(count, Work::default);
        }
        for (slip, work) in round.slips.iter().flatten().zip(&mut round.works) {
            slip.exchange(work);
        }
        let mut order = std::mem::take(&mut round.order);
        order.clear();
        order.extend(0..count);
        order.sort_unstable_by_key(|at| (round.works[*at].lane, *at));
        let mut left = &order[..];
        let mut now_ns = begun_ns;
        while let Some(first) = left.first() {
            let (run, rest) = left.split_at(run_length(&round.works, left));
            left = rest;
            let lane = round.works[*first].lane;
            // What they waited for others, not for the worker to wake.
            let waits = run.iter().map(|at| round.works[*at].asked_ns);
            let since = |asked_ns: u64| if came == Came::Awaited { asked_ns.max(begun_ns) } else { asked_ns };
            let waited_ns = waits.map(|asked_ns| now_ns.saturating_sub(since(asked_ns))).sum();
            self.site.lanes[lane].count_wait(waited_ns);
            let result = self.write_run(lane, &round.works, run, &mut round.landed);
            for (place, at) in run.iter().enumerate() {
                let answer = match (&result, round.landed.get(place)) {
                    (_, Some(false)) => Ok(Attempt::Again),
                    (Ok(()), _) => Ok(Attempt::Landed),
                    (Err(error), _) => Err(Error::new(error.kind(), error.message())),
                };
                round.answer(*at, answer);
            }
            let ended_ns = monotonic_ns();
            self.took_ns[lane].fetch_add(ended_ns - now_ns, Ordering::Relaxed);
            now_ns = ended_ns;
        }
        round.order = order;
        // After those for whom somebody waits; where one of them went to the same lane, this one has gone with it.
        for lane in round.brings.drain(..) {
            self.wishes[lane].begin();
            // An error leaves it where it is, for the next flush to tell, or has poisoned the store.
            let _ = self.site.instances[self.site.lanes[lane].instance].drain_relaxed(&self.site.poison);
            let ended_ns = monotonic_ns();
            self.took_ns[lane].fetch_add(ended_ns - now_ns, Ordering::Relaxed);
            now_ns = ended_ns;
        }
    }

    /// Write a run of a lane as a whole, as durable as its most durable member asks; `landed` says of which members that is so.
    fn write_run(&self, number: usize, works: &[Work], run: &[usize], landed: &mut Vec<bool>) -> Result<()> {
        landed.clear();
        let site = &self.site;
        let lane = &site.lanes[number];
        let instance = &site.instances[lane.instance];
        let journal = instance.deferred.as_ref().zip(site.intents.as_ref()).filter(|_| works[run[0]].may_wait);
        if let Some((_, intents)) = journal {
            intents.make_room(&site.lanes, &site.instances, &site.poison)?;
        }
        let mut durability = Durability::Relaxed;
        let gathered = {
            let mut held = lane.lock();
            site.poison.check()?;
            let version = site.topology.version();
            landed.extend(run.iter().map(|at| works[*at].version == version && held.admits_batch(&works[*at].batch)));
            let members = || run.iter().zip(landed.iter()).filter(|(_, landed)| **landed).map(|(at, _)| &works[*at]);
            let ops: Vec<Op<'_>> = members().flat_map(|work| work.batch.iter()).collect();
            if ops.is_empty() {
                return Ok(());
            }
            durability = members().map(|work| work.durability).fold(durability, Durability::max);
            lane.count(&ops);
            match journal {
                Some((deferred, intents)) => {
                    let gathered =
                        intents.commit_in_lane(number, &mut held, deferred, &ops, durability, &site.poison)?;
                    Some((intents, gathered))
                }
                None => {
                    lane.publish(&mut held, instance, &ops, durability, &site.poison)?;
                    None
                }
            }
        };
        match gathered {
            Some((intents, gathered)) => intents.relieve(gathered, instance, lane.instance, &site.poison),
            None if durability == Durability::Sync && instance.engine.capabilities().sync_apart => {
                instance.sync_applied(&site.poison)
            }
            None => Ok(()),
        }
    }
}
