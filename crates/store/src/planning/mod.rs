//! Partitions that move by themselves: what is accessed is watched, what would pay is planned, what is planned is moved.
//!
//! | room | idea |
//! |---|---|
//! | `watch` | what users' operations leave: samples and times |
//! | `costs` | what it costs that keys lie apart and loads are uneven: measured |
//! | `graph` | the graph of accesses |
//! | `coarse` | ranges that bear too much to be balanced, and such that nobody asks for |
//! | `brain` | the loop itself, pure: what is seen goes in, what to move comes out |
//! | `draft` | a plan as moves, all of it or a part to learn from |
//! | `former` | what a plan gave, measured |
//! | `plans` | what became of plans, in memory and on disk |
//! | `settings` | how often, how much, how fast |
//!
//! Here are the thread that drives the loop, and what it does to the store. It sleeps [`DRAIN`] at a time, drains the samples of all threads into the
//! window, and asks the loop. A plan of thousands of keys is one move for each pair of partitions. Moves go through the same
//! [`Mover`] as those that users ask for, at a bounded rate, of which they take less while users feel them.
//!
//! Invariants: the foreground waits for nothing here (rings are lossy, times are sums, placements are read as everywhere); an error here is
//! told in [`Plans`] and ends a plan, not the store, unless a move itself poisoned it; dropping [`Planning`] ends the thread, which gives up a move that has
//! not changed hands yet.
//!
//! Crash argument: moves are as safe as any ([`migration`](crate::migration)); the file of plans is replaced as a whole and says nothing that anybody relies on.

mod brain;
#[cfg(test)]
mod brain_tests;
mod coarse;
mod costs;
mod draft;
mod former;
mod graph;
mod plans;
mod settings;
#[cfg(test)]
mod store_tests;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use biombo_base::clock::monotonic_ns;
use biombo_base::io::Io;
use biombo_engine::{Error, ErrorKind, Result};

pub use plans::{Level, PlanReport, Plans, Refused};
pub use settings::Repartition;
pub(crate) use settings::{DEFAULT_PLANNER, Settings};
pub(crate) use watch::{Watch, Way};

use crate::migration::{Mover, Pace, Tidier};
use crate::pinned::{Crew, Evener};
use crate::placement::Cuts;
use crate::pulse::Pulse;
use crate::{Options, Partitioning, Placement, Store};
use brain::{Brain, Sight, Sizes, Thought, way_ns};
use draft::{Draft, Load};

/// How often rings are drained: they hold about so much of a busy thread's samples.
const DRAIN: Duration = Duration::from_millis(100);
/// Moves are cut finely: whoever writes meanwhile waits for one piece at most.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_KEYS: usize = 1024;

/// A plan that takes so many times the time that it was made for is ended between two of its moves.
const LATE_TIMES: u64 = 2;
const LATE: &str =
    "it took longer than what it was made of lasts: what is left of it stays where it is, until another plan";

/// A store's loop of planning, and the thread that drives it.
pub(crate) struct Planning {
    pub(crate) driver: Arc<Driver>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread needs of a store.
pub(crate) struct Driver {
    brain: Mutex<Brain>,
    plans: Mutex<Plans>,
    /// Plans that were carried out, that were not begun, and what planning had cost, before the store was opened.
    before: (u64, u64, u64),
    /// Whether the file says less than `plans`.
    unsaved: Mutex<bool>,
    mover: Arc<Mover>,
    watch: Arc<Watch>,
    pulse: Arc<Pulse>,
    tidier: Option<Arc<Tidier>>,
    io: Arc<dyn Io>,
    dir: PathBuf,
    /// Of partitions.
    dirs: Vec<PathBuf>,
    partitions: u32,
    crew: Option<Arc<Crew>>,
    balance: Mutex<Evener>,
    /// When loads were evened last.
    evened_ns: Mutex<u64>,
    planner: &'static str,
    /// What lanes had waited when it was looked last.
    waited_ns: Mutex<u64>,
    /// How long a plan takes is told by it: where somebody else gives the time, plans take none.
    clock: fn() -> u64,
    end: Mutex<bool>,
    ended: Condvar,
}

/// What was done while the loop had the role of whoever moves.
#[derive(Default)]
struct Work {
    units: u64,
    keys: u64,
    bytes: u64,
    cost_ns: u64,
}

impl Work {
    fn add(&mut self, other: &Self) {
        self.units += other.units;
        self.keys += other.keys;
        self.bytes += other.bytes;
        self.cost_ns += other.cost_ns;
    }
}

/// What the loop is made of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) planner: String,
    pub(crate) mover: Arc<Mover>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) tidier: Option<Arc<Tidier>>,
    pub(crate) io: Arc<dyn Io>,
    pub(crate) dir: PathBuf,
    /// Of partitions.
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) partitions: u32,
    /// Who writes, under the executor `pinned`.
    pub(crate) crew: Option<Arc<Crew>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time where no thread drives the loop: none passes but what tests tell.
#[cfg(not(test))]
fn time_by_hand() -> u64 {
    0
}

#[cfg(test)]
use watch::told::now_ns as time_by_hand;

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Planning {
    /// A loop, with a thread of its own if `threaded`; otherwise somebody calls [`Driver::tick`]. What was damaged of the plans before is told
    /// to `warn`.
    pub(crate) fn start(parts: Parts, threaded: bool, warn: &mut dyn FnMut(String)) -> Result<Self> {
        let planner = biombo_planner::planner(&parts.planner).map_err(|e| Error::invalid(e.to_string()))?;
        let clock: fn() -> u64 = if threaded { monotonic_ns } else { time_by_hand };
        let brain = Brain::new(parts.settings, planner, clock())?;
        let plans = Plans::load(&*parts.io, &parts.dir).unwrap_or_else(|error| {
            warn(format!("what plans were made before is lost: {error}"));
            Plans::default()
        });
        let driver = Arc::new(Driver {
            brain: Mutex::new(brain),
            before: (plans.carried_out, plans.refused_count(), plans.spent_ns()),
            plans: Mutex::new(plans),
            unsaved: Mutex::default(),
            waited_ns: Mutex::new(parts.mover.waited_ns()),
            mover: parts.mover,
            watch: parts.watch,
            pulse: parts.pulse,
            tidier: parts.tidier,
            io: parts.io,
            dir: parts.dir,
            dirs: parts.dirs,
            partitions: parts.partitions,
            balance: Mutex::new(Evener::new(parts.crew.as_ref().map(|crew| crew.worker_of()).unwrap_or_default())),
            evened_ns: Mutex::new(clock()),
            crew: parts.crew,
            planner: planner.name(),
            clock,
            end: Mutex::default(),
            ended: Condvar::new(),
        });
        driver.pulse.set_watched(true);
        let mut planning = Self { driver, thread: None };
        if threaded {
            let driver = Arc::clone(&planning.driver);
            let begun = Builder::new().name("biombo-plan".to_owned()).spawn(move || driver.run());
            planning.thread = Some(begun.map_err(|e| Error::io("start the thread that plans", e))?);
        }
        Ok(planning)
    }
}

impl Planning {
    /// Where the store's operations leave what they did.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.driver.watch)
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        *lock(&self.driver.end) = true;
        self.driver.ended.notify_all();
        self.driver.mover.closing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, has told itself.
            let _ = thread.join();
        }
        self.driver.save();
    }
}

impl Driver {
    /// The thread's life. After it nobody takes what operations leave, so they leave nothing.
    fn run(&self) {
        self.tick_on();
        self.pulse.set_watched(false);
        self.watch.tracker.end();
    }

    /// Tick until the store is closing, cannot write any more, or a tick panics.
    fn tick_on(&self) {
        while self.rest(DRAIN) {
            let ticked = catch_unwind(AssertUnwindSafe(|| self.tick((self.clock)())));
            if ticked.is_err() {
                self.fail(&Error::invalid(
                    "the thread that plans panicked: nothing moves by itself until the store is opened again",
                ));
            }
            if ticked.is_err() || self.mover.poison.why().is_some() {
                return;
            }
        }
    }

    /// Let time pass; false: the store is closing.
    fn rest(&self, time: Duration) -> bool {
        let rested = self.ended.wait_timeout_while(lock(&self.end), time, |end| !*end);
        !*rested.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Take in what was seen, and do what is to be done at `now_ns`.
    pub(crate) fn tick(&self, now_ns: u64) {
        if let Err(error) = self.try_tick(now_ns) {
            self.fail(&error);
        }
    }

    fn try_tick(&self, now_ns: u64) -> Result<()> {
        let mut brain = lock(&self.brain);
        let topology = self.mover.topology.get().1;
        let placement = &topology.placement;
        let woke_ns = (self.clock)();
        self.take_in(&mut brain, placement, now_ns);
        let may_even = self.may_even(now_ns);
        let sizes = || self.sizes();
        let begun_ns = (self.clock)();
        let workers = self.crew.as_ref().map(|crew| (crew.worker_of(), crew.count()));
        let workers = workers.as_ref().map(|(worker_of, count)| (&worker_of[..], *count));
        let share = self.mover.latest_share();
        let (rate, plan_ns) = (brain.settings().bytes_per_second, brain.settings().plan_ns);
        let thought = brain.ask(&Sight {
            now_ns,
            placement,
            partitions: self.partitions,
            workers,
            may_even,
            sizes: &sizes,
            way_ns: self.way_ns(),
            budget_bytes: (share * rate as f64 * plan_ns as f64 / 1e9) as u64,
            free_bytes: &|| self.free_bytes(),
        });
        let looked_ns = (self.clock)() - begun_ns;
        brain.spent(now_ns, looked_ns);
        self.watch.set_close(brain.learns());
        {
            let mut plans = lock(&self.plans);
            plans.planning_ns += looked_ns;
            plans.watching_ns += begun_ns - woke_ns;
        }
        let mut judged = false;
        if let Some(outcome) = brain.take_outcome() {
            let mut plans = lock(&self.plans);
            if let Some(last) = plans.last.iter_mut().rev().find(|plan| plan.level != Level::Home && !plan.probe) {
                // Promised for the time of its trial, which may have been longer than was asked for.
                let promised_ns = outcome.promised_ns.max(1.0);
                last.obtained_ns_per_s = Some(last.predicted_ns_per_s * outcome.saved_ns / promised_ns);
                last.kept = Some(outcome.kept);
            }
            drop(plans);
            *lock(&self.unsaved) = true;
            judged = true;
        }
        drop(brain);
        if judged {
            self.save();
        }
        match thought? {
            Thought::Nothing => {}
            Thought::Refused(reason) => {
                let mut plans = lock(&self.plans);
                plans.made += 1;
                plans.refuse(reason, unix_ms());
                drop(plans);
                *lock(&self.unsaved) = true;
            }
            Thought::Cut(cuts) => {
                let is_same = |now: &Placement| now.starts() == placement.starts();
                let (recut, work) = self.in_role(|mover| {
                    mover.recut_in_role(|now| if is_same(now) { Ok(cuts) } else { Ok(Cuts::default()) })
                });
                recut?;
                lock(&self.brain).spent(now_ns, work.cost_ns);
            }
            Thought::Draft(draft) => {
                self.carry_out(now_ns, rate, draft, looked_ns, placement);
                self.save();
            }
        }
        Ok(())
    }

    /// Whether keys and units are to move for the sake of even loads. Where workers write, partitions change worker first, which costs nothing:
    /// only what is left then may be worth a move. Where writes go through the one journal of the store before their engine gets them, whoever
    /// waits for a partition waits for the journal, and would wherever his keys lay.
    fn may_even(&self, now_ns: u64) -> bool {
        let Some(crew) = &self.crew else {
            return self.mover.instances.iter().all(|instance| instance.deferred.is_none());
        };
        let before_ns = std::mem::replace(&mut *lock(&self.evened_ns), now_ns);
        let mut evener = lock(&self.balance);
        crew.even(&mut evener, now_ns.saturating_sub(before_ns));
        evener.is_settled()
    }

    /// Hand what was seen since the last time to the loop.
    fn take_in(&self, brain: &mut Brain, placement: &Placement, now_ns: u64) {
        let waited_ns = self.mover.waited_ns();
        let before_ns = std::mem::replace(&mut *lock(&self.waited_ns), waited_ns);
        brain.follow(placement);
        brain.measure(now_ns, &self.watch.take_times(), waited_ns.saturating_sub(before_ns));
        self.watch.tracker.drain(|sample| brain.note(sample, placement));
    }

    /// Do `change` in the role of whoever moves, and say what was done in it. What it costs are neither the wait for the role, in which
    /// somebody else moved, nor its rests.
    fn in_role<R>(&self, change: impl FnOnce(&Mover) -> R) -> (R, Work) {
        let _role = self.mover.take_role();
        let (begun_ns, rested_ns) = ((self.clock)(), self.mover.rested_ns());
        let (units, keys, bytes) = self.mover.totals();
        let result = change(&self.mover);
        let after = self.mover.totals();
        let took_ns = (self.clock)() - begun_ns;
        let cost_ns = took_ns.saturating_sub(self.mover.rested_ns() - rested_ns);
        (result, Work { units: after.0 - units, keys: after.1 - keys, bytes: after.2 - bytes, cost_ns })
    }

    /// Between two moves of a plan that began at `begun_ns` of the clock: take in what was seen meanwhile, which would be lost where it is much, and say
    /// whether the plan takes so long that what is left of it may be out of date.
    fn is_late(&self, now_ns: u64, begun_ns: u64) -> bool {
        let taken_ns = (self.clock)() - begun_ns;
        let mut brain = lock(&self.brain);
        self.take_in(&mut brain, &self.mover.topology.get().1.placement, now_ns + taken_ns);
        taken_ns > LATE_TIMES * brain.settings().plan_ns
    }

    /// What is free where least is.
    fn free_bytes(&self) -> Option<u64> {
        // Where it cannot be asked, nothing is refused for it.
        self.dirs.iter().filter_map(|dir| self.io.free_bytes(dir).ok().flatten()).min()
    }

    /// Move what a draft of `placement` says, which took `planning_ns` to make, and tell what it cost.
    fn carry_out(&self, now_ns: u64, rate: u64, draft: Draft, planning_ns: u64, placement: &Placement) {
        let begun_ns = (self.clock)();
        let (mut work, mut error) = (Work::default(), None);
        let pace = Pace { bytes_per_second: Some(rate), chunk_bytes: CHUNK_BYTES, chunk_keys: CHUNK_KEYS };
        for (number, (to, load)) in draft.moves.iter().enumerate() {
            if number > 0 && self.is_late(now_ns, begun_ns) {
                error = Some(Error::new(ErrorKind::Busy, LATE));
                break;
            }
            let (result, done) = self.in_role(|mover| {
                let _governed = mover.govern(pace);
                match load {
                    Load::Keys(keys) => mover.move_keys_in_role(keys, *to, pace),
                    Load::Units(units) => mover.move_units_of_in_role(placement, units, *to, pace),
                }
            });
            work.add(&done);
            if let Err(failed) = result {
                error = Some(failed);
                break;
            }
        }
        if let Some(tidier) = &self.tidier {
            tidier.wake();
        }
        let took_ns = (self.clock)() - begun_ns;
        let mut brain = lock(&self.brain);
        // What was done while it moved says nothing of what it gave.
        self.take_in(&mut brain, &self.mover.topology.get().1.placement, now_ns + took_ns);
        brain.carried(now_ns + took_ns, &draft, error.is_none(), work.cost_ns as f64);
        self.watch.set_close(brain.learns());
        drop(brain);
        let mut plans = lock(&self.plans);
        plans.made += 1;
        let report = PlanReport {
            number: plans.next_number(),
            at_unix_ms: unix_ms(),
            at_ns: begun_ns,
            planner: self.planner.to_owned(),
            level: draft.level,
            why: draft.why,
            units: work.units,
            keys: work.keys,
            bytes: work.bytes,
            ways: draft.ways,
            cut_before: draft.cut.0,
            cut_after: draft.cut.1,
            balance_before: draft.balance.0,
            balance_after: draft.balance.1,
            predicted_ns_per_s: draft.predicted_ns_per_s,
            obtained_ns_per_s: None,
            planning_ns,
            took_ns,
            predicted_cost_ns: draft.predicted_cost_ns as u64,
            cost_ns: work.cost_ns,
            kept: None,
            probe: draft.is_probe,
            error: error.map(|error| error.to_string()),
        };
        plans.push(report);
        drop(plans);
        *lock(&self.unsaved) = true;
    }

    /// What a pair of partitions costs that something moves between, where it costs most.
    fn way_ns(&self) -> f64 {
        let instances = self.mover.instances.iter();
        instances.map(|it| way_ns(it.engine.capabilities(), it.has_unsynced())).fold(0.0, f64::max)
    }

    /// How large records and the store are, about. What waits for an engine is left where it is: to bring it in each time that somebody looks is what
    /// waiting is to save.
    fn sizes(&self) -> Sizes {
        let (mut keys, mut bytes) = (0, 0);
        for instance in self.mover.instances.iter() {
            // One that does not say counts as empty: nothing that moves out of it is dear.
            let Ok(stats) = instance.raw().stats() else { continue };
            keys += stats.keys.unwrap_or(0);
            bytes += stats.logical_bytes.or(stats.physical_bytes).unwrap_or(0);
        }
        /// Of a record in a store that does not say how many it has.
        const RECORD_BYTES: f64 = 1024.0;
        let record_bytes = if keys > 0 && bytes > 0 { bytes as f64 / keys as f64 } else { RECORD_BYTES };
        Sizes { record_bytes, store_bytes: bytes as f64 }
    }

    fn fail(&self, error: &Error) {
        lock(&self.plans).last_error = Some(error.to_string());
        *lock(&self.unsaved) = true;
    }

    /// Write what is not written yet; a read-only store is left alone.
    fn save(&self) {
        let mut unsaved = lock(&self.unsaved);
        if !*unsaved || self.mover.poison.why().is_some() {
            return;
        }
        let plans = lock(&self.plans).clone();
        match plans.save(&*self.io, &self.dir) {
            Ok(()) => *unsaved = false,
            // The next plan tries again.
            Err(error) => lock(&self.plans).last_error = Some(error.to_string()),
        }
    }

    /// Plans that were carried out, that were not begun, and what planning and watching cost, in nanoseconds, since the store was opened.
    pub(crate) fn since_opened(&self) -> (u64, u64, u64) {
        let plans = lock(&self.plans);
        (plans.carried_out - self.before.0, plans.refused_count() - self.before.1, plans.spent_ns() - self.before.2)
    }

    /// What became of plans.
    pub(crate) fn plans(&self) -> Plans {
        lock(&self.plans).clone()
    }
}

impl Store {
    /// Who plans the moves of a store that repartitions itself, by name; empty where nobody does.
    pub fn planner(&self) -> &'static str {
        self.inner.planning.as_ref().map_or("", |planning| planning.driver.planner)
    }

    /// What plans the store has made and what became of them: with [`Options::repartition`](crate::Options::repartition), those of now; without,
    /// what was written when it last repartitioned itself.
    ///
    /// # Errors
    /// As [`Plans::of`], without the option.
    pub fn plans(&self) -> Result<Plans> {
        match &self.inner.planning {
            Some(planning) => Ok(planning.driver.plans()),
            None => Plans::load(&*self.inner.io, &self.inner.dir),
        }
    }
}

/// Who can plan moves in this build, by name.
pub fn planner_names() -> impl Iterator<Item = &'static str> {
    biombo_planner::planners().iter().map(|planner| planner.name())
}

/// Refuse options that no store could be opened with, before anything is created.
pub(crate) fn check(options: &Options) -> Result<()> {
    if let Some(name) = &options.planner {
        biombo_planner::planner(name).map_err(|e| Error::invalid(e.to_string()))?;
    }
    match options.repartition {
        Repartition::Every(interval) => Repartition::every(interval).map(drop),
        Repartition::Off => Ok(()),
    }
}

/// Refuse options that a new store could not repartition itself with.
pub(crate) fn check_shape(
    options: &Options,
    partitioning: Partitioning,
    partitions: u32,
    engine: &str,
    is_ordered: bool,
) -> Result<()> {
    match options.repartition {
        Repartition::Off => Ok(()),
        Repartition::Every(_) if partitioning != Partitioning::Hard => {
            Err(refused(&format!("this store has partitioning {partitioning}")))
        }
        Repartition::Every(_) if !is_ordered => Err(refused(&format!("{engine} keeps no order"))),
        Repartition::Every(_) if partitions < 2 => Err(refused("this store has one partition")),
        Repartition::Every(_) => Ok(()),
    }
}

/// An error for a store that cannot repartition itself.
pub(crate) fn refused(why: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("repartitioning moves units between `hard` partitions of an engine with order: {why}"),
    )
}
