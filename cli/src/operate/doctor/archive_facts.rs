//! Gathers facts from the backend. Creates and changes nothing.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use embedded::OpenError;
use ports::archive::{Archive, ArchiveError, Query, key};
use ports::clock::SystemClock;
use process::config::backend::{Backend, BackendArgs, BackendError};
use reader::{find, workspaces};
use rules::gap::GapReason;
use rules::gap::closing::GapState;
use rules::schedule::AppState;
use slack::ids::{AppId, ChannelId, Ts};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::facts::{ArchiveFacts, Gaps, NewestMessage, Unopened, within};
use super::{unmoved, unnamed};
use crate::operate::status::{self, Status};

/// Timeout for an answer of one part of the backend: as long as the AWS client retries for a row.
const TIMEOUT: Duration = Duration::from_secs(12);

/// Time limit of the integrity check, which is enough for a database of some hundred megabytes.
const INTEGRITY_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of channels whose newest message is read. Each costs one row.
const MAX_CHANNELS: usize = 2_000;

/// Maximum number of concurrent reads: SQLite has four readers, DynamoDB answers in milliseconds.
const MAX_CONCURRENT_READS: usize = 16;

pub(super) async fn gather(args: &BackendArgs) -> Result<ArchiveFacts, Unopened> {
    let backend = match timeout(TIMEOUT, Backend::open_existing(args, SystemClock::shared())).await {
        Ok(Ok(backend)) => backend,
        Ok(Err(BackendError::Embedded(missing @ OpenError::Missing(_)))) => {
            return Err(Unopened::Missing(missing.to_string()));
        }
        Ok(Err(error)) => return Err(Unopened::Unusable(error.to_string())),
        Err(_) => return Err(Unopened::Unusable(format!("no answer in {} s", TIMEOUT.as_secs()))),
    };
    let archive_facts = gather_from(&backend, args).await;
    // The timeout also applies here: a client that cannot write cannot finish its pending writes either.
    drop(timeout(TIMEOUT, backend.close()).await);
    Ok(archive_facts)
}

async fn gather_from(backend: &Backend, args: &BackendArgs) -> ArchiveFacts {
    let (queue, archive, files) = (backend.queue(), backend.archive(), backend.files());
    let read = || within(TIMEOUT, status::read(&*queue, &*archive));
    let ports = vec![
        ("queue", within(TIMEOUT, queue.ready()).await),
        ("archive", within(TIMEOUT, archive.ready()).await),
        ("files", within(TIMEOUT, files.ready()).await),
    ];
    let status = read().await;
    let lag = queue.depth_lag();
    let later = if !lag.is_zero() && status.as_ref().is_ok_and(has_waiting_jobs) {
        // SQS does not report the age of a message: only a second read distinguishes a queue that drains from
        // one that is stuck.
        if io::stderr().is_terminal() {
            let lag_s = lag.as_secs();
            // Ignore a write error: there is nowhere left to report it.
            drop(writeln!(
                io::stderr(),
                "Jobs are waiting. Their counts may lag, so they are read again in {lag_s} s."
            ));
        }
        tokio::time::sleep(lag).await;
        Some(read().await)
    } else {
        None
    };
    ArchiveFacts {
        unnamed: within(TIMEOUT, unnamed::find(&*archive, &*files)).await,
        unmoved: match (backend.database(), &args.files_in) {
            (Some(database), Some(place)) => {
                Some(within(TIMEOUT, unmoved::count(&*database.files(), place.to_string())).await)
            }
            _ => None,
        },
        ports,
        newest: within(TIMEOUT, newest_message(Arc::clone(&archive))).await,
        apps: within(TIMEOUT, apps(&*archive)).await,
        status,
        later,
        in_use: backend.database().and_then(|folder| folder.is_used_by_others().ok()),
        gaps: within(TIMEOUT, gaps(&*archive)).await,
        integrity: match backend.database() {
            Some(folder) => Some(folder.integrity(INTEGRITY_TIMEOUT).await),
            None => None,
        },
    }
}

/// Whether any queue has waiting jobs.
fn has_waiting_jobs(status: &Status) -> bool {
    status.queues.iter().any(|queue| queue.waiting > 0)
}

/// Returns the newest message of all channels that may be kept. No row contains the time of the last event,
/// because writing it with each event would cost as much as the event.
async fn newest_message(archive: Arc<dyn Archive>) -> Result<NewestMessage, ArchiveError> {
    let mut partitions = Vec::new();
    for team in find::teams(&*archive).await? {
        let marks = archive.query(&Query::partition(key::public_marks(&team))).await?;
        let channels = marks.items.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
        partitions.extend(channels.map(|channel| key::messages(&team, &channel)));
    }
    partitions.truncate(MAX_CHANNELS);
    let channels = partitions.len();
    let mut newest = None;
    let mut reads = JoinSet::new();
    for partition in partitions {
        if reads.len() == MAX_CONCURRENT_READS
            && let Some(Ok(read)) = reads.join_next().await
        {
            newest = newest.max(read?);
        }
        let archive = Arc::clone(&archive);
        reads.spawn(async move {
            let last = ports::archive::newest(&*archive, partition).await?;
            Ok::<_, ArchiveError>(last.and_then(|item| seconds(&item.key.timestamp)))
        });
    }
    while let Some(read) = reads.join_next().await {
        if let Ok(read) = read {
            newest = newest.max(read?);
        }
    }
    Ok(NewestMessage { ts_s: newest, channels })
}

/// When each app sent its last event. An app that was uninstalled sends none.
async fn apps(archive: &dyn Archive) -> Result<BTreeMap<AppId, i64>, ArchiveError> {
    let mut apps = BTreeMap::new();
    for row in workspaces::read(archive).await? {
        let last = workspaces::last_event(archive, &row).await?;
        if let (Some(app), Some([_, latest]), false) = (&row.app, last, row.state == AppState::Uninstalled) {
            let latest_s = latest.micros() / 1_000_000;
            apps.entry(app.app.clone())
                .and_modify(|last_s: &mut i64| *last_s = latest_s.max(*last_s))
                .or_insert(latest_s);
        }
    }
    Ok(apps)
}

async fn gaps(archive: &dyn Archive) -> Result<Gaps, ArchiveError> {
    let gaps = reader::gaps::progress_of_all(archive).await?;
    let in_state = |state: GapState| gaps.iter().map(|(_, gap)| gap).filter(move |gap| gap.state == state);
    let newest = in_state(GapState::Open).next_back().or_else(|| in_state(GapState::Missing).next_back());
    let refused = gaps.iter().rfind(|(_, gap)| gap.gap.reason == GapReason::Refused);
    Ok(Gaps {
        open: in_state(GapState::Open).count(),
        missing: in_state(GapState::Missing).count(),
        filled: in_state(GapState::Filled).count(),
        lost: in_state(GapState::Lost).count(),
        newest: newest.map(|newest| newest.gap.clone()),
        refused: refused.map(|(_, refused)| refused.gap.clone()),
        has_history: has_history(archive).await?,
    })
}

/// Whether any part of Slack's history or of an export was ever read.
async fn has_history(archive: &dyn Archive) -> Result<bool, ArchiveError> {
    for team in find::teams(archive).await? {
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
    use ports::archive::ArchiveExt;
    use slack::ids::TeamId;

    use super::*;
    use crate::fixture::CliFixture;

    #[tokio::test]
    async fn the_newest_message_is_found_across_all_channels() {
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
    async fn the_last_event_of_an_app_is_the_last_of_all_its_workspaces_that_still_have_it() {
        let fixture = CliFixture::open().await;
        assert_eq!(apps(fixture.archive()).await.unwrap(), BTreeMap::new());
        fixture.post("T1", "C1", "1700000000.000100", "text").await;
        fixture.post("T2", "C1", "1699900000.000100", "text").await;
        let app = AppId::parse("A0ANNALIST").unwrap();
        // Only the day is known: at the latest, it was at its end.
        let end = |day: i64| (day + 1) * 86_400 - 1;
        assert_eq!(apps(fixture.archive()).await.unwrap(), [(app.clone(), end(19_675))].into());
        let clock = Ts::parse("1700000001.000000").unwrap();
        let team = TeamId::parse("T1").unwrap();
        let uninstalled = AppState::Uninstalled.update(&team, &clock, "app_uninstalled");
        fixture.archive().write(&uninstalled).await.unwrap();
        assert_eq!(apps(fixture.archive()).await.unwrap(), [(app, end(19_674))].into());
    }

    #[tokio::test]
    async fn the_newest_gap_is_the_last_open_one_or_otherwise_the_last_missing_one() {
        let fixture = CliFixture::open().await;
        assert_eq!(gaps(fixture.archive()).await.unwrap(), Gaps::default());
        let newest_gap = async || {
            let Gaps { open, missing, newest, .. } = gaps(fixture.archive()).await.unwrap();
            let newest = newest.unwrap();
            (open + missing, open, newest.channel.unwrap().to_string(), newest.from.to_string())
        };
        fixture.channel_event("T1", "channel_left", "C9", "1700000100.000000").await;
        fixture.channel_event("T1", "channel_left", "C1", "1700000200.000000").await;
        assert_eq!(newest_gap().await, (2, 2, "C1".into(), "1700000200.000000".into()));
        fixture.post("T1", "C1", "1700000300.000100", "back").await;
        assert_eq!(newest_gap().await, (2, 1, "C9".into(), "1700000100.000000".into()));
        fixture.post("T1", "C9", "1700000150.000100", "back").await;
        assert_eq!(newest_gap().await, (2, 0, "C1".into(), "1700000200.000000".into()));
    }

    #[tokio::test]
    async fn a_missing_archive_is_a_one_line_error() {
        let folder = tempfile::tempdir().unwrap();
        let Some(Unopened::Missing(why)) = gather(&BackendArgs::embedded(folder.path())).await.err() else {
            panic!("the archive is not missing");
        };
        assert!(why.contains("holds no archive") && !why.contains('\n'), "{why}");
    }
}
