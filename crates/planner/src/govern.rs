//! Whether a proposal is carried out: a pure state machine that learns from what came.
//!
//! Invariants:
//! 1. **An account bounds the loss.** Plans spend from a credit that begins with an allowance, grows by a small share of the time that
//!    passes and by what plans are seen to save. Whatever the workload does, all plans together cost at most the allowance, that share of
//!    the time, and what they saved; beyond that only by how much the last one cost more than predicted.
//! 2. **Hysteresis**: a plan must be predicted to save its cost times a margin. A plan that gives less than half of its promise doubles the
//!    margin and the rest that follows; one that keeps it halves both. Under somebody who undoes each plan the rests double up to a
//!    limit, so in time T there are at most `trials + log2(rest_max / rest) + T / rest_max` plans.
//! 3. **Predictions are corrected**: savings by the factor `trust`, costs by the factor `price`, each the running mean of what came over
//!    what was predicted, within bounds; both drift back to 1, so that nothing is held against a workload forever.
//! 4. One plan at a time: while one moves or is on trial, none is begun. A part that is moved to learn from ([`Governor::probed`]) is paid for and has
//!    no trial; where it taught nothing, a rest follows.
//!
//! The ledger is an instance of rent or buy (Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", Algorithmica 1988): what
//! staying put costs must first have grown to what moving costs.

use crate::cost::Proposal;
use crate::error::{PlanError, within};

/// The settings of a [`Governor`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// How many times its cost a plan must be predicted to save; 1 to 1,000.
    pub margin: f64,
    /// The share of the horizon that a plan must be predicted to save: less is noise; 0 to 1.
    pub saving_share_min: f64,
    /// How long a plan is observed before it is judged.
    pub trial_ns: u64,
    /// The first rest after a plan that disappointed; it doubles each time up to `rest_max_ns`.
    pub rest_ns: u64,
    /// The longest rest.
    pub rest_max_ns: u64,
    /// The credit at the beginning, which is also the most that time fills it up to: more than what moving a whole budget of bytes costs, or
    /// such a plan is never begun before others have saved as much.
    pub allowance_ns: f64,
    /// The share of the time that may be lost by plans that do not pay; 0 to 1.
    pub loss_share: f64,
    /// The time in which two thirds of a correction are forgotten.
    pub forget_ns: u64,
}

impl Default for Rules {
    /// For one loop of planning a second: at most half a percent of the time is lost, after half a second of allowance.
    fn default() -> Self {
        let second = 1_000_000_000;
        Self {
            margin: 1.5,
            saving_share_min: 0.002,
            trial_ns: 2 * second,
            rest_ns: second,
            rest_max_ns: 256 * second,
            allowance_ns: 0.5e9,
            loss_share: 0.005,
            forget_ns: 120 * second,
        }
    }
}

/// What becomes of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Carry it out, then say [`moved`](Governor::moved).
    Go,
    /// It moves nothing.
    NothingToMove,
    /// Another plan is being carried out or on trial.
    OneAtATime,
    /// Plans disappointed: none before this time.
    Resting {
        /// When the rest ends.
        until_ns: u64,
    },
    /// It saves no more than noise.
    TooLittle,
    /// It does not save its cost times the margin.
    NotWorthIt,
    /// The account does not cover it yet.
    NoCredit,
}

/// What a plan promised and gave, over its trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The saving predicted by the model for the time of the trial.
    pub predicted_ns: f64,
    /// What the governor made of that with its trust.
    pub promised_ns: f64,
    /// What was observed.
    pub saved_ns: f64,
    /// What moving was predicted to cost.
    pub cost_predicted_ns: f64,
    /// What it cost.
    pub cost_ns: f64,
    /// Whether it gave at least half of the promise.
    pub kept: bool,
}

/// How far corrections go.
const TRUST: (f64, f64) = (1.0 / 16.0, 2.0);
const PRICE: (f64, f64) = (1.0 / 4.0, 16.0);
/// The largest margin, as a multiple of the one that was set.
const MARGIN_TIMES_MAX: f64 = 16.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Idle,
    Moving(Plan),
    /// From when on it is observed.
    Serving(Plan, u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Plan {
    /// The predicted saving for each nanosecond.
    saving_rate: f64,
    trust: f64,
    horizon_ns: f64,
    cost_predicted_ns: f64,
    /// What was taken from the account for it.
    reserved_ns: f64,
    cost_ns: f64,
    saved_ns: f64,
    judged: bool,
}

/// Decides which proposals are carried out. Times are any clock's nanoseconds that do not go back.
#[derive(Debug, Clone, PartialEq)]
pub struct Governor {
    rules: Rules,
    phase: Phase,
    now_ns: u64,
    credit_ns: f64,
    margin: f64,
    rest_ns: u64,
    rest_until_ns: u64,
    trust: f64,
    price: f64,
}

impl Governor {
    /// A governor that begins at `now_ns`.
    ///
    /// # Errors
    /// If a rule is out of its range.
    pub fn new(rules: Rules, now_ns: u64) -> Result<Self, PlanError> {
        within("margin", rules.margin, 1.0, 1000.0, "1 to 1000")?;
        within("saving_share_min", rules.saving_share_min, 0.0, 1.0, "0 to 1")?;
        within("allowance_ns", rules.allowance_ns, 0.0, 1e18, "0 to 10^18")?;
        within("loss_share", rules.loss_share, 0.0, 1.0, "0 to 1")?;
        within("trial_ns", rules.trial_ns as f64, 1.0, 1e18, "1 to 10^18")?;
        within("rest_ns", rules.rest_ns as f64, 1.0, 1e18, "1 to 10^18")?;
        within("rest_max_ns", rules.rest_max_ns as f64, rules.rest_ns as f64, 1e18, "rest_ns to 10^18")?;
        within("forget_ns", rules.forget_ns as f64, 1.0, 1e18, "1 to 10^18")?;
        Ok(Self {
            rules,
            phase: Phase::Idle,
            now_ns,
            credit_ns: rules.allowance_ns,
            margin: rules.margin,
            rest_ns: rules.rest_ns,
            rest_until_ns: now_ns,
            trust: 1.0,
            price: 1.0,
        })
    }

    /// What plans may cost now.
    pub fn credit_ns(&self) -> f64 {
        self.credit_ns
    }

    /// What the model's savings are multiplied by.
    pub fn trust(&self) -> f64 {
        self.trust
    }

    /// What the model's costs are multiplied by.
    pub fn price(&self) -> f64 {
        self.price
    }

    /// Lets time pass: the account fills, corrections fade.
    fn pass(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.now_ns) as f64;
        self.now_ns = self.now_ns.max(now_ns);
        let filled = (self.credit_ns + self.rules.loss_share * elapsed_ns).min(self.rules.allowance_ns);
        // Savings may have brought it past the allowance: time takes nothing away.
        self.credit_ns = self.credit_ns.max(filled);
        let fade = 1.0 - (-elapsed_ns / self.rules.forget_ns as f64).exp();
        self.trust += (1.0 - self.trust) * fade;
        self.price += (1.0 - self.price) * fade;
        if let Phase::Serving(plan, since_ns) = self.phase
            && plan.judged
            && (self.now_ns - since_ns) as f64 >= plan.horizon_ns
        {
            self.phase = Phase::Idle;
        }
    }

    /// Whether a proposal is carried out. [`Verdict::Go`] takes its cost from the account.
    pub fn decide(&mut self, now_ns: u64, proposal: &Proposal) -> Verdict {
        self.pass(now_ns);
        if proposal.after.moved_units == 0 {
            return Verdict::NothingToMove;
        }
        match self.phase {
            Phase::Moving(_) => return Verdict::OneAtATime,
            Phase::Serving(plan, _) if !plan.judged => return Verdict::OneAtATime,
            _ => {}
        }
        if self.now_ns < self.rest_until_ns {
            return Verdict::Resting { until_ns: self.rest_until_ns };
        }
        let (saving_ns, cost_ns) = (self.trust * proposal.saving_ns, self.price * proposal.cost_ns);
        // A comparison with what is no number is false, so each is asked for what has to hold.
        let enough = saving_ns > 0.0 && saving_ns > self.rules.saving_share_min * proposal.horizon_ns;
        let (pays, covered) = (saving_ns > self.margin * cost_ns, cost_ns <= self.credit_ns);
        match (enough, pays, covered) {
            (false, ..) => return Verdict::TooLittle,
            (_, false, _) => return Verdict::NotWorthIt,
            (.., false) => return Verdict::NoCredit,
            (true, true, true) => {}
        }
        self.credit_ns -= cost_ns;
        self.phase = Phase::Moving(Plan {
            saving_rate: proposal.saving_ns / proposal.horizon_ns,
            trust: self.trust,
            horizon_ns: proposal.horizon_ns,
            cost_predicted_ns: proposal.cost_ns,
            reserved_ns: cost_ns,
            cost_ns: 0.0,
            saved_ns: 0.0,
            judged: false,
        });
        Verdict::Go
    }

    /// The plan was carried out and slowed the foreground by `cost_ns`: from now on it is observed. Without a plan the cost is charged
    /// all the same.
    pub fn moved(&mut self, now_ns: u64, cost_ns: f64) {
        self.pass(now_ns);
        let cost_ns = if cost_ns > 0.0 { cost_ns } else { 0.0 };
        let Phase::Moving(mut plan) = self.phase else {
            self.credit_ns -= cost_ns;
            return;
        };
        self.credit_ns += plan.reserved_ns - cost_ns;
        if plan.cost_predicted_ns > 0.0 {
            self.price = blend(self.price, cost_ns / plan.cost_predicted_ns, PRICE);
        }
        plan.cost_ns = cost_ns;
        self.phase = Phase::Serving(plan, self.now_ns);
    }

    /// What the plan would give was a guess, so a part of it was carried out to learn from, and slowed the foreground by `cost_ns`: that is
    /// charged, the plan's own cost is not, and nothing is judged. What a plan costs is learnt from whole ones.
    pub fn probed(&mut self, now_ns: u64, cost_ns: f64) {
        self.pass(now_ns);
        if let Phase::Moving(plan) = self.phase {
            self.credit_ns += plan.reserved_ns;
            self.phase = Phase::Idle;
        }
        self.moved(now_ns, cost_ns);
    }

    /// Nothing could be learnt of what was moved for that: a rest follows, as after a plan that disappointed. The margin stays: nobody knows whether it
    /// would have.
    pub fn learnt_nothing(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.rest();
    }

    /// The plan was given up after it had slowed the foreground by `cost_ns`. It counts as one that disappointed.
    pub fn given_up(&mut self, now_ns: u64, cost_ns: f64) {
        let moving = matches!(self.phase, Phase::Moving(_));
        self.moved(now_ns, cost_ns);
        if moving {
            self.phase = Phase::Idle;
            self.disappointed();
        }
    }

    /// What the latest plan saved since it was observed last (less than 0: it cost): the model's
    /// [`running_ns`](crate::CostModel::running_ns) of the former placement under today's accesses less that of the present one, or a
    /// measurement. Says what came of the plan once, at the end of its trial; savings go on to the account until its horizon ends.
    pub fn observe(&mut self, now_ns: u64, saved_ns: f64) -> Option<Outcome> {
        let Phase::Serving(mut plan, since_ns) = self.phase else {
            self.pass(now_ns);
            return None;
        };
        let saved_ns = if saved_ns.is_finite() { saved_ns } else { 0.0 };
        plan.saved_ns += saved_ns;
        if saved_ns > 0.0 {
            self.credit_ns += saved_ns;
        } else {
            // A loss weighs, but no longer than the allowance takes to fill again.
            self.credit_ns = (self.credit_ns + saved_ns).max(self.credit_ns.min(-self.rules.allowance_ns));
        }
        let served_ns = now_ns.max(self.now_ns) - since_ns;
        let due = !plan.judged && served_ns >= self.rules.trial_ns;
        let predicted_ns = plan.saving_rate * served_ns as f64;
        let outcome = Outcome {
            predicted_ns,
            promised_ns: plan.trust * predicted_ns,
            saved_ns: plan.saved_ns,
            cost_predicted_ns: plan.cost_predicted_ns,
            cost_ns: plan.cost_ns,
            kept: plan.saved_ns >= plan.trust * predicted_ns / 2.0,
        };
        if due {
            plan.judged = true;
        }
        self.phase = Phase::Serving(plan, since_ns);
        self.pass(now_ns);
        if !due {
            return None;
        }
        self.trust = blend(self.trust, outcome.saved_ns / outcome.predicted_ns, TRUST);
        if outcome.kept {
            self.margin = (self.margin / 2.0).max(self.rules.margin);
            self.rest_ns = (self.rest_ns / 2).max(self.rules.rest_ns);
        } else {
            self.disappointed();
        }
        Some(outcome)
    }

    fn rest(&mut self) {
        self.rest_until_ns = self.now_ns.saturating_add(self.rest_ns);
        self.rest_ns = self.rest_ns.saturating_mul(2).min(self.rules.rest_max_ns);
    }

    fn disappointed(&mut self) {
        self.rest();
        self.margin = (self.margin * 2.0).min(MARGIN_TIMES_MAX * self.rules.margin);
    }
}

/// The mean of a factor and what came, within bounds.
fn blend(factor: f64, came: f64, bounds: (f64, f64)) -> f64 {
    if came.is_nan() { factor } else { ((factor + came.clamp(0.0, bounds.1)) / 2.0).clamp(bounds.0, bounds.1) }
}
