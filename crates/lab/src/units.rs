//! Figures for people, each with its unit.

/// Four digits are enough to compare: `1.02 M`, `480 k`, `93.1 k`, `812`.
pub fn count(figure: f64) -> String {
    scaled(figure, &[(1e9, " G"), (1e6, " M"), (1e3, " k")], "")
}

/// A duration in nanoseconds: `310 ns`, `1.40 µs`, `12.0 ms`, `3.20 s`.
pub fn duration_ns(ns: f64) -> String {
    scaled(ns, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], " ns")
}

/// Bytes in powers of ten: `1.12 GB`.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB")], " B")
}

/// A size that somebody chose, in powers of two where it is one: `16 B`, `4 KiB`, `1000 B`.
pub fn size(bytes: u32) -> String {
    match bytes {
        0 => "0 B".to_owned(),
        b if b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

/// How many times another figure: two decimals, or two significant digits where those would say next to nothing: `12.30`, `0.97`, `0.0031`.
pub fn times(ratio: f64) -> String {
    // Rounded: what would be `0.0995` in three decimals is `0.10`.
    if ratio == 0.0 || !ratio.is_finite() || ratio.abs() >= 0.0995 {
        return format!("{ratio:.2}");
    }
    let exponent: i32 = format!("{ratio:.1e}").split_once('e').map_or(0, |(_, e)| e.parse().unwrap_or(0));
    format!("{ratio:.*}", (1 - exponent).max(0) as usize)
}

/// So many of something: `1 round`, `3 rounds`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn scaled(figure: f64, scales: &[(f64, &str)], plain: &str) -> String {
    // A figure that rounds up to the next scale belongs there.
    match scales.iter().find(|(scale, _)| figure.abs() >= 0.9995 * scale) {
        Some((scale, unit)) => format!("{}{unit}", digits(figure / scale)),
        None => format!("{}{plain}", if figure.fract() == 0.0 { format!("{figure:.0}") } else { digits(figure) }),
    }
}

/// Three significant digits.
fn digits(figure: f64) -> String {
    match figure.abs() {
        x if x >= 99.95 => format!("{figure:.0}"),
        x if x >= 9.995 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ratios_are_not_nothing() {
        let shown = [12.304, 1.0, 0.968, 0.0996, 0.0994, 0.01, 0.00996, 0.0031, 0.0].map(times);
        assert_eq!(shown, ["12.30", "1.00", "0.97", "0.10", "0.099", "0.010", "0.010", "0.0031", "0.00"]);
        assert_eq!(times(-0.0042), "-0.0042");
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(count(1_020_000.0), "1.02 M");
        assert_eq!(count(93_120.0), "93.1 k");
        assert_eq!(count(999_900.0), "1.00 M");
        assert_eq!(count(812.0), "812");
        assert_eq!(duration_ns(310.0), "310 ns");
        assert_eq!(duration_ns(12_000_000.0), "12.0 ms");
        assert_eq!(bytes(1_121_000_000.0), "1.12 GB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!([0, 1, 2].map(|rounds| plural(rounds, "round")), ["0 rounds", "1 round", "2 rounds"]);
        assert_eq!([0, 1_000, 4_096, 1_536, 3 << 20].map(size), ["0 B", "1000 B", "4 KiB", "1536 B", "3 MiB"]);
    }
}
