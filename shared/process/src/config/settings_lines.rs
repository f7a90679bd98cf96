//! The lines of a settings file: `NAME=value`, with or without quotes around the value.

use std::collections::BTreeMap;

use super::setting_names::{DATA, NAMES, SETTINGS, is_ours, is_setting};

/// The longest name of a variable that a mistake repeats.
const MAX_NAME_BYTES: usize = 64;

/// The values of the lines; a later line replaces an earlier one. The error is the number of a line, and what is
/// wrong with it.
pub(super) fn values(text: &str) -> Result<BTreeMap<String, String>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut values = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if let Some((name, value)) = setting(line).map_err(|why| (number + 1, why))? {
            values.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(values)
}

/// The name and the value of a line; `None` for a blank line and for a comment.
fn setting(line: &str) -> Result<Option<(&str, &str)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_name(name)) else {
        let hint = if line.starts_with("export ") { ", without `export`" } else { "" };
        return Err(format!("write NAME=value{hint}, or begin the line with # to leave it out"));
    };
    if name == DATA || name == SETTINGS {
        return Err(format!(
            "{name} leads to this file, and cannot be in it: give it as a flag or a variable"
        ));
    }
    if is_ours(name) && !is_setting(name) {
        let nearest = NAMES.into_iter().min_by_key(|known| strsim::damerau_levenshtein(known, name));
        return Err(format!("there is no setting {name}: the nearest is {}", nearest.unwrap_or_default()));
    }
    Ok(Some((name, unquoted(value.trim())?)))
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(is_letter)
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// The value without the quotes around it. There are no escapes.
fn unquoted(value: &str) -> Result<&str, String> {
    let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
    let Some(quote) = quote else { return Ok(value) };
    let inner = value[1..].strip_suffix(quote).filter(|inner| !inner.contains(quote));
    inner.ok_or_else(|| format!("the value has no {quote} at its end, or has more of them in between"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, (usize, String)> {
        values(text).map(|values| values.into_iter().collect())
    }

    #[test]
    fn a_line_is_a_name_and_a_value_without_quotes() {
        for (line, name, value) in [
            ("SLACK_BOT_TOKEN=xoxb-1", "SLACK_BOT_TOKEN", "xoxb-1"),
            ("  SLACK_BOT_TOKEN=xoxb-1 \r", "SLACK_BOT_TOKEN", "xoxb-1"),
            ("SLACK_BOT_TOKEN=\"xoxb-1\"", "SLACK_BOT_TOKEN", "xoxb-1"),
            ("SLACK_BOT_TOKEN=' a b '", "SLACK_BOT_TOKEN", " a b "),
            ("SLACK_BOT_TOKEN=", "SLACK_BOT_TOKEN", ""),
            ("SLACK_BOT_TOKEN=''", "SLACK_BOT_TOKEN", ""),
            ("ANNALIST_MODEL=a=b#c $HOME \\n", "ANNALIST_MODEL", "a=b#c $HOME \\n"),
            (
                "ANNALIST_PROCESSOR_CMD=[\"/bin/cat\", \"x\"]",
                "ANNALIST_PROCESSOR_CMD",
                "[\"/bin/cat\", \"x\"]",
            ),
            ("ANNALIST_MODEL=it's", "ANNALIST_MODEL", "it's"),
            ("POSTGRES_OTHER=\u{e9}", "POSTGRES_OTHER", "\u{e9}"),
            ("\u{feff}ANNALIST_LOG=debug", "ANNALIST_LOG", "debug"),
        ] {
            assert_eq!(read(line), Ok(vec![(name.to_owned(), value.to_owned())]), "{line:?}");
        }
        for nothing in ["", "\n\n", "# SLACK_BOT_TOKEN=1", "  #x", "\u{feff}"] {
            assert_eq!(read(nothing), Ok(Vec::new()), "{nothing:?}");
        }
        let last = read("ANNALIST_LOG=info\n#\nANNALIST_LOG=debug").unwrap();
        assert_eq!(last, [("ANNALIST_LOG".to_owned(), "debug".to_owned())]);
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number_without_its_value() {
        for (line, expected) in [
            ("hidden", "write NAME=value"),
            ("=hidden", "write NAME=value"),
            ("export SLACK_BOT_TOKEN=hidden", "without `export`"),
            ("SLACK_BOT_TOKEN =hidden", "write NAME=value"),
            ("1SLACK=hidden", "write NAME=value"),
            (&format!("{}=hidden", "A".repeat(65)), "write NAME=value"),
            ("SLACK_BOT_TOKEN=\"hidden", "no \" at its end"),
            ("SLACK_BOT_TOKEN='", "no ' at its end"),
            ("SLACK_BOT_TOKEN='hid'den'", "more of them"),
            ("SLACK_BOT_TOKEN='hidden' # mine", "no ' at its end"),
            ("SLACK_BOT_TOKNE=hidden", "no setting SLACK_BOT_TOKNE: the nearest is SLACK_BOT_TOKEN"),
            ("ANTHROPIC_KEY=hidden", "the nearest is ANTHROPIC_API_KEY"),
            ("ANNALIST_DATA=hidden", "leads to this file"),
            ("ANNALIST_SETTINGS=hidden", "leads to this file"),
        ] {
            let (number, why) = read(&format!("# a comment\n\n{line}")).unwrap_err();
            assert_eq!(number, 3, "{line}");
            assert!(
                why.contains(expected) && !why.contains("hidden") && !why.contains('\n'),
                "{line}: {why}"
            );
        }
    }
}
