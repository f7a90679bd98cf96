//! The text of a settings file with new values: every other line stays.

/// Returns the text with these settings. Leaves out the lines that set them, and appends new ones.
pub(super) fn with_settings(text: &str, settings: &[(&str, &str)]) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_replaced = |line: &str| {
        let line = line.trim();
        settings.iter().any(|(name, _)| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    };
    let kept = text.lines().filter(|line| !is_replaced(line)).map(str::to_owned);
    let new = settings.iter().map(|(name, value)| format!("{name}={value}"));
    kept.chain(new).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_stay_and_a_setting_occurs_once() {
        let text = "# mine\nSLACK_BOT_TOKEN=old\n\nANNALIST_LOG=debug\r\n  SLACK_BOT_TOKEN='older'\nSLACK_BOT_TOKENS_FILE=";
        let settings = [("SLACK_BOT_TOKEN", "new"), ("SLACK_APP_TOKEN", "a")];
        let changed = with_settings(text, &settings);
        let expected =
            "# mine\n\nANNALIST_LOG=debug\nSLACK_BOT_TOKENS_FILE=\nSLACK_BOT_TOKEN=new\nSLACK_APP_TOKEN=a\n";
        assert_eq!(changed, expected);
        assert_eq!(with_settings(&changed, &settings), expected, "a second run changes nothing");
        assert_eq!(with_settings("\u{feff}A=1", &[("A", "2")]), "A=2\n");
    }
}
