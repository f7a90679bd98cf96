//! What the backend is asked. Nothing is made and nothing is changed.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use embedded::OpenError;
use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use ports::clock::SystemClock;
use process::config::backend::{Backend, BackendArgs, BackendError};
use rules::gap::Reason;
use rules::gap::closing::GapState;
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::facts::{ArchiveFacts, Gaps, NewestMessage, Unopened, within};
use crate::operate::status::{self, Status};

/// What a part of the backend may take to answer: as long as AWS's own retries go on for a row.
const TIMEOUT: Duration = Duration::from_secs(12);

/// A database of some hundred megabytes is looked through in this time, a larger one is not.
const INTEGRITY_TIMEOUT: Duration = Duration::from_secs(3);

/// Channels whose newest message is asked for: a row each.
const MAX_CHANNELS: usize = 2_000;

/// Concurrent reads: SQLite has four readers, DynamoDB answers in milliseconds.
const READS_AT_ONCE: usize = 16;

pub(super) async fn look(args: &BackendArgs) -> Result<ArchiveFacts, Unopened> {
    let backend = match timeout(TIMEOUT, Backend::open_existing(args, SystemClock::shared())).await {
        Ok(Ok(backend)) => backend,
        Ok(Err(BackendError::Embedded(missing @ OpenError::Missing(_)))) => {
            return Err(Unopened::Missing(missing.to_string()));
        }
        Ok(Err(error)) => return Err(Unopened::Unusable(error.to_string())),
        Err(_) => return Err(Unopened::Unusable(format!("no answer in {} s", TIMEOUT.as_secs()))),
    };
    let archive_facts = look_into(&backend).await;
    // A client that cannot write cannot wait for its writes either.
    drop(timeout(TIMEOUT, backend.close()).await);
    Ok(archive_facts)
}

async fn look_into(backend: &Backend) -> ArchiveFacts {
    let (queue, archive, files) = (backend.queue(), backend.archive(), backend.files());
    let read = || within(TIMEOUT, status::read(&*queue, &*archive));
    let ports = vec![
        ("queue", within(TIMEOUT, queue.ready()).await),
        ("archive", within(TIMEOUT, archive.ready()).await),
        ("files", within(TIMEOUT, files.ready()).await),
    ];
    let status = read().await;
    let lag = queue.depth_lag();
    let later = if !lag.is_zero() && status.as_ref().is_ok_and(waits) {
        // SQS does not report the age of a message: only a second look distinguishes a queue that is drained from one that is stuck.
        if io::stderr().is_terminal() {
            let lag_s = lag.as_secs();
            // Ignore a write error: there is nowhere left to report it.
            drop(writeln!(
                io::stderr(),
                "Jobs wait. Their counts may lag, so they are read again in {lag_s} s."
            ));
        }
        tokio::time::sleep(lag).await;
        Some(read().await)
    } else {
        None
    };
    ArchiveFacts {
        ports,
        newest: within(TIMEOUT, newest_message(Arc::clone(&archive))).await,
        status,
        later,
        in_use: backend.folder().and_then(|folder| folder.is_used_by_others().ok()),
        gaps: within(TIMEOUT, gaps(&*archive)).await,
        integrity: match backend.folder() {
            Some(folder) => Some(folder.integrity(INTEGRITY_TIMEOUT).await),
            None => None,
        },
    }
}

/// Whether anything waits for a worker.
fn waits(status: &Status) -> bool {
    status.queues.iter().any(|queue| queue.waiting > 0)
}

/// The newest message of every channel that may be kept, and of these the newest: no row says when the last event came,
/// since writing one with each event would cost as much as the event.
async fn newest_message(archive: Arc<dyn Archive>) -> Result<NewestMessage, ArchiveError> {
    let mut partitions = Vec::new();
    for team in teams(&*archive).await? {
        let marks = archive.query(&Query::partition(key::public_marks(&team))).await?;
        let channels = marks.items.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
        partitions.extend(channels.map(|channel| key::messages(&team, &channel)));
    }
    partitions.truncate(MAX_CHANNELS);
    let channels = partitions.len();
    let mut newest = None;
    let mut reads = JoinSet::new();
    for partition in partitions {
        if reads.len() == READS_AT_ONCE
            && let Some(Ok(read)) = reads.join_next().await
        {
            newest = newest.max(read?);
        }
        let archive = Arc::clone(&archive);
        reads.spawn(async move {
            let query = Query { descending: true, limit: 1, ..Query::partition(partition) };
            let page = archive.query(&query).await?;
            Ok::<_, ArchiveError>(page.items.first().and_then(|item| seconds(&item.key.timestamp)))
        });
    }
    while let Some(read) = reads.join_next().await {
        if let Ok(read) = read {
            newest = newest.max(read?);
        }
    }
    Ok(NewestMessage { ts_s: newest, channels })
}

async fn teams(archive: &dyn Archive) -> Result<Vec<TeamId>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::TEAMS)).await?;
    Ok(rows.iter().filter_map(|row| TeamId::parse(&row.key.timestamp).ok()).collect())
}

async fn gaps(archive: &dyn Archive) -> Result<Gaps, ArchiveError> {
    let gaps = reader::gaps::progress_of_all(archive).await?;
    let of = |state: GapState| gaps.iter().map(|(_, gap)| gap).filter(move |gap| gap.state == state);
    let newest = of(GapState::Open).next_back().or_else(|| of(GapState::Missing).next_back());
    let refused = gaps.iter().rfind(|(_, gap)| gap.gap.reason == Reason::Refused);
    Ok(Gaps {
        open: of(GapState::Open).count(),
        missing: of(GapState::Missing).count(),
        filled: of(GapState::Filled).count(),
        lost: of(GapState::Lost).count(),
        newest: newest.map(|newest| newest.gap.clone()),
        refused: refused.map(|(_, refused)| refused.gap.clone()),
        has_history: has_history(archive).await?,
    })
}

/// Whether anything was ever read of Slack's history, or of an export.
async fn has_history(archive: &dyn Archive) -> Result<bool, ArchiveError> {
    for team in teams(archive).await? {
        let any = Query { limit: 1, ..Query::partition(key::filled(&team)) };
        if !archive.query(&any).await?.items.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn seconds(ts: &str) -> Option<i64> {
    Some(Ts::parse(ts).ok()?.micros() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::CliFixture;

    #[tokio::test]
    async fn the_newest_message_of_all_channels_counts() {
        let fixture = CliFixture::open().await;
        let newest = async || newest_message(fixture.backend.archive()).await.unwrap();
        assert_eq!(newest().await, NewestMessage { ts_s: None, channels: 0 });
        for (team, channel, ts) in [
            ("T1", "C1", "1700000000.000100"),
            ("T1", "C2", "1700000300.000100"),
            ("T1", "C2", "1700000200.000100"),
            ("T2", "C3", "1700000100.000100"),
        ] {
            fixture.post(team, channel, ts, "text").await;
        }
        assert_eq!(newest().await, NewestMessage { ts_s: Some(1_700_000_300), channels: 3 });
    }

    #[tokio::test]
    async fn of_the_gaps_that_go_on_the_one_that_began_last_is_told_and_else_the_last_of_all() {
        let fixture = CliFixture::open().await;
        assert_eq!(gaps(fixture.archive()).await.unwrap(), Gaps::default());
        let told = async || {
            let Gaps { open, missing, newest, .. } = gaps(fixture.archive()).await.unwrap();
            let newest = newest.unwrap();
            (open + missing, open, newest.channel.unwrap().to_string(), newest.from.to_string())
        };
        fixture.channel_event("T1", "channel_left", "C9", "1700000100.000000").await;
        fixture.channel_event("T1", "channel_left", "C1", "1700000200.000000").await;
        assert_eq!(told().await, (2, 2, "C1".into(), "1700000200.000000".into()));
        fixture.post("T1", "C1", "1700000300.000100", "back").await;
        assert_eq!(told().await, (2, 1, "C9".into(), "1700000100.000000".into()));
        fixture.post("T1", "C9", "1700000150.000100", "back").await;
        assert_eq!(told().await, (2, 0, "C1".into(), "1700000200.000000".into()));
    }

    #[tokio::test]
    async fn an_archive_that_is_not_there_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let Some(Unopened::Missing(why)) = look(&BackendArgs::embedded(folder.path())).await.err() else {
            panic!("it is not missing");
        };
        assert!(why.contains("holds no archive") && !why.contains('\n'), "{why}");
    }
}
