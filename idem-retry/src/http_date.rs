//! Dates of HTTP (RFC 9110, section 5.6.7): the one form that is sent and the two that are
//! understood.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Reads a date. Case counts, as the grammar says; whether the day of the week fits does not.
///
/// `now` resolves two-digit years: one that seems more than 50 years ahead is past.
/// `None` for anything else, and for dates before 1970.
pub(crate) fn parse(text: &str, now: SystemTime) -> Option<SystemTime> {
    let (day_name, rest) = text.split_once(' ')?;
    match day_name.strip_suffix(',') {
        Some(short) if DAYS.iter().any(|day| day[..3] == *short) => imf_fixdate(rest),
        Some(long) if DAYS.contains(&long) => rfc_850(rest, now),
        None if DAYS.iter().any(|day| day[..3] == *day_name) => asctime(rest),
        _ => None,
    }
}

/// `06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &str) -> Option<SystemTime> {
    let [day, month, year, time, "GMT"] = words(text)? else { return None };
    instant(digits(year, 4)?, month, digits(day, 2)?, time)
}

/// `06-Nov-94 08:49:37 GMT`
fn rfc_850(text: &str, now: SystemTime) -> Option<SystemTime> {
    let [date, time, "GMT"] = words(text)? else { return None };
    let [day, month, year] = words_by(date, '-')?;
    let (day, short_year) = (digits(day, 2)?, digits(year, 2)?);
    let this_year = year_of(now);
    let mut year = this_year - this_year % 100 + short_year;
    // The latest year with these two digits that is no more than 50 years ahead.
    if year <= this_year {
        year += 100;
    }
    let ahead = now.checked_add(FIFTY_YEARS)?;
    if year > this_year + 50 || instant(year, month, day, time)? > ahead {
        year -= 100;
    }
    instant(year, month, day, time)
}

/// `Nov  6 08:49:37 1994`
fn asctime(text: &str) -> Option<SystemTime> {
    let (month, rest) = text.split_at_checked(3)?;
    let (day, rest) = rest.strip_prefix(' ')?.split_at_checked(2)?;
    let day = match day.strip_prefix(' ') {
        Some(day) => digits(day, 1)?,
        None => digits(day, 2)?,
    };
    let [time, year] = words(rest.strip_prefix(' ')?)?;
    instant(digits(year, 4)?, month, day, time)
}

/// 50 years, with 13 leap days: the most that they have.
const FIFTY_YEARS: Duration = Duration::from_secs((50 * 365 + 13) * 86_400);

fn instant(year: u64, month: &str, day: u64, time: &str) -> Option<SystemTime> {
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let [hour, minute, second] = words_by(time, ':')?;
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        1 => 28 + u64::from(is_leap),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    };
    // A minute may have a leap second.
    if year < 1970 || !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_before(year) + days_before_month(month, is_leap) + day - 1;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Days from 1970 to the first of January of `year`.
fn days_before(year: u64) -> u64 {
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
}

fn days_before_month(month: u64, is_leap: bool) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    BEFORE[month as usize] + u64::from(is_leap && month > 1)
}

fn year_of(now: SystemTime) -> u64 {
    let days = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    let mut year = 1970 + days / 366;
    while days_before(year + 1) <= days {
        year += 1;
    }
    year
}

fn digits(text: &str, count: usize) -> Option<u64> {
    let fits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

fn words<const N: usize>(text: &str) -> Option<[&str; N]> {
    words_by(text, ' ')
}

fn words_by<const N: usize>(text: &str, separator: char) -> Option<[&str; N]> {
    let mut words = text.split(separator);
    let mut found = [""; N];
    for word in &mut found {
        *word = words.next()?;
    }
    words.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str, now_seconds: u64) -> Option<u64> {
        let now = UNIX_EPOCH + Duration::from_secs(now_seconds);
        let read = parse(text, now)?;
        Some(read.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    /// 2026-11-29T18:00:00Z
    const NOW: u64 = 1_795_975_200;

    #[test]
    fn the_three_forms_of_the_rfc_are_one_instant() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(seconds(text, NOW), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_at_most_fifty_years_ahead() {
        assert_eq!(seconds("Sunday, 29-Nov-26 18:00:00 GMT", NOW), Some(NOW));
        // 2076, fifty years ahead to the second; one second more is 1976.
        let fifty = seconds("Sunday, 29-Nov-76 17:59:59 GMT", NOW).unwrap();
        assert_eq!(fifty, 3_373_898_399);
        let past = seconds("Monday, 30-Nov-76 18:00:01 GMT", NOW).unwrap();
        assert_eq!(past, 218_224_801);
        // In 2095, 05 is the year 2105.
        let in_2095 = days_before(2095) * 86_400;
        let seen = seconds("Thursday, 01-Jan-05 00:00:00 GMT", in_2095).unwrap();
        assert_eq!(seen, days_before(2105) * 86_400);
    }

    #[test]
    fn leap_days_count() {
        assert_eq!(seconds("Thu, 29 Feb 2024 00:00:00 GMT", NOW), Some(1_709_164_800));
        assert_eq!(seconds("Fri, 01 Mar 2024 00:00:00 GMT", NOW), Some(1_709_251_200));
        assert_eq!(seconds("Wed, 29 Feb 2023 00:00:00 GMT", NOW), None);
        assert_eq!(seconds("Mon, 29 Feb 2100 00:00:00 GMT", NOW), None);
    }

    #[test]
    fn anything_else_is_no_date() {
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 gmt",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 32 Jan 1995 00:00:00 GMT",
            "Sun, 00 Jan 1995 00:00:00 GMT",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Sun Nov 06 08:49:37 94",
            "Nov  6 08:49:37 1994",
            "Sunday, 06-Nov-94 08:49:37 GMT\u{e9}",
            "Sun, +6 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(seconds(text, NOW), None, "{text:?}");
        }
    }
}
