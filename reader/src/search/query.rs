//! The language of searches, the same on the command line, on pages and for programs.
//!
//! ```text
//! deploy failed          both words, in any order          "deploy failed"   next to each other
//! deploy*                words that begin so               -draft            without the word
//! from:@ana  in:#ops     who wrote it, and where           has:file|link|reaction|thread|code
//! before:2026-11-01  after:2026-11-01  on:2026-11-20       is:thread|edited|deleted|bot
//! during:2026-11  during:2026
//! ```
//!
//! A minus sign in front turns any of these around. What is no filter is text, whatever signs are in it.

use jiff::ToSpan;
use jiff::civil::{Date, date};

use super::units::{self, SearchUnit};

/// Bytes of a query. A person types less, and a program that sends more has made a mistake.
pub const MAX_QUERY_BYTES: usize = 4_096;

/// Terms of a query.
pub const MAX_TERMS: usize = 64;

/// A prefix shorter than this would be in most messages: it is read as a word.
const MIN_PREFIX_CHARS: usize = 2;

/// What is looked for: a message fits if each term does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// The terms, in the order in which they were typed.
    pub terms: Vec<SearchTerm>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTerm {
    /// A message fits if the condition does not hold.
    pub is_negated: bool,
    /// The condition.
    pub condition: SearchCondition,
}

/// What a message must be or say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchCondition {
    /// It says this.
    Text(TextCondition),
    /// A person of this name or id wrote it.
    From(String),
    /// It is in a channel of this name or id.
    In(String),
    /// It was written from one day on and before another.
    Days(DayRange),
    /// It has this.
    Has(HasWhat),
    /// It is this.
    Is(IsWhat),
}

/// Units that stand next to each other in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextCondition {
    /// At least one.
    pub units: Vec<SearchUnit>,
    /// The last unit may go on.
    pub is_prefix: bool,
}

/// Days, in the zone of the person who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayRange {
    /// The first day; of all days if it is missing.
    pub first: Option<Date>,
    /// The day after the last; all later days if it is missing.
    pub end: Option<Date>,
}

/// What a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HasWhat {
    /// A file.
    File,
    /// A link.
    Link,
    /// A reaction.
    Reaction,
    /// Replies.
    Thread,
    /// Code.
    Code,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsWhat {
    /// Part of a thread.
    Thread,
    /// Edited.
    Edited,
    /// Deleted.
    Deleted,
    /// An app's.
    Bot,
}

/// Why a text is no query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It is too long.
    #[error("a query has at most {MAX_QUERY_BYTES} bytes and {MAX_TERMS} terms: shorten it")]
    TooLong,
    /// Nothing in it can be looked for.
    #[error(
        "there is nothing to look for in this query: give a word, a \"phrase\" or a filter such as from:@name"
    )]
    Nothing,
    /// No such day.
    #[error("{filter}:{value} is no date: write {expected}")]
    Date {
        /// Which filter.
        filter: &'static str,
        /// What it was given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// No such property.
    #[error("{filter}:{value} is not known: {filter}: takes {expected}")]
    Property {
        /// Which filter.
        filter: &'static str,
        /// What it was given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}

impl SearchQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// [`QueryError`]. Any text without a filter in it that names at least one word is a query.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(QueryError::TooLong);
        }
        let mut terms = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (word, after) = next_word(rest);
            rest = after.trim_start();
            let (is_negated, word) = match word.strip_prefix('-') {
                Some(word) if !word.is_empty() => (true, word),
                Some(_) | None => (false, word),
            };
            terms.extend(condition(word)?.map(|condition| SearchTerm { is_negated, condition }));
            if terms.len() > MAX_TERMS {
                return Err(QueryError::TooLong);
            }
        }
        if terms.is_empty() { Err(QueryError::Nothing) } else { Ok(Self { terms }) }
    }

    /// Whether it has a text or an author: what people and channels are called must then be known.
    #[must_use]
    pub fn asks_for_names(&self) -> bool {
        self.terms
            .iter()
            .any(|term| matches!(term.condition, SearchCondition::Text(_) | SearchCondition::From(_)))
    }

    /// Whether it asks for deleted messages.
    #[must_use]
    pub fn asks_for_deleted(&self) -> bool {
        self.terms
            .iter()
            .any(|term| !term.is_negated && term.condition == SearchCondition::Is(IsWhat::Deleted))
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '＂')
}

/// The next word and what is behind it. What is quoted belongs to one word, and a quotation that is not closed ends with
/// the query.
fn next_word(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        if is_quote(c) {
            is_quoted = !is_quoted;
            // A word may follow a quotation at once.
            if !is_quoted {
                return text.split_at(at + c.len_utf8());
            }
        } else if c.is_whitespace() && !is_quoted {
            return text.split_at(at);
        }
    }
    (text, "")
}

fn condition(word: &str) -> Result<Option<SearchCondition>, QueryError> {
    if let Some((name, value)) = word.split_once(':') {
        let value = value.trim_matches(is_quote).trim();
        if !value.is_empty()
            && let Some(condition) = filter(&name.to_ascii_lowercase(), value)?
        {
            return Ok(Some(condition));
        }
    }
    let units = units::of(word);
    let begins = word.strip_suffix('*').is_some_and(|begin| begin.chars().count() >= MIN_PREFIX_CHARS);
    let is_prefix = begins && units.last().is_some_and(|unit| unit.end + 1 == word.len());
    Ok((!units.is_empty()).then_some(SearchCondition::Text(TextCondition { units, is_prefix })))
}

fn filter(name: &str, value: &str) -> Result<Option<SearchCondition>, QueryError> {
    const DAY: &str = "a day such as 2026-11-20";
    let day = |filter| a_day(value).ok_or_else(|| bad_date(filter, value, DAY));
    let days = |first, end| Some(SearchCondition::Days(DayRange { first, end }));
    Ok(match name {
        "from" => Some(SearchCondition::From(value.to_owned())),
        "in" => Some(SearchCondition::In(value.to_owned())),
        "before" => days(None, Some(day("before")?)),
        "after" => days(Some(after(day("after")?)), None),
        "on" => {
            let day = day("on")?;
            days(Some(day), Some(after(day)))
        }
        "during" => {
            let range = period(value).ok_or_else(|| {
                bad_date("during", value, "a month such as 2026-11, or a year such as 2026")
            })?;
            Some(SearchCondition::Days(range))
        }
        "has" => Some(SearchCondition::Has(match value.to_ascii_lowercase().as_str() {
            "file" => HasWhat::File,
            "link" => HasWhat::Link,
            "reaction" => HasWhat::Reaction,
            "thread" => HasWhat::Thread,
            "code" => HasWhat::Code,
            _ => return Err(unknown("has", value, "file, link, reaction, thread or code")),
        })),
        "is" => Some(SearchCondition::Is(match value.to_ascii_lowercase().as_str() {
            "thread" => IsWhat::Thread,
            "edited" => IsWhat::Edited,
            "deleted" => IsWhat::Deleted,
            "bot" => IsWhat::Bot,
            _ => return Err(unknown("is", value, "thread, edited, deleted or bot")),
        })),
        _ => None,
    })
}

/// So much of a value is repeated in an error.
const SHOWN: usize = 80;

fn bad_date(filter: &'static str, value: &str, expected: &'static str) -> QueryError {
    QueryError::Date { filter, value: crate::plain::excerpt(value, SHOWN), expected }
}

fn unknown(filter: &'static str, value: &str, expected: &'static str) -> QueryError {
    QueryError::Property { filter, value: crate::plain::excerpt(value, SHOWN), expected }
}

/// `2026-11-20`. Other spellings of ISO 8601 are refused: a person who types one means something else.
fn a_day(text: &str) -> Option<Date> {
    let [year, month, day] = numbers(text)?;
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// A month or a year.
fn period(text: &str) -> Option<DayRange> {
    let (first, end) = if let Some([year]) = numbers(text) {
        let first = Date::new(i16::try_from(year).ok()?, 1, 1).ok()?;
        (first, first.checked_add(1.year()))
    } else {
        let [year, month] = numbers(text)?;
        let first = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, 1).ok()?;
        (first, first.checked_add(1.month()))
    };
    Some(DayRange { first: Some(first), end: end.ok() })
}

/// Numbers of two digits with dashes between them, the first of four.
fn numbers<const N: usize>(text: &str) -> Option<[u16; N]> {
    let mut parts = text.split('-');
    let mut found = [0; N];
    for (number, slot) in found.iter_mut().enumerate() {
        let part = parts.next()?;
        let digits = if number == 0 { 4 } else { 2 };
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn after(day: Date) -> Date {
    day.tomorrow().unwrap_or(date(9999, 12, 31))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let terms = SearchQuery::parse(text).unwrap().terms;
        terms
            .into_iter()
            .map(|term| {
                let sign = if term.is_negated { "-" } else { "" };
                let what = match term.condition {
                    SearchCondition::Text(text) => {
                        let words: Vec<String> = text.units.into_iter().map(|unit| unit.text).collect();
                        words.join("+") + if text.is_prefix { "*" } else { "" }
                    }
                    SearchCondition::From(name) => format!("from {name}"),
                    SearchCondition::In(name) => format!("in {name}"),
                    SearchCondition::Days(days) => {
                        let day = |day: Option<Date>| day.map_or_else(String::new, |day| day.to_string());
                        format!("{}..{}", day(days.first), day(days.end))
                    }
                    SearchCondition::Has(what) => format!("has {what:?}"),
                    SearchCondition::Is(what) => format!("is {what:?}"),
                };
                format!("{sign}{what}")
            })
            .collect()
    }

    #[test]
    fn words_phrases_prefixes_and_filters_are_read() {
        for (text, expected) in [
            ("deploy failed", &["deploy", "failed"][..]),
            ("\"deploy failed\" x", &["deploy+failed", "x"]),
            ("“deploy failed”", &["deploy+failed"]),
            ("\"not closed at all", &["not+closed+at+all"]),
            ("depl* -draft -\"a b\"", &["depl*", "-draft", "-a+b"]),
            ("x* *x **", &["x", "x"]),
            ("foo_bar* foo.bar", &["foo+bar*", "foo+bar"]),
            ("会議* 会", &["会+議*", "会"]),
            ("from:@ana In:#ops FROM:\"Ana Gomez\"", &["from @ana", "in #ops", "from Ana Gomez"]),
            ("-from:ana -has:file is:deleted", &["-from ana", "-has File", "is Deleted"]),
            ("before:2026-11-01", &["..2026-11-01"]),
            ("after:2026-11-30", &["2026-12-01.."]),
            ("on:2028-02-29", &["2028-02-29..2028-03-01"]),
            ("during:2026-12 during:2026", &["2026-12-01..2027-01-01", "2026-01-01..2027-01-01"]),
            ("foo:bar https://example.com from:", &["foo+bar", "https+example+com", "from"]),
            ("- -- x -", &["x"]),
            ("会議　障害", &["会+議", "障+害"]),
            ("\"a\"\"b\"c", &["a", "b", "c"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_an_error_that_says_what_can() {
        for (text, expected) in [
            ("", "nothing to look for"),
            (" - \"\" ** :: ", "nothing to look for"),
            ("before:2026-02-30", "before:2026-02-30 is no date"),
            ("on:20261120", "a day such as 2026-11-20"),
            ("on:yesterday", "no date"),
            ("during:2026-13", "a month such as 2026-11"),
            ("during:26", "no date"),
            ("has:legs", "file, link, reaction, thread or code"),
            ("is:late", "thread, edited, deleted or bot"),
            (&"x ".repeat(65), "shorten it"),
            (&"x".repeat(5_000), "shorten it"),
        ] {
            let error = SearchQuery::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_query_or_one_line_of_an_error(text in ".{0,200}") {
            match SearchQuery::parse(&text) {
                Ok(query) => prop_assert!(!query.terms.is_empty()),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }

        #[test]
        fn signs_of_other_query_languages_are_text(text in "[a-c\"*^(){}:+~ -]{0,40}( NEAR | AND | OR | NOT )[a-c\"*^(){}:+~ -]{0,40}") {
            prop_assert!(SearchQuery::parse(&text).is_ok());
        }
    }
}
