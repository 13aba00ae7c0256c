//! A reproduction for people.

use std::io::{self, Write};

use super::Reproduction;

/// Where it was done then and now, each conclusion with what was measured, and what differs.
pub fn print(reproduction: &Reproduction, output: &mut impl Write) -> io::Result<()> {
    let Reproduction { name, title, setup_then, setup_now, differences, findings } = reproduction;
    writeln!(output, "{name}: {title}\n  then: {setup_then}\n  now:  {setup_now}\n")?;
    for finding in findings {
        writeln!(output, "  {:<14} {}", finding.verdict.name(), finding.published)?;
        let ratio = finding.ratio.map_or(String::new(), |ratio| format!("; {ratio:.2} of the published figure"));
        writeln!(output, "  {:<14} measured: {}{ratio}", "", finding.measured)?;
    }
    writeln!(output)?;
    differences.iter().try_for_each(|difference| writeln!(output, "{difference}"))
}
