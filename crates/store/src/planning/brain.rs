//! The loop of planning: what is seen goes in, what to move comes out. Pure: no thread, no clock, no store.
//!
//! Each time that it is asked it tells the governor what the latest plan saved since the last time: a trial is shorter than most intervals.
//! Whenever its interval has passed it (1) makes a graph of the keys that are accessed together, or, where writers wait for each other, also of
//! the hottest keys and of whole units; (2) asks the planner, if even the best plan could save more than noise; (3) matches labels, keeps what
//! pays within the budget, and lets the governor decide.
//!
//! What a plan saved is measured, not believed: each access since is looked at, how much more it would be cut if what moved were where it was
//! before, by what groups that lie apart are seen to take longer; and what writers waited for lanes before, for each key, less what they wait since.
//!
//! While what groups take longer that lie apart is a guess, a plan that would be carried out for it is not, but a quarter of what goes to one partition,
//! which costs little ([`part_of`]). With that, groups are timed that lie together, and the next plan knows.
//!
//! Invariants: a draft is given out only after the governor's `Go`, and nothing else is until [`Brain::carried`] was told what came of it;
//! what moves is where the graph's placement says, and goes somewhere else; no draft pins more than the bound.

use std::collections::{BTreeMap, HashSet};

use biombo_engine::{Capabilities, Durability, Error, Result};
use biombo_planner::{
    AccessGraph, CostModel, Governor, Objective, Outcome, PlanError, Planner, Prices, Proposal, Request, Start,
    Verdict, relabel,
};
use biombo_tracker::{Kind, Sample, Shape, Window};

use super::coarse;
use super::costs::{Costs, uneven_ns};
use super::draft::{Draft, Load, Unit, part_of};
use super::former::{Former, SPAN_NS, way_of};
use super::graph::{Frame, KEY_SEEN_MIN, SCALE, Seen};
use super::plans::Level;
use super::settings::Settings;
use super::watch::Times;
use crate::placement::Cuts;
use crate::{PartitionId, Placement, PlacementKind};

/// What moving a byte costs the foreground, and a key beside its bytes: read, written twice, deleted.
const BYTE_NS: f64 = 2.0;
const KEY_NS: f64 = 5_000.0;
/// What each pair of partitions costs that something moves between: the syncs of a move. And where each piece of a move is a synced transaction, and
/// with it goes to the device whatever users have put into the tree since (LMDB: 60 to 86 ms of the mover, and 4 to 7 % of what users did meanwhile).
const WAY_NS: f64 = 1_500_000.0;
const WAY_AMONG_WRITES_NS: f64 = 70e6;
/// What a byte costs that a pass goes over, looking for units and cleaning up after them.
const PASS_BYTE_NS: f64 = 1.0;
/// Intervals that are left out at most after plans that came to nothing.
const PATIENCE_MAX: u32 = 4;
/// And so many times as long as one took that came to nothing there is no other, but for so long at most, in nanoseconds: looks in vain take about a
/// hundredth of a processor.
const VAIN_TIMES: u64 = 100;
const VAIN_REST_NS_MAX: u64 = 2_000_000_000;
/// Budgets that are tried, each a quarter of the one before, while the account does not cover a plan.
const BUDGETS: u32 = 4;
/// How much more than the average a partition may bear, as a share, where a planner has the choice.
const SLACK: f64 = 0.1;
/// Nothing moves unasked where less is free than a plan's bytes so many times, and this beside: a copy takes room before the original gives it
/// back, engines give it back late, and a full disk keeps users from writing, and leftovers from being cleaned.
const ROOM_TIMES: u64 = 4;
const ROOM_BESIDE_BYTES: u64 = 128 << 20;
const NO_ROOM: &str = "too little room is left on a disk";
/// Keys that go home in one plan.
const HOME_MAX: usize = 8192;
/// After a move to learn from: so long operations are timed at least, and at most, before anything is made of it.
const PROBE_NS: u64 = 300_000_000;
const LEARN_NS: u64 = 4_000_000_000;
const PROBE: &str = "to learn what it is worth, a part of what would go to one partition: ";

/// What the store says when it is asked.
pub(crate) struct Sight<'a> {
    pub(crate) now_ns: u64,
    pub(crate) placement: &'a Placement,
    pub(crate) partitions: u32,
    /// The worker of each partition, and how many there are, where writes are handed over to some; `None`: callers write by themselves.
    pub(crate) workers: Option<(&'a [u32], u32)>,
    /// Whether uneven loads are to be evened: not where that was just seen to serve nobody.
    pub(crate) may_even: bool,
    /// Bytes of keys and values of a record, and of a partition, about.
    pub(crate) sizes: &'a dyn Fn() -> Sizes,
    /// What each pair of partitions costs that something moves between; see [`way_ns`].
    pub(crate) way_ns: f64,
    /// Bytes that can be moved in the time of a plan.
    pub(crate) budget_bytes: u64,
    /// Bytes that are free where least is; `None`: nobody knows.
    pub(crate) free_bytes: &'a dyn Fn() -> Option<u64>,
}

/// What each pair of partitions costs that something moves between, where one of them has such an engine, with writes that no sync covers.
pub(crate) fn way_ns(engine_can: &Capabilities, has_unsynced: bool) -> f64 {
    let keeps_prefix = engine_can.survives_power_cut.is_none_or(|level| level <= Durability::Os);
    if has_unsynced && engine_can.costly_transactions && !keeps_prefix { WAY_AMONG_WRITES_NS } else { WAY_NS }
}

/// How much there is to move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) record_bytes: f64,
    pub(crate) store_bytes: f64,
}

/// What comes of asking.
#[derive(Debug, PartialEq)]
pub(crate) enum Thought {
    /// The interval has not passed, or there was nothing to make a plan of.
    Nothing,
    /// A plan was made, or would have been, and is not carried out.
    Refused(&'static str),
    /// Ranges are to be split or merged first: nothing moves by that.
    Cut(Cuts),
    Draft(Draft),
}

/// The loop's memory.
pub(crate) struct Brain {
    settings: Settings,
    planner: &'static dyn Planner,
    window: Window,
    costs: Costs,
    governor: Governor,
    born_ns: u64,
    measured_ns: u64,
    asked_ns: u64,
    /// Nothing could be begun before: a plan is on trial, or plans have disappointed.
    quiet_until_ns: u64,
    /// Something was moved to learn from: as soon as that has shown what it is worth, at this time at the latest, it is asked again.
    learns_until_ns: Option<u64>,
    /// Intervals that are left out after the next plan that comes to nothing, and those that are left now.
    patience: u32,
    left_out: u32,
    /// The latest look came to nothing.
    in_vain: bool,
    former: Option<Former>,
    /// Of a draft that was given out, and how long it took to make.
    drafted: Option<Former>,
    spent_ns: u64,
    outcome: Option<Outcome>,
    /// By which units are numbered.
    followed: Option<Placement>,
}

pub(super) fn wrong(error: PlanError) -> Error {
    Error::invalid(format!("cannot plan: {error}"))
}

impl Brain {
    /// A loop that begins at `now_ns`.
    pub(crate) fn new(settings: Settings, planner: &'static dyn Planner, now_ns: u64) -> Result<Self> {
        let mut window = Window::new(settings.limits);
        window.advance(now_ns);
        Ok(Self {
            planner,
            window,
            costs: Costs::default(),
            governor: Governor::new(settings.rules, now_ns).map_err(wrong)?,
            born_ns: now_ns,
            measured_ns: now_ns,
            asked_ns: now_ns,
            quiet_until_ns: now_ns,
            learns_until_ns: None,
            patience: 0,
            left_out: 0,
            in_vain: false,
            former: None,
            drafted: None,
            spent_ns: 0,
            outcome: None,
            followed: None,
            settings,
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What comes from now on is about `placement`. Where its ranges are others than before, what is known of them is carried over.
    pub(crate) fn follow(&mut self, placement: &Placement) {
        if self.followed.as_ref().is_some_and(|followed| followed.epoch() == placement.epoch()) {
            return;
        }
        let before = self.followed.replace(placement.clone());
        let Some(before) = before.filter(|before| before.starts() != placement.starts()) else { return };
        let pieces = coarse::pieces(&self.window, &before, placement);
        self.window.renumber_units(|unit| pieces.get(unit as usize).cloned().unwrap_or_default());
        for former in [&mut self.former, &mut self.drafted].into_iter().flatten() {
            former.renumber(&before, placement);
        }
    }

    /// Time passes, groups were timed, and writers waited for lanes, since the last call.
    pub(crate) fn measure(&mut self, now_ns: u64, times: &Times, waited_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.measured_ns) as f64;
        let factor = (-elapsed_ns / self.settings.limits.half_life_ns as f64).exp2();
        self.window.advance(now_ns);
        self.costs.add(factor, times, waited_ns as f64);
        if let Some(former) = &mut self.former {
            former.waited_ns += waited_ns as f64;
        }
        self.measured_ns = self.measured_ns.max(now_ns);
    }

    /// Take a sample in.
    pub(crate) fn note(&mut self, sample: &Sample<'_>, placement: &Placement) {
        let mut sample = *sample;
        if sample.shape != Shape::Single {
            self.costs.note_group(way_of(&sample), sample.keys().len(), f64::from(sample.weight));
            // Where a ring was full, its samples stand for more: were they taken at their word, what chance brought together once would seem to
            // have come often. On average the same is noted.
            sample.weight = self.costs.sample_weight().round().max(1.0) as u32;
        }
        let sample = &sample;
        if let Some(former) = &mut self.former {
            former.note(sample, placement);
        }
        if sample.kind == Kind::Write {
            self.costs.note_writes(f64::from(sample.weight) * sample.keys().len() as f64);
        }
        self.window.note(sample, |key| placement.unit_of(key).0);
    }

    /// Whether something was moved to learn from, and has not shown yet what it is worth.
    pub(crate) fn learns(&self) -> bool {
        self.learns_until_ns.is_some()
    }

    /// What the plan that was on trial gave, once.
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    /// How long the window is, in which an access counts whole.
    fn window_ns(&self) -> f64 {
        let half_life_ns = self.settings.limits.half_life_ns as f64;
        let age = self.measured_ns.saturating_sub(self.born_ns) as f64 / half_life_ns;
        (half_life_ns / std::f64::consts::LN_2 * (1.0 - (-age).exp2())).max(1.0)
    }

    /// Looking took so long: that is paid from the same account as moving. (While a draft is out, what the governor hears is about the draft.)
    pub(crate) fn spent(&mut self, now_ns: u64, took_ns: u64) {
        if self.drafted.is_some() {
            self.spent_ns += took_ns;
        } else {
            self.governor.moved(now_ns, took_ns as f64);
        }
        if std::mem::take(&mut self.in_vain) {
            let rest_ns = took_ns.saturating_mul(VAIN_TIMES).min(VAIN_REST_NS_MAX);
            self.quiet_until_ns = self.quiet_until_ns.max(now_ns.saturating_add(rest_ns));
        }
    }

    /// Tell the governor what the latest plan has saved, all of it, and then forget a plan whose horizon is over.
    fn observe(&mut self, now_ns: u64) {
        let saved_ns = self.former.as_mut().map_or(0.0, |former| former.take_saved_ns(&self.costs));
        self.outcome = self.governor.observe(now_ns, saved_ns).or(self.outcome);
        if self.former.as_ref().is_some_and(|former| now_ns > former.until_ns) {
            self.former = None;
        }
    }

    /// What is to be done now, if anything.
    pub(crate) fn ask(&mut self, sight: &Sight<'_>) -> Result<Thought> {
        if self.drafted.is_some() {
            return Ok(Thought::Nothing);
        }
        self.observe(sight.now_ns);
        if let Some(until_ns) = self.learns_until_ns {
            let has_learnt = !self.costs.is_guess() && self.costs.cut_ns() > 0.0;
            if sight.now_ns < self.quiet_until_ns || !has_learnt && sight.now_ns < until_ns {
                return Ok(Thought::Nothing);
            }
            self.learns_until_ns = None;
            if self.costs.is_guess() {
                self.governor.learnt_nothing(sight.now_ns);
                return Ok(Thought::Nothing);
            }
        } else if sight.now_ns.saturating_sub(self.asked_ns) < self.settings.interval_ns {
            return Ok(Thought::Nothing);
        }
        self.asked_ns = sight.now_ns;
        // Looking costs, too: not while nothing could be begun, and less often where nothing was found.
        if sight.now_ns < self.quiet_until_ns || self.governor.credit_ns() <= 0.0 {
            return Ok(Thought::Nothing);
        }
        if self.left_out > 0 {
            self.left_out -= 1;
            return Ok(Thought::Nothing);
        }
        let thought = self.look(sight)?;
        match thought {
            Thought::Nothing | Thought::Cut(_) => {}
            Thought::Refused(_) => {
                self.patience = (self.patience * 2).clamp(1, PATIENCE_MAX);
                self.left_out = self.patience - 1;
                self.in_vain = true;
            }
            Thought::Draft(_) => (self.patience, self.left_out) = (0, 0),
        }
        Ok(thought)
    }

    fn frame<'a>(&'a self, sight: &'a Sight<'_>) -> Frame<'a> {
        Frame {
            window: &self.window,
            placement: sight.placement,
            partitions: sight.partitions,
            sample_weight: self.costs.sample_weight(),
        }
    }

    /// Make graphs of what was seen, and a plan of them.
    fn look(&mut self, sight: &Sight<'_>) -> Result<Thought> {
        let mut objective = Objective::new(sight.partitions).map_err(wrong)?;
        if let Some((worker_of, count)) = sight.workers {
            objective = objective.workers(worker_of, count).map_err(wrong)?;
        }
        let frame = self.frame(sight);
        let loads = loads_of_writers(frame.loads_of_partitions(), sight.workers);
        let uneven_ns = if sight.may_even { uneven_ns(self.costs.waited_ns(), &loads) } else { 0.0 };
        // What is less than this share of the window is noise, whatever is done about it.
        let is_uneven = uneven_ns > self.settings.rules.saving_share_min * self.window_ns();
        let sizes = std::cell::OnceCell::new();
        let sizes = || *sizes.get_or_init(|| (sight.sizes)());
        let room = self.settings.pins_max.saturating_sub(sight.placement.pins());
        let keys = frame.keys(is_uneven, room, || sizes().record_bytes.max(1.0) as u64).map_err(wrong)?;
        if keys.as_ref().is_some_and(|seen| seen.left_out > 0)
            && let Some(draft) = self.go_home(sight, sizes())
        {
            return Ok(Thought::Draft(draft));
        }
        let mut thought = Thought::Nothing;
        if let Some(seen) = keys {
            let prices = self.prices(Level::Keys, &seen.graph, uneven_ns, sizes(), &objective, sight)?;
            match self.weigh(&seen.graph, prices, &objective, sight)? {
                Ok(proposal) => {
                    let probe = self.probe(&proposal, prices, &seen.graph, &objective);
                    if probe.is_err() {
                        self.governor.given_up(sight.now_ns, 0.0);
                    }
                    let probe = probe?;
                    let mut draft = self.draft(Level::Keys, probe.as_ref().unwrap_or(&proposal), &seen);
                    if probe.is_some() {
                        (draft.is_probe, draft.why) = (true, format!("{PROBE}{}", draft.why));
                    }
                    return Ok(Thought::Draft(draft));
                }
                Err(reason) => thought = Thought::Refused(reason),
            }
        }
        let has_ranges = sight.placement.kind() == PlacementKind::Range;
        if !is_uneven && !has_ranges {
            return Ok(thought);
        }
        if is_uneven
            && has_ranges
            && let Some(cuts) = coarse::cuts(&self.window, sight.placement, sight.partitions)?
        {
            return Ok(Thought::Cut(cuts));
        }
        let unit_bytes = sizes().store_bytes / sight.placement.units().max(1) as f64;
        if let Some(seen) = self.frame(sight).units(unit_bytes as u64).map_err(wrong)? {
            let prices = self.prices(Level::Units, &seen.graph, uneven_ns, sizes(), &objective, sight)?;
            match self.weigh(&seen.graph, prices, &objective, sight)? {
                Ok(proposal) => return Ok(Thought::Draft(self.draft(Level::Units, &proposal, &seen))),
                Err(reason) => thought = Thought::Refused(reason),
            }
        }
        Ok(thought)
    }

    fn prices(
        &self,
        level: Level,
        graph: &AccessGraph,
        uneven_ns: f64,
        sizes: Sizes,
        objective: &Objective,
        sight: &Sight<'_>,
    ) -> Result<Prices> {
        let now = objective.assess(graph, graph.owners()).map_err(wrong)?;
        let crossing_ns = if level == Level::Units { SPAN_NS } else { self.costs.cut_ns() };
        let price = |overload: f64| if overload >= 1.0 { uneven_ns / overload } else { 0.0 };
        let per_key_ns = KEY_NS / sizes.record_bytes.max(1.0);
        let partition_bytes = sizes.store_bytes / f64::from(sight.partitions.max(1));
        // Ranges are found where they lie.
        let is_pass = level == Level::Units && sight.placement.kind() == PlacementKind::Hash;
        let pass_ns = if is_pass { partition_bytes * PASS_BYTE_NS } else { 0.0 };
        Ok(Prices {
            crossing_ns: crossing_ns / SCALE,
            // Writers wait for whoever writes: each other in a partition, or a worker, which changes partitions for nothing.
            part_overload_ns: price(if sight.workers.is_none() { now.part_overload } else { 0.0 }),
            worker_overload_ns: price(if sight.workers.is_some() { now.worker_overload } else { 0.0 }),
            byte_ns: BYTE_NS + per_key_ns,
            pass_ns: sight.way_ns + pass_ns,
        })
    }

    fn model(&self, prices: Prices, budget_bytes: u64) -> Result<CostModel> {
        CostModel::new(prices, self.window_ns(), self.settings.horizon_ns, budget_bytes).map_err(wrong)
    }

    /// The plan that pays, or why none does.
    fn weigh(
        &mut self,
        graph: &AccessGraph,
        prices: Prices,
        objective: &Objective,
        sight: &Sight<'_>,
    ) -> Result<std::result::Result<Proposal, &'static str>> {
        let horizon_ns = self.settings.horizon_ns;
        let refused = |verdict| Ok(Err(super::plans::reason(verdict).unwrap_or("it was not decided")));
        // All that any plan could save.
        let now = objective.assess(graph, graph.owners()).map_err(wrong)?;
        let most_ns = self.governor.trust() * self.model(prices, 0)?.running_ns(&now);
        // And the least that it costs: whatever moves moves between two partitions.
        let least_ns = self.governor.price() * prices.pass_ns;
        if most_ns <= (self.settings.rules.saving_share_min * horizon_ns).max(least_ns) {
            return refused(Verdict::TooLittle);
        }
        if !has_room(sight, self.settings.budget_bytes) {
            return Ok(Err(NO_ROOM));
        }
        let request = Request::new(sight.partitions).and_then(|request| request.slack(SLACK)).map_err(wrong)?;
        // Afresh, it finds what is best; from what is there, what takes few moves.
        let plans = [Start::Fresh, Start::Present].map(|start| {
            let plan = self.planner.plan(graph, &request.start(start))?;
            relabel(graph, &plan, sight.partitions)
        });
        let plans = plans.into_iter().collect::<std::result::Result<Vec<_>, PlanError>>().map_err(wrong)?;
        let (trust, price) = (self.governor.trust(), self.governor.price());
        let net_ns = |proposal: &Proposal| trust * proposal.saving_ns - price * proposal.cost_ns;
        let mut budget = self.settings.budget_bytes.min(sight.budget_bytes);
        let mut verdict = Verdict::NothingToMove;
        for _ in 0..BUDGETS {
            let model = self.model(prices, budget)?;
            let proposals = plans.iter().map(|plan| model.propose(graph, plan, objective));
            let proposals = proposals.collect::<std::result::Result<Vec<_>, PlanError>>().map_err(wrong)?;
            let best = proposals.into_iter().max_by(|a, b| net_ns(a).total_cmp(&net_ns(b)));
            let Some(proposal) = best else { break };
            verdict = self.governor.decide(sight.now_ns, &proposal);
            match verdict {
                Verdict::Go => return Ok(Ok(proposal)),
                // A smaller one may be covered.
                Verdict::Resting { until_ns } => {
                    self.quiet_until_ns = until_ns;
                    break;
                }
                Verdict::NoCredit => budget = (budget / 4).min(proposal.after.moved_bytes / 4),
                _ => break,
            }
        }
        refused(verdict)
    }

    /// The part to learn from, of a proposal whose saving is, for the greater part, cuts whose price nobody has measured.
    fn probe(
        &self,
        proposal: &Proposal,
        prices: Prices,
        graph: &AccessGraph,
        objective: &Objective,
    ) -> Result<Option<Proposal>> {
        let cuts = proposal.before.cut.saturating_sub(proposal.after.cut) as f64;
        let saving_ns = prices.crossing_ns * cuts * proposal.horizon_ns / self.window_ns();
        if !self.costs.is_guess() || saving_ns <= proposal.saving_ns / 2.0 {
            return Ok(None);
        }
        part_of(proposal, graph, objective, &self.model(prices, 0)?)
    }

    /// The proposal as moves; what it moves is remembered.
    fn draft<U: Unit>(&mut self, level: Level, proposal: &Proposal, seen: &Seen<U>) -> Draft {
        let mut former = Former::new(self.costs.waited_per_write_ns());
        let mut draft = Draft::of(level, proposal, seen, &mut former);
        draft.predicted_ns_per_s *= self.governor.trust();
        draft.predicted_cost_ns *= self.governor.price();
        self.drafted = Some(former);
        draft
    }

    /// Where there is no room for another pin: those whose keys nobody accesses give their place to others. Not before it is known who
    /// accesses what.
    fn go_home(&mut self, sight: &Sight<'_>, sizes: Sizes) -> Option<Draft> {
        let age_ns = self.measured_ns.saturating_sub(self.born_ns);
        if age_ns < 2 * self.settings.limits.half_life_ns || !has_room(sight, self.settings.budget_bytes) {
            return None;
        }
        let least = KEY_SEEN_MIN * self.costs.sample_weight();
        let used = self.window.keys().filter(|view| view.load.total() >= least).map(|view| view.key);
        let used: HashSet<&[u8]> = used.collect();
        let mut homes: BTreeMap<PartitionId, Vec<Vec<u8>>> = BTreeMap::new();
        let (mut count, mut ways) = (0, HashSet::new());
        // Where a slot came to its key, the pin is of no use, and nothing would move for it.
        let away = sight.placement.pinned().filter(|(key, _)| !used.contains(key)).filter_map(|(key, pinned)| {
            let home = sight.placement.owner_of(sight.placement.unit_of(key))?;
            (home != pinned).then_some((key, pinned, home))
        });
        for (key, pinned, home) in away.take(HOME_MAX) {
            homes.entry(home).or_default().push(key.to_vec());
            ways.insert((pinned, home));
            count += 1;
        }
        if count == 0 {
            return None;
        }
        self.drafted = Some(Former::default());
        let (pins, most) = (sight.placement.pins(), self.settings.pins_max);
        Some(Draft {
            level: Level::Home,
            why: format!("{pins} keys are pinned, of {most} at most, and nobody accesses these"),
            moves: homes.into_iter().map(|(home, keys)| (home, Load::Keys(keys))).collect(),
            ways: ways.len() as u64,
            cut: (0.0, 0.0),
            balance: (1.0, 1.0),
            predicted_ns_per_s: 0.0,
            predicted_cost_ns: f64::from(count) * (BYTE_NS * sizes.record_bytes + KEY_NS)
                + ways.len() as f64 * sight.way_ns,
            is_probe: false,
        })
    }

    /// The draft was carried out, or given up, and cost so much.
    pub(crate) fn carried(&mut self, now_ns: u64, draft: &Draft, whole: bool, cost_ns: f64) {
        let Some(mut drafted) = self.drafted.take() else { return };
        drafted.until_ns = now_ns.saturating_add(self.settings.horizon_ns as u64);
        match (draft.level, whole) {
            (Level::Home, _) => self.governor.moved(now_ns, cost_ns),
            (_, true) if draft.is_probe => {
                self.governor.probed(now_ns, cost_ns);
                self.former = None;
                self.quiet_until_ns = now_ns.saturating_add(PROBE_NS);
                self.learns_until_ns = Some(now_ns.saturating_add(LEARN_NS));
            }
            (_, true) => {
                self.governor.moved(now_ns, cost_ns);
                self.costs.forget_waits();
                self.former = Some(drafted);
                self.quiet_until_ns = now_ns.saturating_add(self.settings.rules.trial_ns);
            }
            (_, false) => {
                self.governor.given_up(now_ns, cost_ns);
                self.former = None;
            }
        }
        let spent_ns = std::mem::take(&mut self.spent_ns);
        self.spent(now_ns, spent_ns);
    }
}

/// Whether a plan of so many bytes at most, or of all that there is, leaves room enough.
fn has_room(sight: &Sight<'_>, budget_bytes: u64) -> bool {
    let Some(free_bytes) = (sight.free_bytes)() else { return true };
    let is_enough = |bytes: u64| free_bytes >= bytes.saturating_mul(ROOM_TIMES).saturating_add(ROOM_BESIDE_BYTES);
    is_enough(budget_bytes) || is_enough((sight.sizes)().store_bytes as u64)
}

/// The loads of those who write: of partitions, or of the workers that these belong to.
fn loads_of_writers(of_partitions: Vec<u64>, workers: Option<(&[u32], u32)>) -> Vec<u64> {
    let Some((worker_of, count)) = workers else { return of_partitions };
    let mut loads = vec![0; count as usize];
    for (load, worker) in of_partitions.iter().zip(worker_of) {
        loads[*worker as usize] += load;
    }
    loads
}
