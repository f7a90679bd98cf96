//! Any text is either a valid query or a one-line error. The units of a text are non-empty, within character
//! boundaries, and match themselves.

#![no_main]

use reader::search::query::{SearchCondition, SearchQuery};
use reader::search::{document, units};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let units = units::split_into_units(&text);
    for unit in &units {
        assert!(text.is_char_boundary(unit.start) && text.is_char_boundary(unit.end) && unit.start < unit.end);
    }
    assert!(document::index_words(&units).chars().all(|c| c == ' ' || (c != '"' && !c.is_ascii_punctuation())));
    match SearchQuery::parse(&text) {
        Err(error) => assert!(!error.to_string().contains('\n')),
        Ok(query) => {
            assert!(!query.terms.is_empty());
            for term in query.terms {
                if let SearchCondition::Text(needle) = term.condition {
                    assert!(!needle.units.is_empty());
                    assert!(units::positions(&needle.units, &needle.units, needle.is_prefix).next() == Some(0));
                }
            }
        }
    }
});
