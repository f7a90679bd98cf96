//! Numbers as people read them.

/// Formats a number with a comma between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number with its noun, and a verb if one follows, in the singular or the plural: `1 reply`,
/// `2,000 files are`.
pub fn counted(number: impl TryInto<u64>, one: &str, several: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{} {several}", grouped(number)),
    }
}

/// Formats a size in the decimal units that Slack shows.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal digit is shown")]
    let mut size = bytes as f64 / 1000.0;
    let mut unit = 0;
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular_and_any_other_number_plural() {
        let counts = [0, 1, 2, 12_000].map(|number: u64| counted(number, "reply", "replies"));
        assert_eq!(counts, ["0 replies", "1 reply", "2 replies", "12,000 replies"]);
    }

    #[test]
    fn sizes_are_rounded_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (1_073_741_824, "1.1 GB"),
            (u64::MAX, "18446.7 PB"),
        ] {
            assert_eq!(human_size(bytes), text);
        }
    }
}
