//! Advice for people.

use std::io::{self, Write};

use super::{Advice, Ranked, Standing, exhaustive, words};
use crate::amplification::star_says;
use crate::columns;
use crate::units::{bytes, count, duration_ns, plural};

/// What is asked, the ranking, what was left out, the sentences, and the exhaustive run where there was one.
pub fn print(advice: &Advice, output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "{}", advice.question)?;
    let trials: u32 = advice.ranking.iter().map(|ranked| ranked.trials).sum();
    writeln!(
        output,
        "{trials} trials of {} in {}, {:.0} s of a budget of {:.0} s; {} ({} cores), Linux {}\n",
        words::sizes(advice),
        plural(u64::from(advice.rounds), "round"),
        advice.seconds,
        advice.budget_seconds,
        advice.host.cpu,
        advice.host.cores,
        advice.host.kernel
    )?;
    let header = ["store", "ops/s", "of the first", "p99", "WAF", "memory", "disk", "trials", "standing"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    lines.extend(advice.ranking.iter().map(|ranked| cells(ranked).to_vec()));
    columns::write(&lines, &[0, 8], output)?;
    writeln!(
        output,
        "\nMedians of the largest trials of each: what dropped out early had shorter ones. p99: 99 of 100 operations take no longer (of the kind that takes longest); WAF: bytes written to storage \
         for a byte put.\n"
    )?;
    let more = advice.ranking.iter().filter_map(|r| Some(format!("{} {:.2}", r.name, r.waf_by_engine?)));
    let more: Vec<String> = more.collect();
    if !more.is_empty() {
        writeln!(output, "{}\n", star_says(&more))?;
    }
    advice.left_out.iter().try_for_each(|left| writeln!(output, "not tried: {}: {}", left.engine, left.why))?;
    advice.why.iter().try_for_each(|sentence| writeln!(output, "{sentence}"))?;
    advice.exhaustive.as_ref().map_or(Ok(()), |run| exhaustive::print(run, output))
}

fn cells(ranked: &Ranked) -> [String; 9] {
    let cell = |figure: Option<f64>, text: &dyn Fn(f64) -> String| figure.map_or("-".to_owned(), text);
    [
        ranked.name.clone(),
        cell(ranked.ops_per_s, &count),
        cell(ranked.by_first, &|by| format!("{:.0} %", 100.0 * by)),
        cell(ranked.p99_ns, &duration_ns),
        cell(ranked.waf, &|waf| format!("{waf:.2}{}", if ranked.waf_by_engine.is_some() { "*" } else { "" })),
        cell(ranked.memory_bytes, &bytes),
        cell(ranked.disk_bytes, &bytes),
        ranked.trials.to_string(),
        match &ranked.standing {
            Standing::First => "advised".to_owned(),
            Standing::Close => "not told apart".to_owned(),
            Standing::Beaten { round, .. } => format!("beaten in round {round}"),
            Standing::Failed { .. } => "failed".to_owned(),
        },
    ]
}
