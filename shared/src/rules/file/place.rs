//! Where bytes are, after the folder they are in has moved: the registers that name a place name the new one.

use super::state::State;
use super::{image, row};

/// What an attribute becomes when everything below the URI `from` is below `to` now; none where it names no place there.
#[must_use]
pub fn moved(name: &str, value: &str, from: &str, to: &str) -> Option<String> {
    let below = |uri: &str| {
        let rest = uri.strip_prefix(from).filter(|rest| rest.starts_with('/'))?;
        Some(format!("{to}{rest}"))
    };
    if name.starts_with(image::IMAGE) {
        below(value)
    } else if name.starts_with(row::STATE) {
        match State::stored(value)? {
            State::Stored(uri) => below(&uri).map(|uri| State::Stored(uri).version()),
            State::Verdict(_) | State::Failed(_) => None,
        }
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registers_that_name_a_place_below_the_old_one_change() {
        let (from, to) = ("file:///old/files", "file:///new");
        for (name, value, expected) in [
            ("file#F1", "9/stored/file:///old/files/slack/F1", Some("9/stored/file:///new/slack/F1")),
            ("image#ab", "file:///old/files/slack/ab", Some("file:///new/slack/ab")),
            ("file#F1", "9/stored/file:///old/files2/slack/F1", None),
            ("file#F1", "9/stored/s3://bucket/slack/F1", None),
            ("file#F1", "1/failed/file:///old/files/slack/F1", None),
            ("file#F1", "0/pending", None),
            ("file#F1", "nonsense", None),
            ("text", "9/stored/file:///old/files/slack/F1", None),
            ("text", "file:///old/files/slack/F1", None),
        ] {
            assert_eq!(moved(name, value, from, to).as_deref(), expected, "{name}: {value}");
        }
    }
}
