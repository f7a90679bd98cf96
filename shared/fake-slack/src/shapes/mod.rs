//! Every kind of content that a message may have, with a marker word in each text that Slack shows.
//!
//! A test gives the content to a reader and looks for the markers. [`BLOCKS`], [`ELEMENTS`], [`REFERENCES`],
//! [`ATTACHMENTS`] and [`FILES`] have one row for each kind; [`Markers`] creates the words.

mod attachments;
mod blocks;
mod elements;
mod files;
pub mod random;
mod references;

use serde_json::{Value, json};

pub use attachments::ATTACHMENTS;
pub use blocks::{BLOCKS, INVENTED_BLOCKS};
pub use elements::{ELEMENTS, INVENTED_ELEMENTS};
pub use files::FILES;
pub use references::REFERENCES;

/// A kind of content: its name, and the function that creates it with new markers.
pub type MessageShape = (&'static str, fn(&mut Markers) -> Value);

/// Creates marker words. No word is a part of another one or of ordinary text.
#[derive(Debug, Clone)]
pub struct Markers {
    prefix: String,
    shown: Vec<String>,
}

impl Markers {
    /// Creates words that begin with `prefix`, which should consist of lower-case letters.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), shown: Vec::new() }
    }

    /// Returns a new word for a text that Slack shows.
    pub fn word(&mut self) -> String {
        let number = self.shown.len();
        let letters = [number / 676, number / 26, number].map(|digit| char::from(b'a' + (digit % 26) as u8));
        let word = format!("{}{}", self.prefix, String::from_iter(letters));
        self.shown.push(word.clone());
        word
    }

    /// Returns the words so far.
    pub fn shown(&self) -> &[String] {
        &self.shown
    }

    fn plain(&mut self) -> Value {
        json!({ "type": "plain_text", "text": self.word(), "emoji": true })
    }

    fn mrkdwn(&mut self) -> Value {
        json!({ "type": "mrkdwn", "text": format!("*{}* _{}_", self.word(), self.word()), "verbatim": false })
    }

    fn button(&mut self) -> Value {
        json!({ "type": "button", "action_id": "act", "text": self.plain(), "value": "v" })
    }

    fn rich_text(&mut self) -> Value {
        rich_text(&[json!({ "type": "text", "text": self.word() })])
    }
}

/// Returns a `rich_text` block with one section of these elements.
pub fn rich_text(elements: &[Value]) -> Value {
    json!({
        "type": "rich_text", "block_id": "rt1",
        "elements": [{ "type": "rich_text_section", "elements": elements }],
    })
}

/// Returns an app's message with this content and a short notification text.
pub fn app_message(ts: &str, content: Value) -> Value {
    let mut message = json!({
        "type": "message", "subtype": "bot_message", "bot_id": "B0SHAPES", "username": "shapes",
        "text": "Something is new", "ts": ts,
    });
    if let (Value::Object(message), Value::Object(content)) = (&mut message, content) {
        message.extend(content);
    }
    message
}

/// Returns one message for each kind of content, each with the name of the kind. `ts` returns the timestamp
/// of the message with a number.
pub fn every_message(markers: &mut Markers, ts: impl Fn(usize) -> String) -> Vec<(&'static str, Value)> {
    type Wrap = fn(Value) -> Value;
    let kinds: [(&[MessageShape], Wrap); 7] = [
        (BLOCKS, |block| json!({ "blocks": [block] })),
        (INVENTED_BLOCKS, |block| json!({ "blocks": [block] })),
        (ELEMENTS, |element| json!({ "blocks": [rich_text(&[element])] })),
        (INVENTED_ELEMENTS, |element| json!({ "blocks": [rich_text(&[element])] })),
        (ATTACHMENTS, |attachment| json!({ "attachments": [attachment] })),
        (FILES, |file| json!({ "files": [file] })),
        (REFERENCES, |content| content),
    ];
    let shapes = kinds.into_iter().flat_map(|(shapes, wrap)| shapes.iter().map(move |shape| (*shape, wrap)));
    shapes
        .enumerate()
        .map(|(number, ((name, shape), wrap))| (name, app_message(&ts(number), wrap(shape(markers)))))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_message_has_its_own_markers_and_each_marker_is_in_one_message() {
        let mut markers = Markers::new("zq");
        let messages = every_message(&mut markers, |number| format!("170000{number:04}.000100"));
        let words: BTreeSet<&String> = markers.shown().iter().collect();
        assert_eq!(words.len(), markers.shown().len());
        let texts: Vec<String> = messages.iter().map(|(_, message)| message.to_string()).collect();
        for word in words {
            assert_eq!(texts.iter().filter(|text| text.contains(word.as_str())).count(), 1, "{word}");
        }
        for ((name, _), text) in messages.iter().zip(&texts) {
            assert!(text.contains("zqa"), "{name} has no marker");
        }
        let names: BTreeSet<&str> = messages.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), messages.len(), "two kinds have the same name");
    }
}
