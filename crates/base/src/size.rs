//! Numbers of bytes as people write them.

/// Read a number of bytes: `1073741824`, `64MiB`, `1GiB`, `500MB`. Powers of 1,024 with an `i`, of 1,000 without.
///
/// ```
/// use biombo_base::size::parse_bytes;
///
/// assert_eq!((parse_bytes("64MiB"), parse_bytes("3 GB")), (Ok(64 << 20), Ok(3_000_000_000)));
/// assert!(parse_bytes("1.5GiB").is_err());
/// ```
///
/// # Errors
/// What to write instead.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => return Err(format!("`{other}` is no unit: give bytes, or KiB, MiB, GiB, KB, MB, GB")),
    };
    let number: u64 = number.parse().map_err(|_| "give a number of bytes, such as 1073741824 or 1GiB".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "more bytes than 64 bits can count".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_and_without_units() {
        assert_eq!(parse_bytes("0"), Ok(0));
        assert_eq!(parse_bytes("1000"), Ok(1000));
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes("3 GB"), Ok(3_000_000_000));
        for bad in ["", "MiB", "-1", "1.5GiB", "1 XB", "99999999999999999999", "18446744073709551615KiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
