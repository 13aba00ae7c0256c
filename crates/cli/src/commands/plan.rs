//! `biombo plan`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use biombo::{Level, PlanReport, Plans};
use clap::Args;

use crate::args::{DirArg, JsonArg};
use crate::failure::Done;
use crate::out::Out;
use crate::size::{show_bytes, show_count};

/// Show the last plans of a store that repartitions itself: why, what moved, predicted and obtained
#[derive(Debug, Args)]
#[command(after_help = "\
A store that repartitions itself writes this down whenever one of its plans ends, and when it is closed; it may be open elsewhere meanwhile.
Predicted and obtained are work of the foreground that a plan saves, in milliseconds a second: obtained is what was measured in the time
after it. A plan keeps its promise if it gives at least half of it. Planning and watching are what all plans cost before anything moves, those
included that were refused: time of a thread of the store's own.

Examples:
  biombo plan fruit
  biombo plan fruit --last 1
  biombo plan fruit --json")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Show so many plans at most (the store keeps 64)
    #[arg(long, value_name = "N", default_value_t = 10)]
    last: usize,
    #[command(flatten)]
    json: JsonArg,
}

/// Run `plan`.
pub(crate) fn plan(args: &PlanArgs) -> Done {
    let mut plans = Plans::of(&args.dir.dir)?;
    plans.last.drain(..plans.last.len().saturating_sub(args.last));
    let mut out = Out::new();
    if args.json.json {
        out.json(&plans)?;
        return out.finish();
    }
    if plans.made == 0 && plans.last_error.is_none() {
        out.line("no plan was ever made: the store has not repartitioned itself")?;
        return out.finish();
    }
    let Plans { made, carried_out, given_up, planning_ns, watching_ns, .. } = plans;
    out.line(format_args!(
        "plans      {} made, {} carried out, {} given up",
        show_count(made),
        show_count(carried_out),
        show_count(given_up)
    ))?;
    out.line(format_args!("cost       {} of planning, {} of watching", ms(planning_ns), ms(watching_ns)))?;
    for refused in &plans.refused {
        let (count, reason) = (show_count(refused.count), &refused.reason);
        out.line(format_args!("refused    {count}: {reason}; last {}", ago(refused.last_unix_ms)))?;
    }
    if let Some(error) = &plans.last_error {
        out.line(format_args!("error      {error}"))?;
    }
    plans.last.iter().try_for_each(|plan| say(&mut out, plan))?;
    out.finish()
}

fn say(out: &mut Out, plan: &PlanReport) -> Done {
    let rate = |ns_per_s: f64| format!("{:.2} ms a second", ns_per_s / 1e6);
    let cost = |ns: u64| format!("{} of moving", ms(ns));
    out.line(format_args!("plan {}, {}, by {}", plan.number, ago(plan.at_unix_ms), plan.planner))?;
    out.line(format_args!("  why        {}", plan.why))?;
    let what = if plan.level == Level::Units { "units" } else { "keys" };
    out.line(format_args!(
        "  moved      {} {what}: {} keys copied, {}, between {} pairs of partitions",
        show_count(plan.units),
        show_count(plan.keys),
        show_bytes(plan.bytes),
        plan.ways
    ))?;
    out.line(format_args!("  took       {} to make, {} to carry out", ms(plan.planning_ns), ms(plan.took_ns)))?;
    if let Some(error) = &plan.error {
        return out.line(format_args!("  given up   {error}"));
    }
    if plan.level == Level::Home {
        return out.line(format_args!("  cost       {}", cost(plan.cost_ns)));
    }
    out.line(format_args!(
        "  predicted  {} saved, for {}",
        rate(plan.predicted_ns_per_s),
        cost(plan.predicted_cost_ns)
    ))?;
    if plan.probe {
        return out.line(format_args!(
            "  learnt     from what is timed since; not judged for itself, for {}",
            cost(plan.cost_ns)
        ));
    }
    let obtained = match plan.obtained_ns_per_s {
        Some(saved) => format!("{} saved", rate(saved)),
        None => "not judged yet".to_owned(),
    };
    let kept = match plan.kept {
        Some(true) => ": kept",
        Some(false) => ": not kept",
        None => "",
    };
    out.line(format_args!("  obtained   {obtained}, for {}{kept}", cost(plan.cost_ns)))
}

fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

/// How long ago a moment was, for people.
fn ago(unix_ms: u64) -> String {
    let then = UNIX_EPOCH + Duration::from_millis(unix_ms);
    let seconds = SystemTime::now().duration_since(then).map_or(0, |since| since.as_secs());
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
