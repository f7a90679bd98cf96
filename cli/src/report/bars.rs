//! Bar charts of block characters.

/// Characters that fill eighths of a cell, from the left and from below.
const WIDTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns a bar whose length is proportional to the value; the greatest value fills all cells. Every value
/// but zero is visible.
pub(super) fn horizontal(value: u64, greatest: u64, cells: usize) -> String {
    let eighths = eighths(value, greatest, cells);
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((!eighths.is_multiple_of(8)).then(|| WIDTHS[eighths % 8 - 1]));
    bar
}

/// Returns the lines of vertical bars from top to bottom. Each bar is `width` cells wide, with a gap after
/// it.
pub(super) fn vertical(values: &[u64], cells: usize, width: usize) -> Vec<String> {
    let greatest = values.iter().copied().max().unwrap_or_default();
    let lines = (0..cells).rev().map(|line| {
        let cell = |value: &u64| match eighths(*value, greatest, cells).saturating_sub(line * 8) {
            0 => ' ',
            filled => HEIGHTS[filled.min(8) - 1],
        };
        let bars = values.iter().map(|value| cell(value).to_string().repeat(width) + " ");
        bars.collect::<String>().trim_end().to_owned()
    });
    lines.collect()
}

fn eighths(value: u64, greatest: u64, cells: usize) -> usize {
    if value == 0 || greatest == 0 {
        return 0;
    }
    let eighths = (value as f64 / greatest as f64 * (cells * 8) as f64).round() as usize;
    eighths.clamp(1, cells * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_proportional_to_its_value() {
        assert_eq!(horizontal(0, 10, 4), "");
        assert_eq!(horizontal(10, 10, 4), "████");
        assert_eq!(horizontal(5, 10, 4), "██");
        assert_eq!(horizontal(1, 1_000_000, 4), "▏", "one is more than zero");
        assert_eq!(horizontal(9, 32, 4), "█▏");
        assert_eq!(horizontal(u64::MAX, u64::MAX, 3), "███");
        assert_eq!(horizontal(0, 0, 4), "");
    }

    #[test]
    fn vertical_bars_are_next_to_each_other() {
        assert_eq!(vertical(&[0, 1, 8, 16], 2, 2), ["         ██", "   ▁▁ ██ ██"]);
        assert_eq!(vertical(&[0, 0], 2, 2), ["", ""]);
        assert_eq!(vertical(&[], 1, 2), [""]);
    }
}
