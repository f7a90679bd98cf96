//! Splits an answer into messages. Slack recommends at most 4,000 characters a message and truncates it at
//! 40,000.
//! <https://docs.slack.dev/reference/methods/chat.postMessage#truncating>

use super::safe_mrkdwn::FENCE;

/// The maximum length of a message, with a margin because Slack counts characters outside Unicode's first
/// plane differently.
pub const MAX_PART_CHARS: usize = 3_900;

/// The maximum number of messages for one answer: they fit one page of a thread, and posting them takes eight
/// seconds.
pub const MAX_PARTS: usize = 8;

/// The end of an answer that was truncated.
const CUT: &str = "_The answer is longer than this; the rest is left out._";

/// The length of a fence with its line break.
const FENCE_CHARS: usize = 4;

/// A message that is being filled.
struct PartBuffer {
    text: String,
    chars: usize,
    /// Whether its end is inside a code block.
    is_code: bool,
    /// The end of the last paragraph outside code.
    paragraph_end: Option<usize>,
}

/// Splits a text that [`super::to_safe_mrkdwn`] returned into messages: between paragraphs, lines or words, with
/// balanced code fences in each message. The result depends on the text only, so it is the same after a
/// crash.
pub fn parts(text: &str) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    let mut part = PartBuffer::new(false);
    for line in text.split('\n') {
        let is_fence = line == FENCE;
        for piece in pieces(line, MAX_PART_CHARS - 4 * FENCE_CHARS - CUT.len()) {
            let closing = if part.is_code != is_fence { FENCE_CHARS } else { 0 };
            // An opening fence needs room for a line of the block.
            let opening = if is_fence && !part.is_code { 4 * FENCE_CHARS } else { 0 };
            let needed = piece.chars().count() + 1 + closing + opening;
            // The text carried over to the next message may also leave too little room.
            while part.chars + needed > limit(done.len()) && !part.is_empty() {
                let (full, next) = part.cut();
                done.push(full);
                part = next;
                if done.len() == MAX_PARTS {
                    if let Some(last) = done.last_mut() {
                        last.push('\n');
                        last.push_str(CUT);
                    }
                    return done;
                }
            }
            part.push(piece);
        }
        if is_fence {
            part.is_code = !part.is_code;
        } else if line.is_empty() && !part.is_code {
            part.paragraph_end = Some(part.text.len());
        }
    }
    if !part.is_empty() {
        done.push(part.closed());
    }
    done
}

/// The maximum length of a message; the last one leaves room for the note that the answer was truncated.
fn limit(number: usize) -> usize {
    if number + 1 == MAX_PARTS { MAX_PART_CHARS - CUT.len() - 1 } else { MAX_PART_CHARS }
}

impl PartBuffer {
    fn new(is_code: bool) -> Self {
        let mut part = Self { text: String::new(), chars: 0, is_code, paragraph_end: None };
        if is_code {
            part.push(FENCE);
        }
        part
    }

    fn is_empty(&self) -> bool {
        let text = self.text.trim();
        text.is_empty() || (self.is_code && text == FENCE)
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.chars += line.chars().count() + 1;
    }

    /// The message as it is posted.
    fn closed(mut self) -> String {
        if self.is_code {
            self.text.push_str(FENCE);
        }
        self.text.trim_matches('\n').trim_end().to_owned()
    }

    /// Splits the buffer into a full message and the next one. The text after the last paragraph moves to the
    /// next one, unless it is half of the buffer or more.
    fn cut(self) -> (String, Self) {
        let mut next = Self::new(self.is_code);
        let at = self.paragraph_end.filter(|at| !self.is_code && *at > self.text.len() / 2);
        match at {
            Some(at) => {
                let rest = self.text[at..].trim_matches('\n').to_owned();
                if !rest.is_empty() {
                    next.push(&rest);
                }
                (self.text[..at].trim_matches('\n').to_owned(), next)
            }
            None => (self.closed(), next),
        }
    }
}

/// Splits a line into pieces that fit: between words, and never inside a link or an entity.
fn pieces(line: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((end, _)) = rest.char_indices().nth(most) {
        let at = cut_before(rest, end);
        pieces.push(&rest[..at]);
        rest = &rest[at..];
    }
    pieces.push(rest);
    pieces
}

fn cut_before(text: &str, end: usize) -> usize {
    let window = &text[..end];
    // Inside `<…>` or `&…;`.
    let open = |opens: char, closes: char| {
        let at = window.rfind(opens)?;
        (at > 0 && !window[at..].contains(closes) && text[at..].contains(closes)).then_some(at)
    };
    let entity = open('&', ';').filter(|at| end - at < 6);
    if let Some(at) = open('<', '>').or(entity) {
        return at;
    }
    let half = window.floor_char_boundary(end / 2);
    window[half..].rfind([' ', '\t']).map_or(end, |at| half + at + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::to_safe_mrkdwn;
    use super::*;

    fn is_balanced(part: &str) -> bool {
        part.lines().filter(|line| *line == FENCE).count() % 2 == 0
    }

    #[test]
    fn a_short_answer_is_one_message() {
        assert_eq!(parts("hello\n\nyou"), ["hello\n\nyou"]);
        assert_eq!(parts("```\nx\n```"), ["```\nx\n```"]);
        assert!(parts("").is_empty() && parts("\n \n").is_empty());
    }

    #[test]
    fn a_hundred_thousand_characters_with_a_code_block_are_eight_messages() {
        let line = "0123456789 ".repeat(8);
        let code: Vec<String> = (0..600).map(|n| format!("{n:05} {line}")).collect();
        let text =
            format!("{}\n```\n{}\n```\n{}", "word ".repeat(2_000), code.join("\n"), "end ".repeat(10_000));
        assert!(text.len() >= 100_000);
        let parts = parts(&to_safe_mrkdwn(&text));
        assert_eq!(parts.len(), MAX_PARTS);
        assert!(parts.last().unwrap().ends_with(CUT));
        for part in &parts {
            assert!(part.chars().count() <= MAX_PART_CHARS, "{}", part.chars().count());
            assert!(is_balanced(part), "{part}");
        }
        let numbers: Vec<usize> = parts
            .iter()
            .flat_map(|part| part.lines())
            .filter_map(|line| line.split(' ').next()?.parse().ok())
            .collect();
        assert!(numbers.len() > 100 && numbers.iter().copied().eq(0..numbers.len()), "lines in order");
    }

    #[test]
    fn text_carried_over_a_split_fits_with_the_text_after_it() {
        let words = |word: &str, chars: usize| word.repeat(chars / word.len());
        // The second paragraph goes to the next message, where the line after it has no room.
        let text = format!("{}\n\n{}\n{}", words("one ", 2_000), words("two ", 1_800), words("six ", 3_800));
        let lengths: Vec<usize> = parts(&text).iter().map(|part| part.chars().count()).collect();
        assert_eq!(lengths, [2_000, 1_799, 3_799]);
    }

    #[test]
    fn a_split_is_never_inside_a_link_or_an_entity() {
        let link = format!("<https://a.example/{}|here>", "x".repeat(300));
        for width in 0..320 {
            let text = format!("{} {}", "y".repeat(3_700 + width), link.repeat(3));
            for part in parts(&text) {
                assert_eq!(part.matches('<').count(), part.matches('>').count(), "{part}");
            }
            let text = format!("{}{}", "z".repeat(3_700 + width), "&amp;".repeat(100));
            let whole: usize = parts(&text).iter().map(|part| part.matches("&amp;").count()).sum();
            assert_eq!(whole, 100, "{width}");
        }
    }

    proptest! {
        #[test]
        fn every_message_fits_and_all_words_are_present_in_order(
            lines in prop::collection::vec(prop_oneof![
                Just("```".to_owned()), Just(String::new()), "[a-z]{1,9}( [a-z]{1,9}){0,700}",
            ], 0..60)
        ) {
            let text = to_safe_mrkdwn(&lines.join("\n"));
            let parts = parts(&text);
            for part in &parts {
                prop_assert!(part.chars().count() <= MAX_PART_CHARS && is_balanced(part));
            }
            if parts.len() < MAX_PARTS {
                let words = |text: &str| -> Vec<String> {
                    text.split_whitespace().filter(|word| *word != FENCE).map(str::to_owned).collect()
                };
                prop_assert_eq!(words(&parts.join("\n")), words(&text));
            }
        }
    }
}
