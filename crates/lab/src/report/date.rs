//! The calendar date of a moment, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Today, as `2026-11-21`.
pub(crate) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    of_day((seconds / 86_400) as i64)
}

/// The date of a day counted from 1970-01-01, in the proleptic Gregorian calendar (Hinnant, `civil_from_days`): years begin
/// in March, so that the leap day is the last.
fn of_day(day: i64) -> String {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_right_around_leap_days() {
        for (day, date) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_778, "2026-11-21"),
            (-1, "1969-12-31"),
        ] {
            assert_eq!(super::of_day(day), date);
        }
    }
}
