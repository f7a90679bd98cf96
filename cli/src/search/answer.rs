//! `annalist search`: finds messages by their words, newest first.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use ports::archive::Archive;
use ports::changes::Changes;
use process::config::backend::{Backend, BackendArgs};
use process::config::zone::ZoneArgs;
use process::config::{self, IndexArgs};
use reader::access::Sight;
use reader::find;
use reader::joined::ChannelOfTeam;
use reader::permalink::SlackLink;
use reader::search::matching::SnippetPart;
use reader::search::query::{SearchCondition, SearchQuery, SearchTerm};
use rules::message::rfc3339;
use search::counts::ChannelActivity;
use search::follower;
use search::hits::{self, SearchAnswer, SearchHit, SearchRequest};
use search::index::{IndexError, SearchIndex};
use serde_json::{Value, json};
use slack::ids::TeamId;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::UsageError;
use crate::plain;
use crate::read::{channel_name, team};
use crate::zone::Zone;

/// The time that a search spends on bringing the index up to date.
const CATCH_UP: Duration = Duration::from_millis(200);

/// Prefix of an argument that begins with a minus sign, until the query is parsed.
const NEGATION_MARK: char = '\u{2060}';

/// `annalist search`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SearchArgs {
    /// Words, "phrases", prefix*, -not, and filters: from:@name in:#channel before:, after:, on: and during: dates,
    /// has:file|link|reaction|pin|thread|code is:thread|edited|deleted|bot
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,
    /// Only the first N hits
    #[arg(long, value_name = "N", default_value = "20")]
    limit: NonZeroUsize,
    /// The best of the newest 10,000 first, instead of the newest
    #[arg(long)]
    rank: bool,
    /// Deleted messages too
    #[arg(long)]
    include_deleted: bool,
    /// Only this channel, as in:CHANNEL does
    #[arg(long, value_name = "CHANNEL", value_parser = channel_name)]
    channel: Option<String>,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// Marks each `-word` after `search` in the program's arguments, so that clap does not parse it as a flag: it
/// excludes a word.
pub(crate) fn mark_negations(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut is_search = false;
    arguments.enumerate().map(move |(number, argument)| {
        is_search |= number == 0 && argument == "search";
        let text = argument.to_str().unwrap_or_default();
        let is_negation =
            text.starts_with('-') && !text.starts_with("--") && !matches!(text, "-h" | "-V" | "-");
        if is_search && is_negation { format!("{NEGATION_MARK}{text}").into() } else { argument }
    })
}

impl SearchArgs {
    fn query(&self) -> Result<SearchQuery, UsageError> {
        let words: Vec<&str> = self.query.iter().map(|word| word.trim_start_matches(NEGATION_MARK)).collect();
        if let [word] = words[..]
            && SlackLink::parse(word).is_some_and(|link| link.ts.is_some())
        {
            return Err(UsageError::new(format_args!(
                "that is a link to a message: `annalist thread {word}` shows it"
            )));
        }
        let mut query = SearchQuery::parse(&words.join(" ")).map_err(UsageError::new)?;
        query.terms.extend(
            self.channel
                .clone()
                .map(|channel| SearchTerm { is_negated: false, condition: SearchCondition::In(channel) }),
        );
        Ok(query)
    }
}

/// The search index, and what it is made of.
pub(crate) struct SearchSource {
    /// The archive with every channel, because the index has every channel.
    whole: Arc<dyn Archive>,
    changes: Arc<dyn Changes>,
    /// The file of the search index.
    index: PathBuf,
    /// The batch size for updates of the index: messages, or days of channels on AWS.
    batch: usize,
    /// The minimum interval between two updates of the index: on AWS, each of them costs money.
    interval: Duration,
    /// The open index, which later searches reuse.
    open: Mutex<Option<SearchIndex>>,
    /// The time of the last update that left nothing.
    updated_at: Mutex<Option<Instant>>,
}

/// An archive as its reader sees it, with its search index.
pub(crate) struct SearchableArchive {
    pub(crate) archive: Arc<dyn Archive>,
    sight: Sight,
    source: Arc<SearchSource>,
    /// The workspace to search, if not all.
    pub(crate) team: Option<TeamId>,
    /// The zone of the days in a query.
    pub(crate) zone: TimeZone,
}

/// What the search index knows about each channel.
pub(crate) struct IndexedActivity {
    pub(crate) by_location: BTreeMap<ChannelOfTeam, ChannelActivity>,
    /// A remark if the index is behind: there may be more messages.
    pub(crate) remark: Option<String>,
}

/// A query and its options.
#[derive(Clone)]
pub(crate) struct SearchOptions {
    pub(crate) query: SearchQuery,
    pub(crate) limit: usize,
    pub(crate) is_ranked: bool,
    pub(crate) with_deleted: bool,
    /// Only the hits after this position of an earlier answer.
    pub(crate) before: Option<i64>,
}

impl SearchSource {
    pub(crate) fn new(backend: &Backend, index: PathBuf, interval: Duration) -> Self {
        let (whole, changes, batch) = (backend.archive(), backend.changes(), super::batch(backend));
        Self { whole, changes, index, batch, interval, open: Mutex::default(), updated_at: Mutex::default() }
    }

    async fn index(&self) -> Result<SearchIndex, IndexError> {
        SearchIndex::current(&mut *self.open.lock().await, &self.index).await
    }

    /// Updates the index within a short time limit, unless it was just done. Returns a remark for this reader if
    /// the index is still behind.
    async fn update(&self, index: &SearchIndex, sight: &Sight) -> anyhow::Result<Option<String>> {
        // If another search updates it already, this one does not wait.
        let Ok(mut updated_at) = self.updated_at.try_lock() else { return Ok(None) };
        if updated_at.is_some_and(|at| at.elapsed() < self.interval) {
            return Ok(None);
        }
        let remark = catch_up(index, &*self.changes, &*self.whole, self.batch, sight).await?;
        *updated_at = remark.is_none().then(Instant::now);
        Ok(remark)
    }
}

impl SearchableArchive {
    /// The whole archive.
    pub(crate) fn new(backend: &Backend, index: PathBuf, team: Option<TeamId>, zone: &Zone) -> Self {
        let source = Arc::new(SearchSource::new(backend, index, Duration::ZERO));
        Self::for_reader(source, backend.archive(), Sight::Everything, team, zone)
    }

    /// The archive as a reader with this sight sees it.
    pub(crate) fn for_reader(
        source: Arc<SearchSource>,
        archive: Arc<dyn Archive>,
        sight: Sight,
        team: Option<TeamId>,
        zone: &Zone,
    ) -> Self {
        Self { archive, sight, source, team, zone: zone.time_zone().clone() }
    }

    /// Counts the messages of all channels, after bringing the index up to date: completely, or within a short
    /// time limit.
    pub(crate) async fn activity(&self, is_complete: bool) -> anyhow::Result<IndexedActivity> {
        let source = &*self.source;
        let index = source.index().await?;
        let remark = if is_complete {
            let (changes, whole) = (&*source.changes, &*source.whole);
            follower::catch_up(&index, changes, whole, follower::LARGE_BATCH_SIZE, |_| true).await?;
            None
        } else {
            source.update(&index, &self.sight).await?
        };
        Ok(IndexedActivity { by_location: index.activity().await?, remark })
    }

    /// Brings the index up to date within a short time limit, and searches. Returns the answer, and remarks
    /// for the user.
    /// A damaged index is made anew.
    pub(crate) async fn answer(&self, options: SearchOptions) -> anyhow::Result<(SearchAnswer, Vec<String>)> {
        match self.answer_once(options.clone()).await {
            Err(error) if is_damage(&error) => self.answer_once(options).await,
            answer => answer,
        }
    }

    async fn answer_once(&self, options: SearchOptions) -> anyhow::Result<(SearchAnswer, Vec<String>)> {
        let archive = &*self.archive;
        let index = self.source.index().await?;
        let mut remarks = Vec::from_iter(self.source.update(&index, &self.sight).await?);
        let SearchOptions { query, limit, is_ranked, with_deleted, before } = options;
        let teams = find::requested_teams(archive, self.team.as_ref()).await.map_err(UsageError::new)?;
        let zone = self.zone.clone();
        let request = SearchRequest {
            query,
            teams,
            zone,
            limit,
            is_ranked,
            with_deleted,
            before,
            hidden: self.sight.hidden().cloned().unwrap_or_default(),
        };
        let answer = match hits::search(archive, &index, request).await {
            Ok(answer) => answer,
            Err(hits::SearchError::Resolve(error)) if error.is_unknown_name() => {
                let hint = if error.to_string().ends_with('?') { "" } else { KNOWN_NAMES };
                return Err(UsageError::new(format!("{error}{hint}")).into());
            }
            Err(error) => return Err(error.into()),
        };
        if answer.is_truncated {
            remarks.push("only the newest messages were searched: add a word or a filter".to_owned());
        }
        Ok((answer, remarks))
    }
}

/// What to do about a name without a similar one.
const KNOWN_NAMES: &str = "; `annalist users` and `annalist channels` list those it knows";

/// Whether the search failed because the index is damaged.
fn is_damage(error: &anyhow::Error) -> bool {
    let searched = error.downcast_ref::<hits::SearchError>();
    let followed = error.downcast_ref::<follower::FollowError>();
    matches!(searched, Some(hits::SearchError::Index(error)) if error.is_damage())
        || matches!(followed, Some(follower::FollowError::Index(error)) if error.is_damage())
        || error.downcast_ref::<IndexError>().is_some_and(IndexError::is_damage)
}

/// Prints the hits.
pub(crate) async fn search(backend: &Backend, args: &SearchArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (query, zone) = (args.query()?, Zone::from_args(&args.zone));
    let index = super::index_file(&args.index, &args.backend)?;
    let searchable = SearchableArchive::new(backend, index, args.team.clone(), &zone);
    let limit = args.limit.get();
    let with_deleted = args.include_deleted;
    let options = SearchOptions { query, limit, is_ranked: args.rank, with_deleted, before: None };
    let (answer, remarks) = searchable.answer(options).await?;
    if args.json {
        print_json(&answer, out)?;
    } else {
        print(&answer, args, &zone, out)?;
    }
    remarks.iter().for_each(|remark| print_remark(remark));
    Ok(())
}

/// Prints the hits, one JSON object per line.
pub(crate) fn print_json(answer: &SearchAnswer, out: &mut dyn Write) -> io::Result<()> {
    answer.hits.iter().try_for_each(|hit| plain::json_line(out, &as_json(hit)))
}

/// Updates the index within the time limit, because a person is waiting. Returns a remark if the index is
/// still behind.
async fn catch_up(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    batch: usize,
    sight: &Sight,
) -> anyhow::Result<Option<String>> {
    match follower::catch_up_within(index, changes, archive, batch, CATCH_UP, CATCH_UP).await {
        Ok(true) => return Ok(None),
        Ok(false) => {}
        // A full disk, for example: what the index has can still be searched.
        Err(follower::FollowError::Index(error)) if !error.is_damage() => {
            return Ok(Some(format!("index is not brought up to date: {error}")));
        }
        Err(error) => return Err(error.into()),
    }
    let behind = changes.backlog_estimate(index.cursor().await?.as_ref()).await?;
    if behind == Some(0) {
        return Ok(None);
    }
    // The number counts messages of hidden channels too.
    let behind = behind.filter(|_| *sight == Sight::Everything);
    let behind = behind.map(|behind| plain::counted(behind, "message", "messages") + " ").unwrap_or_default();
    Ok(Some(format!("index is {behind}behind: `annalist index` brings it up to date")))
}

/// Prints a remark on standard error.
pub(crate) fn print_remark(text: &str) {
    // A failed write is ignored: there is nowhere else to report it.
    drop(writeln!(io::stderr(), "{text}"));
}

fn as_json(hit: &SearchHit) -> Value {
    let snippet: Vec<Value> = hit
        .snippet
        .iter()
        .map(|SnippetPart { text, is_match }| json!({ "text": text, "match": is_match }))
        .collect();
    let own_text = hit.message.text().filter(|text| !text.is_empty() && hit.canvas.is_none());
    let text = own_text.unwrap_or(&hit.text);
    let mut shown = json!({
        "team_id": hit.location.team.as_str(),
        "channel_id": hit.location.channel.as_str(),
        "channel_name": hit.channel_name,
        "ts": hit.ts.as_str(),
        "thread_ts": hit.thread_ts.as_ref().map(slack::ids::Ts::as_str),
        "time": rfc3339(&hit.ts),
        "user": hit.message.user(),
        "user_id": hit.message.user(),
        "user_name": hit.author,
        "text": text,
        "snippet": snippet,
        "permalink": hit.permalink,
        "deleted": hit.message.is_deleted(),
        "updated_ts": hit.message.updated_ts(),
    });
    if let Some(canvas) = &hit.canvas {
        shown["canvas"] = canvas.as_str().into();
    }
    shown
}

/// Returns the text before and after a match: control sequences for bold letters on a terminal, otherwise
/// asterisks.
fn marks() -> [&'static str; 2] {
    if io::stdout().is_terminal() && !config::wants_plain_text() {
        ["\u{1b}[1m", "\u{1b}[0m"]
    } else {
        ["*", "*"]
    }
}

fn print(answer: &SearchAnswer, args: &SearchArgs, zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    let hits = &answer.hits;
    if hits.is_empty() {
        return writeln!(out, "Nothing was found.");
    }
    let [start, end] = marks();
    writeln!(out, "Times are in {}.", zone.name())?;
    for hit in hits {
        let channel = plain::channel_label(hit.channel_name.as_deref(), &hit.location.channel, 80);
        let is_reply = hit.thread_ts.as_ref().is_some_and(|root| *root != hit.ts);
        let states = [
            (hit.is_private, " (private)"),
            (is_reply, " (in a thread)"),
            (hit.message.is_edited(), " (edited)"),
            (hit.message.is_deleted(), " (deleted)"),
            (hit.canvas.is_some(), " (canvas)"),
        ];
        let states: String = states.iter().filter(|(is_set, _)| *is_set).map(|(_, state)| *state).collect();
        writeln!(out, "{}  {channel}  {}{states}", zone.time(hit.ts.as_str()), hit.author)?;
        if hit.canvas.is_some() {
            writeln!(out, "    {}", plain::excerpt(&hit.text, 120))?;
        }
        let snippet: String = hit
            .snippet
            .iter()
            .map(|part| if part.is_match { format!("{start}{}{end}", part.text) } else { part.text.clone() })
            .collect();
        if !snippet.is_empty() {
            writeln!(out, "    {snippet}")?;
        }
        writeln!(out, "    {}", hit.permalink)?;
    }
    let order = if args.rank { "best" } else { "newest" };
    if hits.len() >= args.limit.get() {
        writeln!(out, "The {order} {}: --limit shows more.", plain::grouped(hits.len() as u64))
    } else {
        writeln!(out, "{}.", plain::counted(hits.len(), "message", "messages"))
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::ArchiveExt;

    use super::*;
    use crate::fixture::{CliFixture, output, parsed};

    #[tokio::test]
    async fn a_hit_in_a_channel_that_is_private_now_is_marked() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "general").await;
        fixture.post("T1", "C1", "1700000000.000100", "a word").await;
        let args = SearchArgs { backend: fixture.data(), ..parsed(&["word", "--tz", "UTC"]).unwrap() };
        let run_search =
            async || output(async |out| search(&fixture.backend, &args, out).await).await.unwrap();
        let public = run_search().await;
        assert!(public.contains("2023-11-14 22:13:20  #general  U1\n"), "{public}");
        let made_private = ("purpose", "none");
        fixture
            .channel_notice("T1", "C1", "1700000009.000100", "channel_convert_to_private", made_private)
            .await;
        let private = run_search().await;
        assert!(private.contains("2023-11-14 22:13:20  #general  U1 (private)\n"), "{private}");
    }

    #[tokio::test]
    async fn a_hit_in_a_canvas_shows_its_name_and_its_words() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "general").await;
        fixture.post("T1", "C1", "1700000000.000100", "look").await;
        let share = ("C1", "1700000000.000100");
        for update in testkit::canvas::version(share, "F1", "Launch plan", 1, "rockets fly").1 {
            fixture.archive().write(&update).await.unwrap();
        }
        let link = "https://slack.com/docs/T1/F1";
        let shown = format!("  #general  U1 (canvas)\n    Launch plan\n    *rockets* fly\n    {link}\n");
        for (json, expected) in [(false, shown.as_str()), (true, "\"text\":\"Launch plan\"")] {
            let args = parsed(&["rockets", "--tz", "UTC"]).unwrap();
            let args = SearchArgs { backend: fixture.data(), json, ..args };
            let found = output(async |out| search(&fixture.backend, &args, out).await).await.unwrap();
            assert!(found.contains(expected), "{found}");
            assert!(!json || found.contains("\"canvas\":\"F1\""), "{found}");
        }
    }

    #[test]
    fn a_minus_sign_after_search_is_not_a_flag() {
        let marked = |arguments: &[&str]| -> Vec<String> {
            mark_negations(arguments.iter().map(OsString::from))
                .map(|text| text.into_string().unwrap())
                .collect()
        };
        assert_eq!(
            marked(&["search", "deploy", "-draft", "--json", "-h", "-"]),
            ["search", "deploy", "\u{2060}-draft", "--json", "-h", "-"]
        );
        assert_eq!(marked(&["messages", "-x"]), ["messages", "-x"]);
    }
}
