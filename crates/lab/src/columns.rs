//! Lines of cells, set in columns for the terminal.

use std::io::{self, Write};

/// Write `lines`, the first of which is the header, two spaces apart with a rule below the header. The columns in `names` stand to the
/// left, the others are figures and stand to the right. Every line has as many cells as the header.
pub(crate) fn write(lines: &[Vec<String>], names: &[usize], output: &mut impl Write) -> io::Result<()> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |c: usize| lines.iter().filter_map(|line| line.get(c)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    for (i, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(c, (cell, &width))| {
                    if names.contains(&c) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        writeln!(output, "  {}", cells.join("  ").trim_end())?;
        if i == 0 {
            writeln!(output, "  {}", "-".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)))?;
        }
    }
    Ok(())
}
