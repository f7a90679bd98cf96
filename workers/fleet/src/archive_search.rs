//! Answers from the archive's own search: `@annalist search deploy failed from:@kim`. Only hits in channels
//! that are known to be public now are shown, because everyone in the question's channel can read the answer.
//! What was written later than anything showed its channel to be public, such as what history brought after a
//! downtime, waits until something does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, ItemKey};
use ports::changes::Changes;
use processor::{Answer, Processor, ProcessorError, Prompt};
use reader::joined::ChannelOfTeam;
use reader::plain;
use reader::range::ts_from_micros;
use reader::search::query::SearchQuery;
use rules::public_mark::MarkState;
use rules::visibility::VisibilityRegister;
use search::follower;
use search::hits::{self, SearchAnswer, SearchError, SearchHit, SearchRequest};
use search::index::SearchIndex;
use slack::ids::{TeamId, Ts};

/// Hits shown in an answer.
const SHOWN: usize = 5;

/// Hits requested from the index: some may be in channels that are no longer public. If too few of them can
/// be shown, ten times as many are requested, up to the maximum.
const FIRST_LIMIT: usize = 50;
const MAX_LIMIT: usize = 5_000;

/// The time limit for updating the index before a search.
const CATCH_UP: Duration = Duration::from_secs(2);

/// The maximum length of a snippet.
const MAX_SNIPPET_CHARS: usize = 200;

/// Occurs in every message that answers a question.
const REPLY_METADATA: &str = "\"annalist_reply\"";

/// The reply to people who do not search.
const HELP: &str = "I find what was said in this workspace's public channels. Write `@annalist search` and what you look for, \
such as `@annalist search deploy failed from:@kim in:#ops after:2026-01-01`.";

/// The archive's search.
pub struct ArchiveSearch {
    archive: Arc<dyn Archive>,
    changes: Arc<dyn Changes>,
    index: PathBuf,
}

impl ArchiveSearch {
    /// A search in this archive with the index in this file.
    pub fn new(archive: Arc<dyn Archive>, changes: Arc<dyn Changes>, index: PathBuf) -> Self {
        Self { archive, changes, index }
    }

    async fn find_hits(
        &self,
        query: SearchQuery,
        team: TeamId,
        prompt: &Prompt,
    ) -> Result<SearchAnswer, SearchError> {
        let archive = &*self.archive;
        let index = SearchIndex::open(&self.index).await?;
        // Messages that are not indexed yet are found next time.
        let caught_up = follower::catch_up_within(
            &index,
            &*self.changes,
            archive,
            follower::BATCH_SIZE,
            CATCH_UP,
            CATCH_UP,
        )
        .await;
        if let Err(error) = caught_up {
            tracing::warn!(%error, "the search index is not up to date");
        }
        let mut request = SearchRequest {
            query,
            teams: vec![team],
            zone: TimeZone::UTC,
            limit: FIRST_LIMIT,
            is_ranked: false,
            with_deleted: false,
            before: None,
            hidden: Arc::default(),
        };
        let mut channels = BTreeMap::new();
        loop {
            let SearchAnswer { hits, is_truncated: is_cut, .. } =
                hits::search(archive, &index, request.clone()).await?;
            let is_full = hits.len() == request.limit;
            let mut shown = Vec::with_capacity(SHOWN);
            for hit in hits.into_iter().filter(|hit| !hit.is_private && !is_own(hit, prompt)) {
                if !channels.contains_key(&hit.location) {
                    channels.insert(hit.location.clone(), self.read_audience(&hit.location).await?);
                }
                if channels[&hit.location].may_read(&hit) {
                    shown.push(hit);
                }
                if shown.len() == SHOWN {
                    break;
                }
            }
            if shown.len() == SHOWN || !is_full || request.limit >= MAX_LIMIT {
                return Ok(SearchAnswer { hits: shown, is_truncated: is_cut || is_full, next: None });
            }
            request.limit *= 10;
        }
    }

    /// What is known about whether everyone in the workspace may read a channel.
    async fn read_audience(&self, channel: &ChannelOfTeam) -> Result<ChannelAudience, ArchiveError> {
        let mark = self.archive.get(&ItemKey::public_mark(&channel.team, &channel.channel)).await?;
        let state = channel.newest(&*self.archive).await?;
        Ok(ChannelAudience {
            is_marked: MarkState::from_row(mark.as_ref()) == MarkState::Public,
            register: VisibilityRegister::from_row(mark.as_ref()),
            is_public: state.is_some_and(|state| state.visibility() == Some("public")),
        })
    }
}

/// What is known about whether everyone in the workspace may read a channel.
struct ChannelAudience {
    /// The channel has the public mark.
    is_marked: bool,
    register: VisibilityRegister,
    /// Its state says that it is public.
    is_public: bool,
}

impl ChannelAudience {
    /// Whether everyone may read a hit.
    fn may_read(&self, hit: &SearchHit) -> bool {
        // Rows of older versions have no register.
        let is_public = match self.register.is_private() {
            Some(_) => self.register.is_public_since(&last_written(hit)),
            None => self.is_public,
        };
        self.is_marked && is_public
    }
}

/// The time of a message, or of its last edit.
fn last_written(hit: &SearchHit) -> Ts {
    let edited = hit.message.updated_ts().and_then(|edited| edited.parse::<Timestamp>().ok());
    edited
        .map_or_else(|| hit.ts.clone(), |edited| ts_from_micros(edited.as_microsecond()).max(hit.ts.clone()))
}

#[async_trait]
impl Processor for ArchiveSearch {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        let Some(search_terms) = parse_search_terms(&prompt.raw) else {
            // People also talk to each other in a thread.
            return Ok(if prompt.is_mention { Answer::Text(HELP.into()) } else { Answer::Skip });
        };
        let query = match SearchQuery::parse(&search_terms) {
            Ok(query) => query,
            Err(error) => return Ok(Answer::Text(format!("I cannot search for that: {error}."))),
        };
        let team =
            TeamId::parse(&prompt.team_id).map_err(|error| ProcessorError::Permanent(error.to_string()))?;
        match self.find_hits(query, team, prompt).await {
            Ok(answer) => Ok(Answer::Text(text(&answer))),
            Err(SearchError::Resolve(error)) => {
                Ok(Answer::Text(format!("I cannot search for that: {error}.")))
            }
            Err(error @ (SearchError::Index(_) | SearchError::Archive(_))) => {
                Err(ProcessorError::Transient { reason: error.to_string(), after: None })
            }
        }
    }
}

/// Whether a hit belongs to the question's thread, or answers another question.
fn is_own(hit: &SearchHit, prompt: &Prompt) -> bool {
    let thread_ts = hit.thread_ts.as_ref().unwrap_or(&hit.ts);
    let is_of_thread =
        hit.location.channel.as_str() == prompt.channel.id && thread_ts.as_str() == prompt.thread_ts;
    is_of_thread || hit.message.raw_event().is_some_and(|raw| raw.contains(REPLY_METADATA))
}

/// The search terms, if the question has any: Slack's markup becomes the syntax of a prompt.
fn parse_search_terms(raw: &str) -> Option<String> {
    let raw = raw.trim_start_matches([':', ',']).trim_start();
    let rest = raw.get(..6).filter(|word| word.eq_ignore_ascii_case("search")).map(|_| &raw[6..])?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let mut search_terms = String::new();
    let mut rest = rest.trim();
    while let Some(at) = rest.find('<') {
        search_terms.push_str(&rest[..at]);
        let inner = &rest[at + 1..];
        let Some(end) = inner.find('>') else {
            rest = inner;
            continue;
        };
        let target = inner[..end].split('|').next().unwrap_or_default();
        search_terms.push_str(target.trim_start_matches(['@', '#', '!']));
        rest = &inner[end + 1..];
    }
    search_terms.push_str(rest);
    let unescaped = search_terms.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    // Phones replace straight quotes.
    let typed = unescaped.replace(['\u{201c}', '\u{201d}'], "\"");
    Some(typed).filter(|typed| !typed.trim().is_empty())
}

fn text(SearchAnswer { hits, is_truncated: is_cut, .. }: &SearchAnswer) -> String {
    match (hits.is_empty(), is_cut) {
        (false, _) => hits.iter().map(shown).collect::<Vec<_>>().join("\n"),
        (true, false) => "Nothing was found in public channels.".into(),
        (true, true) => {
            "Nothing was found in public channels among the newest messages: add a word or a filter.".into()
        }
    }
}

fn shown(hit: &SearchHit) -> String {
    let day = Timestamp::from_microsecond(hit.ts.micros()).unwrap_or_default();
    let day = day.strftime("%Y-%m-%d").to_string();
    let channel = hit.channel_name.as_deref().unwrap_or(hit.location.channel.as_str());
    let words: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
    let source = plain::excerpt(&format!("#{channel}, {}, {day}", hit.author), 120);
    let (open, close) = ('[', ']');
    // A name that looks like the end of a link would break it.
    let source: String = source.chars().filter(|c| *c != open && *c != close).collect();
    let words: String = plain::excerpt(&words, MAX_SNIPPET_CHARS).replace(open, "(").replace(close, ")");
    format!("- [{source}]({}): {words}", hit.permalink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_terms_are_converted_to_the_syntax_of_a_prompt() {
        for (raw, expected) in [
            ("search deploy failed", Some("deploy failed")),
            (": Search <@U1> from:<@U2|kim> in:<#C1|ops>", Some("U1 from:U2 in:C1")),
            ("search \u{201c}a &lt; b\u{201d}", Some("\"a < b\"")),
            ("search <https://a.example/x|x>", Some("https://a.example/x")),
            ("search", None),
            ("searching for a job", None),
            ("who is on call?", None),
            ("é", None),
        ] {
            assert_eq!(parse_search_terms(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn an_empty_result_shows_whether_only_the_newest_messages_were_searched() {
        let all = text(&SearchAnswer { hits: Vec::new(), is_truncated: false, next: None });
        let newest = text(&SearchAnswer { hits: Vec::new(), is_truncated: true, next: None });
        assert!(!all.contains("newest") && newest.contains("newest messages: add a word"), "{all} {newest}");
    }
}
