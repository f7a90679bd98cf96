//! One sync of one workspace.

use std::borrow::Cow;

use metrics::counter;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Update, WriteOutcome};
use ports::metrics::{DIRECTORY_SKIPPED, DIRECTORY_SYNCS};
use reader::directory;
use rules::{MAX_NAME_BYTES, workspace};
use serde::Deserialize;
use slack::envelope::text_or_none;
use slack::ids::{TeamId, Ts};
use slack_api::{ApiError, Method};

use super::listing::call_with_retries;
use super::{DirectorySync, SyncError, SyncReport};
use crate::admission::Entity;

/// Slack's error code for a call that needs a scope the app lacks.
pub(super) const MISSING_SCOPE: &str = "missing_scope";

impl DirectorySync {
    /// Syncs the current directory of a workspace. The report contains the failure, if any, and everything
    /// found before it.
    ///
    /// Everything listed becomes an event with Slack's clock before the list was requested: every later
    /// change wins.
    pub async fn sync(&self, team: &TeamId) -> SyncReport {
        let mut report = SyncReport::new(team.clone());
        report.failure = self.sync_parts(&mut report).await.err();
        counter!(DIRECTORY_SYNCS, "outcome" => if report.failure.is_some() { "failed" } else { "ok" })
            .increment(1);
        let kinds = [
            ("channels", &report.channels),
            ("people", &report.people),
            ("emoji", &report.emoji),
            ("usergroups", &report.user_groups),
            ("bookmarks", &report.bookmarks),
            ("members", &report.members),
        ];
        for (kind, counts) in kinds.into_iter().filter(|(_, counts)| counts.skipped > 0) {
            counter!(DIRECTORY_SKIPPED, "kind" => kind).increment(counts.skipped as u64);
        }
        log(&report);
        report
    }

    async fn sync_parts(&self, report: &mut SyncReport) -> Result<(), SyncError> {
        let team = report.team.clone();
        let reply = call_with_retries(&self.api, &team, Method::AuthTest, &[]).await?;
        let mut clock = reply.date().ok_or(SyncError::NoDate)?.clone();
        report.began_at = Some(clock.clone());
        let identity: WorkspaceIdentity<'_> = reply.read()?;
        report.team_name = identity.team.filter(|name| is_shown(name)).map(Cow::into_owned);
        // Readers find the workspace without scanning.
        self.marks.note_team(&*self.archive, &team, None).await?;
        self.note_workspace(report.team_name.as_deref(), identity.url.as_deref(), &team, &clock).await?;
        if let Some(known) = &self.known {
            known.found(Entity::Team(team.clone()), None);
        }

        let channels = self.sync_public_channels(&mut clock, report).await;
        let mut failure = record_missing_scope(channels, "channels:read", report)?;
        let people = self.sync_people(&mut clock, report).await;
        failure = failure.or(record_missing_scope(people, "users:read", report)?);
        let emoji = self.sync_emoji(&mut clock, report).await;
        failure = failure.or(record_missing_scope(emoji, "emoji:read", report)?);
        let organisations = self.sync_organisations(&mut clock, report).await;
        failure = failure.or(record_missing_scope(organisations, "team:read", report)?);
        let pins = self.sync_pins(&clock, report).await;
        failure = failure.or(record_missing_scope(pins, "pins:read", report)?);
        let user_groups = self.sync_user_groups(&mut clock, report).await;
        failure = failure.or(record_missing_scope(user_groups, "usergroups:read", report)?);
        let members = self.sync_members(&mut clock, report).await;
        failure = failure.or(record_missing_scope(members, "groups:read", report)?);
        let daily = self.sync_daily(&mut clock, report).await;
        failure = failure.or(record_missing_scope(daily, "bookmarks:read", report)?);
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.pictures.mark_caught_up(&team);
        self.archive.write(&report.row(&clock)).await?;
        Ok(())
    }

    /// Stores the workspace's name and address if they differ from the stored ones.
    async fn note_workspace(
        &self,
        name: Option<&str>,
        url: Option<&str>,
        team: &TeamId,
        clock: &Ts,
    ) -> Result<(), SyncError> {
        let stored = directory::read_workspace_facts(&*self.archive, team).await?;
        let name = name.filter(|name| stored.name.as_deref() != Some(name));
        let address =
            url.and_then(workspace::address).filter(|address| stored.base_url.as_ref() != Some(address));
        let name = name.and_then(|name| workspace::name_update(team, name, clock).ok());
        let address = address.map(|address| workspace::address_update(team, &address, clock));
        for update in name.into_iter().chain(address) {
            self.archive.write(&update).await?;
        }
        Ok(())
    }
}

/// Records a missing scope in the report: its part is skipped, which is not a failure. Returns any other
/// failure of the part as a value, so that the other parts still run, unless they would fail in the same way.
fn record_missing_scope(
    part: Result<(), SyncError>,
    scope: &str,
    report: &mut SyncReport,
) -> Result<Option<SyncError>, SyncError> {
    match part {
        Ok(()) => Ok(None),
        Err(SyncError::Api(ApiError::Refused { error, needed, .. })) if error == MISSING_SCOPE => {
            report.missing_scopes.insert(needed.unwrap_or_else(|| scope.to_owned()));
            Ok(None)
        }
        Err(error) if error.is_final() => Err(error),
        Err(error) => Ok(Some(error)),
    }
}

fn is_shown(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(char::is_control)
}

/// The result of many updates.
pub(super) struct UpdateCounts {
    /// Entries that changed.
    pub(super) changed: usize,
    /// Entries that are too large for the archive.
    pub(super) too_large: usize,
}

/// Writes the updates of many entries together.
pub(super) async fn write(
    archive: &dyn Archive,
    entries: &[Vec<Update>],
) -> Result<UpdateCounts, ArchiveError> {
    let updates: Vec<&Update> = entries.iter().flatten().collect();
    let mut outcomes = archive.write_all(&updates).await.into_iter();
    let mut written = UpdateCounts { changed: 0, too_large: 0 };
    for entry in entries {
        let (mut changed, mut too_large) = (false, false);
        for outcome in outcomes.by_ref().take(entry.len()) {
            match outcome {
                Ok(outcome) => changed |= outcome == WriteOutcome::Applied,
                Err(ArchiveError::TooLarge { .. }) => too_large = true,
                Err(error @ ArchiveError::Unavailable(_)) => return Err(error),
            }
        }
        written.changed += usize::from(changed);
        written.too_large += usize::from(too_large);
    }
    Ok(written)
}

/// Logs one line, and a second one if entries were skipped.
fn log(report: &SyncReport) {
    let SyncReport {
        team,
        channels,
        people,
        emoji,
        user_groups,
        bookmarks,
        members,
        missing_scopes,
        failure,
        ..
    } = report;
    if report.unlisted_private > 0 {
        tracing::warn!(
            %team,
            channels = report.unlisted_private,
            "Slack does not list the members of some private channels: invite the app to them"
        );
    }
    if report.skipped() > 0 {
        let first = report.first_skipped.as_ref().map(ToString::to_string);
        tracing::warn!(
            %team,
            channels = channels.skipped,
            people = people.skipped,
            emoji = emoji.skipped,
            user_groups = user_groups.skipped,
            bookmarks = bookmarks.skipped,
            first,
            "some directory entries were skipped"
        );
    }
    match failure {
        None => tracing::info!(
            %team,
            channels = channels.listed,
            people = people.listed,
            emoji = emoji.listed,
            user_groups = user_groups.listed,
            bookmarks = bookmarks.listed,
            members = members.listed,
            changed = channels.changed + people.changed + emoji.changed + user_groups.changed + bookmarks.changed + members.changed,
            ?missing_scopes,
            "the directory is synced"
        ),
        Some(error) => tracing::warn!(%team, %error, "the directory could not be synced"),
    }
}

#[derive(Deserialize)]
struct WorkspaceIdentity<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    url: Option<Cow<'a, str>>,
}
