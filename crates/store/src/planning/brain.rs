//! The loop of planning: what is seen goes in, what to move comes out. Pure: no thread, no clock, no store.
//!
//! Whenever its interval has passed it (1) tells the governor what the latest plan saved since it was asked last; (2) makes a graph of the keys that
//! are accessed together, or, where writers wait for each other, also of the hottest keys and of whole units; (3) asks the planner, if even the
//! best plan could save more than noise; (4) matches labels, keeps what pays within the budget, and lets the governor decide.
//!
//! What a plan saved is measured, not believed: each access since is looked at, how much more it would be cut if what moved were where it was
//! before, by what groups that lie apart are seen to take longer; and what writers waited for lanes before, for each key, less what they wait since.
//!
//! Invariants: a draft is given out only after the governor's `Go`, and nothing else is until [`Brain::carried`] was told what came of it;
//! what moves is where the graph's placement says, and goes somewhere else; no draft pins more than the bound.

use std::collections::{HashMap, HashSet};

use biombo_engine::{Error, Result};
use biombo_planner::{
    AccessGraph, Assessment, CostModel, Governor, Objective, Outcome, Part, PlanError, Planner, Prices, Proposal,
    Request, Start, Verdict, Vertex, relabel,
};
use biombo_tracker::{Kind, Sample, Shape, Window};

use super::costs::{Costs, uneven_ns};
use super::graph::{Frame, KEY_SEEN_MIN, SCALE};
use super::plans::Level;
use super::settings::Settings;
use super::watch::{Times, Way, cut_of_path};
use crate::{PartitionId, Placement, PlacementKind, UnitId};

/// What moving a byte costs the foreground, and a key beside its bytes: read, written twice, deleted.
const BYTE_NS: f64 = 2.0;
const KEY_NS: f64 = 5_000.0;
/// What each pair of partitions costs that something moves between: the syncs of a move.
const WAY_NS: f64 = 1_500_000.0;
/// What a byte costs that a pass goes over, looking for units and cleaning up after them.
const PASS_BYTE_NS: f64 = 1.0;
/// What an operation costs more that goes over two units in different partitions.
const SPAN_NS: f64 = 500.0;
/// Intervals that are left out at most after plans that came to nothing.
const PATIENCE_MAX: u32 = 4;
/// Budgets that are tried, each a quarter of the one before, while the account does not cover a plan.
const BUDGETS: u32 = 4;
/// How much more than the average a partition may bear, as a share, where a planner has the choice.
const SLACK: f64 = 0.1;
/// Keys that go home in one plan.
const HOME_MAX: usize = 8192;

/// What the store says when it is asked.
pub(crate) struct Sight<'a> {
    pub(crate) now_ns: u64,
    pub(crate) placement: &'a Placement,
    pub(crate) partitions: u32,
    /// Bytes of keys and values of a record, and of a partition, about.
    pub(crate) sizes: &'a dyn Fn() -> Sizes,
}

/// How much there is to move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) record_bytes: f64,
    pub(crate) store_bytes: f64,
}

/// What goes to one partition, wherever it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Load {
    Keys(Vec<Vec<u8>>),
    Units(Vec<UnitId>),
}

/// A plan to be carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(crate) level: Level,
    pub(crate) why: String,
    pub(crate) moves: Vec<(PartitionId, Load)>,
    pub(crate) ways: u64,
    pub(crate) cut: (f64, f64),
    pub(crate) balance: (f64, f64),
    pub(crate) predicted_ns_per_s: f64,
    pub(crate) predicted_cost_ns: f64,
}

/// What comes of asking.
#[derive(Debug, PartialEq)]
pub(crate) enum Thought {
    /// The interval has not passed, or there was nothing to make a plan of.
    Nothing,
    /// A plan was made, or would have been, and is not carried out.
    Refused(&'static str),
    Draft(Draft),
}

/// What the latest plan moved, and from where; and what it has saved since it was asked last.
#[derive(Default)]
struct Former {
    keys: HashMap<Vec<u8>, Part>,
    units: HashMap<UnitId, Part>,
    /// What writers waited, for each key, before it.
    waited_per_write_ns: f64,
    /// Edges of paths through groups, by way, and spans over two units, that are cut no more.
    edges: [f64; 2],
    spans: f64,
    writes: f64,
    waited_ns: f64,
    /// Until then the governor wants to know.
    until_ns: u64,
}

impl Former {
    /// Where a key was.
    fn owner(&self, key: &[u8], placement: &Placement) -> usize {
        let unit = || if self.units.is_empty() { None } else { self.units.get(&placement.unit_of(key)) };
        let part = self.keys.get(key).or_else(unit);
        part.map_or_else(|| placement.owner(key).index(), |part| part.index())
    }

    /// An access after the plan.
    fn note(&mut self, sample: &Sample<'_>, placement: &Placement) {
        let weight = f64::from(sample.weight);
        if sample.kind == Kind::Write {
            self.writes += weight * sample.keys().len() as f64;
        }
        if sample.shape == Shape::Single {
            return;
        }
        let cut = |mut places: Vec<usize>| {
            places.sort_unstable();
            cut_of_path(&places)
        };
        let before = cut(sample.keys().map(|key| self.owner(key, placement)).collect());
        let now = cut(sample.keys().map(|key| placement.owner(key).index()).collect());
        match sample.shape {
            Shape::Group => self.edges[way_of(sample).index()] += weight * (before - now),
            _ => self.spans += weight * (before - now),
        }
    }

    /// What it saved.
    fn take_saved_ns(&mut self, costs: &Costs) -> f64 {
        let edges: f64 = Way::ALL.into_iter().map(|way| costs.cut_ns_of(way) * self.edges[way.index()]).sum();
        let waits = self.waited_per_write_ns * self.writes - self.waited_ns;
        let saved_ns = edges + SPAN_NS * self.spans + waits;
        (self.edges, self.spans, self.writes, self.waited_ns) = ([0.0; 2], 0.0, 0.0, 0.0);
        saved_ns
    }
}

fn way_of(sample: &Sample<'_>) -> Way {
    if sample.kind == Kind::Read { Way::Read } else { Way::Write }
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
    /// Intervals that are left out after the next plan that comes to nothing, and those that are left now.
    patience: u32,
    left_out: u32,
    former: Option<Former>,
    /// Of a draft that was given out.
    drafted: Option<Former>,
    outcome: Option<Outcome>,
}

fn wrong(error: PlanError) -> Error {
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
            patience: 0,
            left_out: 0,
            former: None,
            drafted: None,
            outcome: None,
            settings,
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
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
            // The first sample after a ring was full stands for all that were lost: were it taken at its word, whatever it touched would
            // seem to be the hottest. On average the same is noted.
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

    /// What is to be done now, if anything.
    pub(crate) fn ask(&mut self, sight: &Sight<'_>) -> Result<Thought> {
        if sight.now_ns.saturating_sub(self.asked_ns) < self.settings.interval_ns || self.drafted.is_some() {
            return Ok(Thought::Nothing);
        }
        self.asked_ns = sight.now_ns;
        if self.former.as_ref().is_some_and(|former| sight.now_ns > former.until_ns) {
            self.former = None;
        }
        let saved_ns = self.former.as_mut().map_or(0.0, |former| former.take_saved_ns(&self.costs));
        self.outcome = self.governor.observe(sight.now_ns, saved_ns).or(self.outcome);
        let objective = Objective::new(sight.partitions).map_err(wrong)?;
        let frame = Frame {
            window: &self.window,
            placement: sight.placement,
            partitions: sight.partitions,
            sample_weight: self.costs.sample_weight(),
        };
        let loads = frame.loads_of_partitions();
        let uneven_ns = uneven_ns(self.costs.waited_ns(), &loads);
        // What is less than this share of the window is noise, whatever is done about it.
        let noise_ns = self.settings.rules.saving_share_min * self.window_ns();
        let is_uneven = uneven_ns > noise_ns;

        let sizes = std::cell::OnceCell::new();
        let sizes = || *sizes.get_or_init(|| (sight.sizes)());
        let room = self.settings.pins_max.saturating_sub(sight.placement.pins());
        let keys = frame.keys(is_uneven, room, sizes().record_bytes.max(1.0) as u64).map_err(wrong)?;
        let is_range = sight.placement.kind() == PlacementKind::Range;
        let units = match (is_uneven || is_range, sight.placement.units()) {
            (true, count) => frame.units((sizes().store_bytes / count.max(1) as f64) as u64).map_err(wrong)?,
            (false, _) => None,
        };

        let levels = [
            keys.as_ref().map(|seen| (Level::Keys, &seen.graph)),
            units.as_ref().map(|seen| (Level::Units, &seen.graph)),
        ];
        if let Some(draft) = self.go_home(sight, &sizes) {
            return Ok(Thought::Draft(draft));
        }
        if self.left_out > 0 {
            self.left_out -= 1;
            return Ok(Thought::Nothing);
        }
        let mut thought = Thought::Nothing;
        for (level, graph) in levels.into_iter().flatten() {
            let prices = self.prices(level, graph, uneven_ns, sizes(), &objective, sight)?;
            let verdict = self.weigh(graph, prices, &objective, sight)?;
            let proposal = match verdict {
                Ok(proposal) => proposal,
                Err(reason) => {
                    thought = Thought::Refused(reason);
                    continue;
                }
            };
            (self.patience, self.left_out) = (0, 0);
            let former = |vertex: Vertex| graph.owner(vertex);
            let moved = |vertex: &Vertex| proposal.plan[vertex.index()] != graph.owner(*vertex);
            let mut drafted = Former { waited_per_write_ns: self.costs.waited_per_write_ns(), ..Former::default() };
            let mut moves: Vec<(PartitionId, Load)> = Vec::new();
            for part in 0..sight.partitions {
                let all = graph.vertices().filter(|v| proposal.plan[v.index()] == Part(part)).filter(moved);
                let load = match (level, &keys, &units) {
                    (Level::Units, _, Some(seen)) => {
                        let units: Vec<_> = all.filter_map(|v| Some((*seen.units.get(v.index())?, v))).collect();
                        drafted.units.extend(units.iter().map(|(unit, v)| (*unit, former(*v))));
                        Load::Units(units.into_iter().map(|(unit, _)| unit).collect())
                    }
                    (_, Some(seen), _) => {
                        let keys: Vec<_> = all.filter_map(|v| Some((seen.units.get(v.index())?.clone(), v))).collect();
                        drafted.keys.extend(keys.iter().map(|(key, v)| (key.clone(), former(*v))));
                        Load::Keys(keys.into_iter().map(|(key, _)| key).collect())
                    }
                    _ => continue,
                };
                let is_empty = match &load {
                    Load::Keys(keys) => keys.is_empty(),
                    Load::Units(units) => units.is_empty(),
                };
                if !is_empty {
                    moves.push((PartitionId(part as u16), load));
                }
            }
            self.drafted = Some(drafted);
            return Ok(Thought::Draft(self.draft(level, &proposal, moves)));
        }
        if thought != Thought::Nothing {
            self.patience = (self.patience * 2).clamp(1, PATIENCE_MAX);
            self.left_out = self.patience - 1;
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
        let per_key_ns = KEY_NS / sizes.record_bytes.max(1.0);
        let partition_bytes = sizes.store_bytes / f64::from(sight.partitions.max(1));
        let pass_ns = if level == Level::Units { partition_bytes * PASS_BYTE_NS } else { 0.0 };
        Ok(Prices {
            crossing_ns: crossing_ns / SCALE,
            part_overload_ns: if now.part_overload >= 1.0 { uneven_ns / now.part_overload } else { 0.0 },
            worker_overload_ns: 0.0,
            byte_ns: BYTE_NS + per_key_ns,
            pass_ns: WAY_NS + pass_ns,
        })
    }

    /// The plan that is carried out, or why none is.
    fn weigh(
        &mut self,
        graph: &AccessGraph,
        prices: Prices,
        objective: &Objective,
        sight: &Sight<'_>,
    ) -> Result<std::result::Result<Proposal, &'static str>> {
        let (window_ns, horizon_ns) = (self.window_ns(), self.settings.horizon_ns);
        let model = |budget| CostModel::new(prices, window_ns, horizon_ns, budget).map_err(wrong);
        let refused = |verdict| Ok(Err(super::plans::reason(verdict).unwrap_or("it was not decided")));
        // All that any plan could save.
        let now = objective.assess(graph, graph.owners()).map_err(wrong)?;
        if self.governor.trust() * model(0)?.running_ns(&now) <= self.settings.rules.saving_share_min * horizon_ns {
            return refused(Verdict::TooLittle);
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
        let mut budget = self.settings.budget_bytes;
        let mut verdict = Verdict::NothingToMove;
        for _ in 0..BUDGETS {
            let model = model(budget)?;
            let proposals = plans.iter().map(|plan| model.propose(graph, plan, objective));
            let proposals = proposals.collect::<std::result::Result<Vec<_>, PlanError>>().map_err(wrong)?;
            let best = proposals.into_iter().max_by(|a, b| net_ns(a).total_cmp(&net_ns(b)));
            let Some(proposal) = best else { break };
            verdict = self.governor.decide(sight.now_ns, &proposal);
            match verdict {
                Verdict::Go => return Ok(Ok(proposal)),
                // A smaller one may be covered.
                Verdict::NoCredit => budget = (budget / 4).min(proposal.after.moved_bytes / 4),
                _ => break,
            }
        }
        refused(verdict)
    }

    fn draft(&self, level: Level, proposal: &Proposal, moves: Vec<(PartitionId, Load)>) -> Draft {
        let (before, after) = (&proposal.before, &proposal.after);
        let predicted_ns_per_s = self.governor.trust() * proposal.saving_ns / proposal.horizon_ns * 1e9;
        let gathers = before.cut > after.cut;
        let evens = before.part_overload > after.part_overload + 0.01 * before.part_loads.iter().sum::<u64>() as f64;
        let unit = if level == Level::Units { "units" } else { "keys" };
        let mut why = Vec::new();
        if gathers {
            let share = |assessment: &Assessment| 100.0 * assessment.cut_share();
            let (from, to) = (share(before), share(after));
            why.push(format!(
                "{unit} that are accessed together lie apart: {from:.1} % of their ties, {to:.1} % after"
            ));
        }
        if evens || !gathers {
            let (from, to) = (before.part_balance, after.part_balance);
            why.push(format!("writers wait where the load is: {from:.2} times the average, {to:.2} after"));
        }
        Draft {
            level,
            why: why.join("; "),
            moves,
            ways: after.ways,
            cut: (before.cut_share(), after.cut_share()),
            balance: (before.part_balance, after.part_balance),
            predicted_ns_per_s,
            predicted_cost_ns: self.governor.price() * proposal.cost_ns,
        }
    }

    /// Where pins become many: those whose keys nobody accesses give their place to others.
    fn go_home(&mut self, sight: &Sight<'_>, sizes: &impl Fn() -> Sizes) -> Option<Draft> {
        let per_key_ns = BYTE_NS * sizes().record_bytes + KEY_NS;
        let pins = sight.placement.pins();
        if pins <= self.settings.pins_max / 2 || self.governor.credit_ns() <= 0.0 {
            return None;
        }
        let least = KEY_SEEN_MIN * self.costs.sample_weight();
        let used = self.window.keys().filter(|view| view.load.total() >= least).map(|view| view.key);
        let used: HashSet<&[u8]> = used.collect();
        let mut homes: HashMap<PartitionId, Vec<Vec<u8>>> = HashMap::new();
        let (mut count, mut ways) = (0, HashSet::new());
        for (key, pinned) in sight.placement.pinned().filter(|(key, _)| !used.contains(key)).take(HOME_MAX) {
            let home = sight.placement.owner_of(sight.placement.unit_of(key))?;
            homes.entry(home).or_default().push(key.to_vec());
            ways.insert((pinned, home));
            count += 1;
        }
        if count == 0 {
            return None;
        }
        let mut moves: Vec<_> = homes.into_iter().map(|(home, keys)| (home, Load::Keys(keys))).collect();
        moves.sort_by_key(|(home, _)| *home);
        self.drafted = Some(Former::default());
        Some(Draft {
            level: Level::Home,
            why: format!("{pins} keys are pinned, of {} at most, and nobody accesses these", self.settings.pins_max),
            moves,
            ways: ways.len() as u64,
            cut: (0.0, 0.0),
            balance: (1.0, 1.0),
            predicted_ns_per_s: 0.0,
            predicted_cost_ns: f64::from(count) * per_key_ns + ways.len() as f64 * WAY_NS,
        })
    }

    /// The draft was carried out, or given up, and cost so much.
    pub(crate) fn carried(&mut self, now_ns: u64, level: Level, whole: bool, cost_ns: f64) {
        let Some(mut drafted) = self.drafted.take() else { return };
        drafted.until_ns = now_ns.saturating_add(self.settings.horizon_ns as u64);
        match (level, whole) {
            (Level::Home, _) => self.governor.moved(now_ns, cost_ns),
            (_, true) => {
                self.governor.moved(now_ns, cost_ns);
                self.costs.forget_waits();
                self.former = Some(drafted);
            }
            (_, false) => {
                self.governor.given_up(now_ns, cost_ns);
                self.former = None;
            }
        }
    }
}
