//! The result of a sync, and why it stopped.

use std::collections::BTreeSet;

use ports::archive::{ArchiveError, Attributes, Guard, ItemKey, Update, text_attributes};
use ports::queue::QueueError;
use rules::Malformed;
use rules::figures::person::AuthorKind;
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::{ApiError, Method};

/// The result of a sync of one workspace.
#[derive(Debug)]
pub struct SyncReport {
    pub team: TeamId,
    /// When it began, by Slack's clock; `None` if Slack did not accept the token.
    pub began_at: Option<Ts>,
    /// Its name in Slack.
    pub team_name: Option<String>,
    /// Its public channels.
    pub channels: SyncCounts,
    pub people: SyncCounts,
    pub accounts: AccountCounts,
    /// Its custom emoji.
    pub emoji: SyncCounts,
    pub user_groups: SyncCounts,
    /// The bookmarks of the channels that this sync read.
    pub bookmarks: SyncCounts,
    /// The lists of members that this sync read. Those of channels that Slack does not show are skipped.
    pub members: SyncCounts,
    /// The number of channels that are private now and whose members Slack does not list.
    pub unlisted_private: usize,
    /// Scopes the app lacks: the data they cover was skipped.
    pub missing_scopes: BTreeSet<String>,
    /// Public channels the app is in.
    pub joined: Vec<ChannelId>,
    /// Public channels the app is not in and could join.
    pub to_join: Vec<ChannelId>,
    /// The error that stopped the sync. Everything found before it is stored.
    pub failure: Option<SyncError>,
    /// The first skipped entry, as an error.
    pub first_skipped: Option<Malformed>,
}

/// The counts of one kind of entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Listed by Slack.
    pub listed: usize,
    /// New, or changed since they were last seen.
    pub changed: usize,
    /// Skipped: something in them is missing or malformed.
    pub skipped: usize,
}

/// The number of accounts of a workspace, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccountCounts {
    /// All accounts of this workspace.
    pub all: usize,
    /// Accounts of people who can post today.
    pub active: usize,
    /// Accounts of apps.
    pub bots: usize,
    /// Deactivated accounts.
    pub deleted: usize,
}

impl AccountCounts {
    pub(super) fn add(&mut self, kind: AuthorKind) {
        self.all += usize::from(kind.is_of_workspace());
        self.active += usize::from(kind.is_active());
        self.bots += usize::from(kind == AuthorKind::Bot);
        self.deleted += usize::from(kind == AuthorKind::Deleted);
    }
}

/// The error that stopped a sync.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// Slack did not answer, or refused.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The pages of a list do not end.
    #[error("the pages of {} repeat or never end", .0.name())]
    Endless(Method),
    /// Slack's clock is unknown.
    #[error("Slack's answers have no usable Date header: without Slack's clock changes cannot be ordered")]
    NoDate,
    /// The archive could not be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Pictures to be fetched could not be queued.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl SyncError {
    /// Whether the rest of the sync would fail for the same reason.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Api(ApiError::Refused { .. } | ApiError::Garbled { .. }) | Self::Endless(_) => false,
            Self::Api(
                ApiError::NoToken(_)
                | ApiError::WrongToken { .. }
                | ApiError::RateLimited { .. }
                | ApiError::Unreachable { .. },
            )
            | Self::NoDate
            | Self::Archive(_)
            | Self::Queue(_) => true,
        }
    }
}

impl SyncReport {
    /// A report on a workspace before its sync.
    pub fn new(team: TeamId) -> Self {
        Self {
            team,
            began_at: None,
            team_name: None,
            channels: SyncCounts::default(),
            people: SyncCounts::default(),
            accounts: AccountCounts::default(),
            emoji: SyncCounts::default(),
            user_groups: SyncCounts::default(),
            bookmarks: SyncCounts::default(),
            members: SyncCounts::default(),
            unlisted_private: 0,
            missing_scopes: BTreeSet::new(),
            joined: Vec::new(),
            to_join: Vec::new(),
            failure: None,
            first_skipped: None,
        }
    }

    /// The number of skipped entries.
    pub fn skipped(&self) -> usize {
        let kinds = [self.channels, self.people, self.emoji, self.user_groups, self.bookmarks];
        kinds.iter().map(|counts| counts.skipped).sum()
    }

    /// The row of this report; `clock` is Slack's.
    pub(super) fn row(&self, clock: &Ts) -> Update {
        let mut set = Attributes::new();
        set.insert("synced_ts".into(), clock.as_str().into());
        set.extend(self.team_name.as_ref().map(|name| ("team_name".to_owned(), name.as_str().into())));
        let counts = [
            ("channels", self.channels.listed),
            ("users", self.people.listed),
            ("all_users", self.accounts.all),
            ("active_users", self.accounts.active),
            ("bots", self.accounts.bots),
            ("deleted_users", self.accounts.deleted),
            ("emoji", self.emoji.listed),
            ("skipped", self.skipped()),
            ("unlisted_private", self.unlisted_private),
        ];
        set.extend(counts.map(|(name, count)| (name.to_owned(), count.into())));
        if !self.missing_scopes.is_empty() {
            set.insert("missing_scopes".into(), self.missing_scopes.iter().cloned().collect());
        }
        let optional = ["team_name", "missing_scopes"];
        Update {
            guard: Guard::Greater { register: "version".into(), version: clock.padded() },
            remove: optional.into_iter().filter(|name| !set.contains_key(*name)).collect(),
            set,
            set_if_absent: text_attributes([("type", "sync"), ("team_id", self.team.as_str())]),
            ..Update::new(ItemKey::directory_sync(&self.team))
        }
    }
}
