//! Answers from the archive's own search: `@annalist search deploy failed from:@kim`. Only what is in channels that are public
//! now is shown: the answer is read by everyone in the channel of the question.

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
use reader::search::query::SearchQuery;
use rules::public_mark::MarkState;
use search::follower;
use search::hits::{self, SearchAnswer, SearchError, SearchHit, SearchRequest};
use search::index::SearchIndex;
use slack::ids::TeamId;
use tokio::time::Instant;

/// Hits that an answer shows.
const SHOWN: usize = 5;

/// Hits that are looked at: some may be in channels that are not public any more. If too few of them may be shown, ten times
/// as many are, up to the greatest number.
const LOOKED_AT: usize = 50;
const MOST_LOOKED_AT: usize = 5_000;

/// A search brings the index up to date itself, for so long.
const CATCH_UP: Duration = Duration::from_secs(2);

/// What is shown of a message.
const MAX_SNIPPET_CHARS: usize = 200;

/// In every message that answers a question.
const REPLY_METADATA: &str = "\"annalist_reply\"";

/// What people are told who do not search.
const HELP: &str = "I find what was said in this workspace's public channels. Write `@annalist search` and what you look for, \
such as `@annalist search deploy failed from:@kim in:#ops after:2026-01-01`.";

/// The archive's search.
pub struct ArchiveSearch {
    archive: Arc<dyn Archive>,
    changes: Arc<dyn Changes>,
    index: PathBuf,
}

impl ArchiveSearch {
    /// A search in this archive by the index in this file.
    pub fn new(archive: Arc<dyn Archive>, changes: Arc<dyn Changes>, index: PathBuf) -> Self {
        Self { archive, changes, index }
    }

    async fn found(
        &self,
        query: SearchQuery,
        team: TeamId,
        prompt: &Prompt,
    ) -> Result<SearchAnswer, SearchError> {
        let archive = &*self.archive;
        let index = SearchIndex::open(&self.index).await?;
        let began = Instant::now();
        // What is not in the index yet is found the next time.
        let goes_on = |_| began.elapsed() < CATCH_UP;
        let caught_up = follower::catch_up(&index, &*self.changes, archive, follower::BATCH, goes_on).await;
        if let Err(error) = caught_up {
            tracing::warn!(%error, "the search index is not up to date");
        }
        let mut request = SearchRequest {
            query,
            teams: vec![team],
            zone: TimeZone::UTC,
            limit: LOOKED_AT,
            is_ranked: false,
            with_deleted: false,
        };
        let mut is_marked = BTreeMap::new();
        loop {
            let SearchAnswer { hits, is_cut } = hits::search(archive, &index, request.clone()).await?;
            let is_full = hits.len() == request.limit;
            let mut shown = Vec::with_capacity(SHOWN);
            for hit in hits.into_iter().filter(|hit| !hit.is_private && !is_own(hit, prompt)) {
                if !is_marked.contains_key(&hit.place) {
                    is_marked.insert(hit.place.clone(), self.is_marked(&hit.place).await?);
                }
                if is_marked[&hit.place] {
                    shown.push(hit);
                }
                if shown.len() == SHOWN {
                    break;
                }
            }
            if shown.len() == SHOWN || !is_full || request.limit >= MOST_LOOKED_AT {
                return Ok(SearchAnswer { hits: shown, is_cut: is_cut || is_full });
            }
            request.limit *= 10;
        }
    }

    /// Whether everyone in the workspace may read a channel, unless it is private now.
    async fn is_marked(&self, place: &ChannelOfTeam) -> Result<bool, ArchiveError> {
        let mark = self.archive.get(&ItemKey::public_mark(&place.team, &place.channel)).await?;
        Ok(MarkState::of(mark.as_ref()) == MarkState::Public)
    }
}

#[async_trait]
impl Processor for ArchiveSearch {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        let Some(wanted) = wanted(&prompt.raw) else {
            // In a thread people also talk to each other.
            return Ok(if prompt.is_mention { Answer::Text(HELP.into()) } else { Answer::Skip });
        };
        let query = match SearchQuery::parse(&wanted) {
            Ok(query) => query,
            Err(error) => return Ok(Answer::Text(format!("I cannot search for that: {error}."))),
        };
        let team =
            TeamId::parse(&prompt.team_id).map_err(|error| ProcessorError::Permanent(error.to_string()))?;
        match self.found(query, team, prompt).await {
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

/// Whether a hit is of the thread of the question, or an answer to another one.
fn is_own(hit: &SearchHit, prompt: &Prompt) -> bool {
    let thread_ts = hit.thread_ts.as_ref().unwrap_or(&hit.ts);
    let is_of_thread =
        hit.place.channel.as_str() == prompt.channel.id && thread_ts.as_str() == prompt.thread_ts;
    is_of_thread || hit.message["raw_event"].as_str().is_some_and(|raw| raw.contains(REPLY_METADATA))
}

/// What is looked for, if something is: Slack's spellings become what people type at a prompt.
fn wanted(raw: &str) -> Option<String> {
    let raw = raw.trim_start_matches([':', ',']).trim_start();
    let rest = raw.get(..6).filter(|word| word.eq_ignore_ascii_case("search")).map(|_| &raw[6..])?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let mut wanted = String::new();
    let mut rest = rest.trim();
    while let Some(at) = rest.find('<') {
        wanted.push_str(&rest[..at]);
        let inner = &rest[at + 1..];
        let Some(end) = inner.find('>') else {
            rest = inner;
            continue;
        };
        let target = inner[..end].split('|').next().unwrap_or_default();
        wanted.push_str(target.trim_start_matches(['@', '#', '!']));
        rest = &inner[end + 1..];
    }
    wanted.push_str(rest);
    let unescaped = wanted.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    // What a phone makes of straight quotes.
    let typed = unescaped.replace(['\u{201c}', '\u{201d}'], "\"");
    Some(typed).filter(|typed| !typed.trim().is_empty())
}

fn text(SearchAnswer { hits, is_cut }: &SearchAnswer) -> String {
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
    let channel = hit.channel_name.as_deref().unwrap_or(hit.place.channel.as_str());
    let words: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
    let place = plain::excerpt(&format!("#{channel}, {}, {day}", hit.author), 120);
    let (open, close) = ('[', ']');
    // A name that looks like the end of a link would move it.
    let place: String = place.chars().filter(|c| *c != open && *c != close).collect();
    let words: String = plain::excerpt(&words, MAX_SNIPPET_CHARS).replace(open, "(").replace(close, ")");
    format!("- [{place}]({}): {words}", hit.permalink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_what_people_type_at_a_prompt() {
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
            assert_eq!(wanted(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn that_nothing_was_found_says_whether_only_the_newest_were_looked_at() {
        let all = text(&SearchAnswer { hits: Vec::new(), is_cut: false });
        let newest = text(&SearchAnswer { hits: Vec::new(), is_cut: true });
        assert!(!all.contains("newest") && newest.contains("newest messages: add a word"), "{all} {newest}");
    }
}
