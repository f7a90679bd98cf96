//! The query language of the search, used by the command line, the pages and the tools for programs.
//!
//! ```text
//! deploy failed          both words, in any order          "deploy failed"   next to each other
//! deploy*                words with this prefix            -draft            without the word
//! from:@ana  in:#ops     the author and the channel        has:file|link|reaction|pin|thread|code
//! before:2026-11-01  after:2026-11-01  on:2026-11-20       is:thread|edited|deleted|bot
//! during:2026-11  during:2026                              mentions:@oncall
//! ```
//!
//! A minus sign in front negates any of these. Anything but a filter is text, including its special
//! characters.

use jiff::ToSpan;
use jiff::civil::{Date, date};

use super::units::{self, SearchUnit};

/// Maximum number of bytes of a query. A person types less; a program that sends more has a bug.
pub const MAX_QUERY_BYTES: usize = 4_096;

/// Maximum number of terms of a query.
pub const MAX_TERMS: usize = 64;

/// Minimum length of a prefix. A shorter one would match most messages, so it is read as a word.
const MIN_PREFIX_CHARS: usize = 2;

/// A query. A message matches if it matches all terms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// The terms, in the order of the query's text.
    pub terms: Vec<SearchTerm>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTerm {
    /// Whether a message matches if the condition is false.
    pub is_negated: bool,
    pub condition: SearchCondition,
}

/// A condition on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchCondition {
    /// The message contains this text.
    Text(TextCondition),
    /// A person with this name or id wrote the message.
    From(String),
    /// The message mentions a person, a user group or a channel with this name or id.
    Mentions(String),
    /// The message is in a channel with this name or id.
    In(String),
    /// The message was written on one of these days.
    Days(DayRange),
    /// The message has this.
    Has(HasWhat),
    /// The message has this state.
    Is(IsWhat),
}

/// Units that must be adjacent in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextCondition {
    /// At least one.
    pub units: Vec<SearchUnit>,
    /// Whether the last unit is a prefix.
    pub is_prefix: bool,
}

/// A range of days in the user's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayRange {
    /// The first day; unbounded if it is missing.
    pub first: Option<Date>,
    /// The day after the last one; unbounded if it is missing.
    pub end: Option<Date>,
}

/// Something that a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HasWhat {
    File,
    Link,
    Reaction,
    Pin,
    /// Replies.
    Thread,
    Code,
}

/// A state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsWhat {
    /// Part of a thread.
    Thread,
    Edited,
    Deleted,
    /// Written by an app.
    Bot,
}

/// Why a text is not a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("a query has at most {MAX_QUERY_BYTES} bytes and {MAX_TERMS} terms: shorten it")]
    TooLong,
    /// The query has no term.
    #[error(
        "there is nothing to look for in this query: give a word, a \"phrase\" or a filter such as from:@name"
    )]
    Nothing,
    /// A filter has an invalid date.
    #[error("{filter}:{value} is not a date: write {expected}")]
    Date {
        filter: &'static str,
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A filter has an unknown value.
    #[error("{filter}:{value} is not known: {filter}: takes {expected}")]
    Property {
        filter: &'static str,
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
}

impl SearchQuery {
    /// Parses a query.
    ///
    /// # Errors
    /// [`QueryError`]. Any text with at least one word and without a filter is a query.
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

    /// Whether the query has a text, an author or a mention, so that the names of people and channels are needed.
    pub fn asks_for_names(&self) -> bool {
        self.terms.iter().any(|term| {
            matches!(
                term.condition,
                SearchCondition::Text(_) | SearchCondition::From(_) | SearchCondition::Mentions(_)
            )
        })
    }

    /// Whether the query asks for deleted messages.
    pub fn asks_for_deleted(&self) -> bool {
        self.terms
            .iter()
            .any(|term| !term.is_negated && term.condition == SearchCondition::Is(IsWhat::Deleted))
    }
}

/// Returns the words of a query that look like filters or operators of other programs, but are read as words.
pub fn unknown_operators(text: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && unknown.len() < MAX_TERMS {
        let (word, after) = next_word(rest);
        rest = after.trim_start();
        let bare = word.trim_start_matches('-');
        let is_filter = bare.split_once(':').is_some_and(|(name, value)| {
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
            is_name
                && !value.is_empty()
                && !value.starts_with("//")
                && filter(&name.to_ascii_lowercase(), value) == Ok(None)
        });
        if is_filter || matches!(word, "AND" | "OR" | "NOT") {
            unknown.push(crate::plain::excerpt(word, MAX_SHOWN_CHARS));
        }
    }
    unknown
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '＂')
}

/// Returns the next word and the rest. Quoted text belongs to one word; a quotation without a closing quote
/// ends with the query.
fn next_word(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        if is_quote(c) {
            is_quoted = !is_quoted;
            // A closing quote ends the word, even without a space after it.
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
        // A name is quoted as a whole or after its sign: `from:@"Ana Lima"`.
        let value: String = value.chars().filter(|c| !is_quote(*c)).collect();
        if !value.trim().is_empty()
            && let Some(condition) = filter(&name.to_ascii_lowercase(), value.trim())?
        {
            return Ok(Some(condition));
        }
    }
    let units = units::split_into_units(word);
    let begins = word.strip_suffix('*').is_some_and(|begin| begin.chars().count() >= MIN_PREFIX_CHARS);
    let is_prefix = begins && units.last().is_some_and(|unit| unit.end + 1 == word.len());
    Ok((!units.is_empty()).then_some(SearchCondition::Text(TextCondition { units, is_prefix })))
}

fn filter(name: &str, value: &str) -> Result<Option<SearchCondition>, QueryError> {
    const DAY: &str = "a day such as 2026-11-20";
    let day = |filter| parse_day(value).ok_or_else(|| bad_date(filter, value, DAY));
    let days = |first, end| Some(SearchCondition::Days(DayRange { first, end }));
    Ok(match name {
        "from" => Some(SearchCondition::From(value.to_owned())),
        "mentions" => Some(SearchCondition::Mentions(value.to_owned())),
        "in" => Some(SearchCondition::In(value.to_owned())),
        "before" => days(None, Some(day("before")?)),
        "after" => days(Some(day_after(day("after")?)), None),
        "on" => {
            let day = day("on")?;
            days(Some(day), Some(day_after(day)))
        }
        "during" => {
            let range = parse_month_or_year(value).ok_or_else(|| {
                bad_date("during", value, "a month such as 2026-11, or a year such as 2026")
            })?;
            Some(SearchCondition::Days(range))
        }
        "has" => Some(SearchCondition::Has(match value.to_ascii_lowercase().as_str() {
            "file" => HasWhat::File,
            "link" => HasWhat::Link,
            "reaction" => HasWhat::Reaction,
            "pin" => HasWhat::Pin,
            "thread" => HasWhat::Thread,
            "code" => HasWhat::Code,
            _ => return Err(unknown("has", value, "file, link, reaction, pin, thread or code")),
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

/// Maximum number of characters of a value in an error.
const MAX_SHOWN_CHARS: usize = 80;

fn bad_date(filter: &'static str, value: &str, expected: &'static str) -> QueryError {
    QueryError::Date { filter, value: crate::plain::excerpt(value, MAX_SHOWN_CHARS), expected }
}

fn unknown(filter: &'static str, value: &str, expected: &'static str) -> QueryError {
    QueryError::Property { filter, value: crate::plain::excerpt(value, MAX_SHOWN_CHARS), expected }
}

/// Parses a day such as `2026-11-20`. Rejects other formats of ISO 8601, because a user who types one means
/// something else.
fn parse_day(text: &str) -> Option<Date> {
    let [year, month, day] = parse_numbers(text)?;
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Parses a month or a year.
fn parse_month_or_year(text: &str) -> Option<DayRange> {
    let (first, end) = if let Some([year]) = parse_numbers(text) {
        let first = Date::new(i16::try_from(year).ok()?, 1, 1).ok()?;
        (first, first.checked_add(1.year()))
    } else {
        let [year, month] = parse_numbers(text)?;
        let first = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, 1).ok()?;
        (first, first.checked_add(1.month()))
    };
    Some(DayRange { first: Some(first), end: end.ok() })
}

/// Parses a number of four digits and numbers of two digits, separated by dashes.
fn parse_numbers<const N: usize>(text: &str) -> Option<[u16; N]> {
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

fn day_after(day: Date) -> Date {
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
                    SearchCondition::Mentions(name) => format!("mentions {name}"),
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
    fn words_phrases_prefixes_and_filters_are_parsed() {
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
    fn an_invalid_query_is_an_error_that_names_the_valid_values() {
        for (text, expected) in [
            ("", "nothing to look for"),
            (" - \"\" ** :: ", "nothing to look for"),
            ("before:2026-02-30", "before:2026-02-30 is not a date"),
            ("on:20261120", "a day such as 2026-11-20"),
            ("on:yesterday", "not a date"),
            ("during:2026-13", "a month such as 2026-11"),
            ("during:26", "not a date"),
            ("has:legs", "file, link, reaction, pin, thread or code"),
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
        fn any_text_is_a_query_or_a_one_line_error(text in ".{0,200}") {
            match SearchQuery::parse(&text) {
                Ok(query) => prop_assert!(!query.terms.is_empty()),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }

        #[test]
        fn operators_of_other_query_languages_are_text(text in "[a-c\"*^(){}:+~ -]{0,40}( NEAR | AND | OR | NOT )[a-c\"*^(){}:+~ -]{0,40}") {
            prop_assert!(SearchQuery::parse(&text).is_ok());
        }
    }
}
