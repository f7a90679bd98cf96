//! Any text is a query, or an error of one line; a query finds no units in a text that does not have them.

#![no_main]

use reader::search::query::{Condition, SearchQuery};
use reader::search::{document, units};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let units = units::of(&text);
    for unit in &units {
        assert!(text.is_char_boundary(unit.start) && text.is_char_boundary(unit.end) && unit.start < unit.end);
    }
    assert!(document::index_words(&units).chars().all(|c| c == ' ' || (c != '"' && !c.is_ascii_punctuation())));
    match SearchQuery::parse(&text) {
        Err(error) => assert!(!error.to_string().contains('\n')),
        Ok(query) => {
            assert!(!query.terms.is_empty());
            for term in query.terms {
                if let Condition::Text(wanted) = term.condition {
                    assert!(!wanted.units.is_empty());
                    assert!(units::positions(&wanted.units, &wanted.units, wanted.is_prefix).next() == Some(0));
                }
            }
        }
    }
});
