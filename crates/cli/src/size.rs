//! Numbers of bytes and of seconds on the command line and for people.

pub(crate) use biombo_base::size::parse_bytes;

/// The longest time that can be asked for: a week.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;

const MORE_THAN_NONE: &str = "give more than 0 and at most a week";

/// Read a time: `90`, `90s`, `2m`, `1.5h`.
pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    if text.starts_with('-') {
        return Err(MORE_THAN_NONE.to_owned());
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        other => return Err(format!("`{other}` is no unit of time: give s, m or h, such as 90s or 2m")),
    };
    let seconds = number.parse::<f64>().map_err(|_| "give a time, such as 90s or 2m".to_owned())? * factor;
    if seconds > 0.0 && seconds <= SECONDS_MAX { Ok(seconds) } else { Err(MORE_THAN_NONE.to_owned()) }
}

/// Bytes for people: `512 B`, `1.5 KiB`, `2.0 GiB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    for unit in ["KiB", "MiB", "GiB"] {
        value /= 1024.0;
        if value < 1024.0 {
            return format!("{value:.1} {unit}");
        }
    }
    format!("{:.1} TiB", value / 1024.0)
}

/// A count for people: `1,234,567`.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_units() {
        let read = ["90", "90s", "2m", "0.5 min", "1.5h"].map(parse_seconds);
        assert_eq!(read, [Ok(90.0), Ok(90.0), Ok(120.0), Ok(30.0), Ok(5_400.0)]);
        for bad in ["", "m", "0", "0s", "-1m", "2d", "1.2.3", "nan", "inf", "200h", "1e9"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_get_three_digits_at_a_time() {
        let shown = [0, 999, 1000, 1_234_567].map(show_count);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1023, 1536, 2 << 30, 3 << 40].map(show_bytes), ["1023 B", "1.5 KiB", "2.0 GiB", "3.0 TiB"]);
    }
}
