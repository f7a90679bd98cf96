//! The state that the handlers share, and the archive that each reader gets.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use ports::archive::Archive;
use ports::clock::SharedClock;
use ports::files::Files;
use reader::access::{PrivateChannels, Reader, Sight, VisibleArchive};
use slack::ids::{TeamId, UserId};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::access::Access;
use crate::access::identity::{Admissions, RequestIdentity};
use crate::answer::PageError;
use crate::cached_value::CachedValue;
use crate::gather;
use crate::gather::pictures::EmojiBook;
use crate::index::{ChannelActivities, FreshIndex, IndexSource};
use crate::live_feed::LiveFeed;
use crate::page_thread::{MAX_CONCURRENT_PAGES, PAGE_TIMEOUT, on_page_thread};
use crate::pages::sidebar::ChannelMenu;
use crate::wrong_guesses::WrongGuesses;

/// Maximum age of what is read of every channel: the menu, and which channels are private. It needs a query per
/// channel, so the longer age applies to remote archives, which are polled less often.
const CHANNELS_AGE: Duration = Duration::from_secs(2);
const LONG_CHANNELS_AGE: Duration = Duration::from_secs(60);

/// The dependencies and settings of the pages.
pub struct Viewer {
    /// The archive, which is only read.
    pub archive: Arc<dyn Archive>,
    /// The file store.
    pub files: Arc<dyn Files>,
    /// The search index.
    pub index: IndexSource,
    pub clock: SharedClock,
    /// The time zone of times and days.
    pub zone: TimeZone,
    /// The access control.
    pub access: Access,
    /// Whether every reader sees the channels that were public and are private now, and not only their members.
    pub is_private_for_all: bool,
    /// Whether pages of channels show new messages while they are open. It reads the changes twice a second, which
    /// costs money on AWS.
    pub has_live: bool,
    /// Whether the log says who reads what.
    pub logs_access: bool,
    /// Routes for programs, below `/api/` and at `/mcp`. Their requests have a [`Reader`] and a
    /// [`ReaderArchive`](crate::ReaderArchive) in their extensions.
    pub programs: Router,
}

/// The state that the handlers share.
pub(crate) struct ViewerState {
    /// With all channels. [`ViewerState::archive_for`] is the one way to it.
    whole: Arc<dyn Archive>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) index: FreshIndex,
    pub(crate) clock: SharedClock,
    pub(crate) zone: TimeZone,
    pub(crate) access: Access,
    pub(crate) admissions: Admissions,
    pub(crate) guesses: WrongGuesses,
    pub(crate) menu: CachedValue<ChannelMenu>,
    pub(crate) emoji: CachedValue<EmojiBook>,
    /// The activity of all channels.
    pub(crate) activity: CachedValue<ChannelActivities>,
    private: CachedValue<PrivateChannels>,
    is_private_for_all: bool,
    /// The live messages, if they are offered.
    pub(crate) live: Option<LiveFeed>,
    pub(crate) logs_access: bool,
    pub(crate) page_slots: Arc<Semaphore>,
}

impl ViewerState {
    pub(crate) fn new(viewer: Viewer) -> Self {
        let Viewer {
            archive,
            files,
            index,
            clock,
            zone,
            access,
            is_private_for_all,
            has_live,
            logs_access,
            programs: _,
        } = viewer;
        Self {
            index: FreshIndex::new(index, Arc::clone(&archive)),
            admissions: Admissions::new(Arc::clone(&archive), access.people.clone()),
            whole: archive,
            files,
            clock,
            zone,
            access,
            guesses: WrongGuesses::default(),
            menu: CachedValue::default(),
            emoji: CachedValue::default(),
            activity: CachedValue::default(),
            private: CachedValue::default(),
            is_private_for_all,
            live: has_live.then(LiveFeed::default),
            logs_access,
            page_slots: Arc::new(Semaphore::new(MAX_CONCURRENT_PAGES)),
        }
    }

    /// The archive that a reader with this sight gets.
    pub(crate) fn archive_for(&self, sight: &Sight) -> Arc<dyn Archive> {
        Arc::new(VisibleArchive::new(Arc::clone(&self.whole), sight.clone()))
    }

    /// The archive of a reader, for the routes for programs.
    pub(crate) fn reader_archive(&self, sight: &Sight) -> ReaderArchive {
        ReaderArchive { archive: self.archive_for(sight), page_slots: Arc::clone(&self.page_slots) }
    }

    /// What a person sees who is no operator; or a reader whose person is not known.
    pub(crate) async fn sight(&self, person: Option<&(TeamId, UserId)>) -> Result<Sight, PageError> {
        if self.is_private_for_all {
            return Ok(Sight::Everything);
        }
        let read = async || PrivateChannels::read(&*self.whole, self.clock.now()).await;
        let private = self.private.or_read(self.channels_age(), read).await?;
        Ok(Sight::Without(Arc::new(private.hidden_from(person))))
    }

    /// The menu with all channels, which the caller restricts to what its reader sees.
    pub(crate) async fn whole_menu(&self) -> Result<Arc<ChannelMenu>, PageError> {
        let read = async || gather::menu::read(&*self.whole, self.clock.now()).await;
        self.menu.or_read(self.channels_age(), read).await
    }

    fn channels_age(&self) -> Duration {
        self.index.poll_interval().clamp(CHANNELS_AGE, LONG_CHANNELS_AGE)
    }
}

/// Returns the reader, with what they see now.
pub(crate) async fn reader_of(state: &ViewerState, identity: RequestIdentity) -> Result<Reader, PageError> {
    let RequestIdentity { label, via, person, sees_everything } = identity;
    let sight = if sees_everything { Sight::Everything } else { state.sight(person.as_ref()).await? };
    Ok(Reader { label, via, person, sight })
}

/// The archive that the reader of a request gets; one of the extensions of the request, next to the [`Reader`].
#[derive(Clone)]
pub struct ReaderArchive {
    archive: Arc<dyn Archive>,
    page_slots: Arc<Semaphore>,
}

impl ReaderArchive {
    /// Reads as pages do: when a page slot is free, in a thread of its own, and for a limited time. `None` if it
    /// takes too long.
    pub async fn read<F: Future>(
        &self,
        read: impl FnOnce(Arc<dyn Archive>) -> F + Send + 'static,
    ) -> Option<F::Output>
    where
        F::Output: Send + 'static,
    {
        let archive = Arc::clone(&self.archive);
        let reading = on_page_thread(&self.page_slots, move || read(archive));
        timeout(PAGE_TIMEOUT, reading).await.ok().flatten()
    }
}

/// A request: who makes it, the archive that they get, and the state that the handlers share.
pub(crate) struct Visit {
    pub(crate) reader: Reader,
    pub(crate) archive: Arc<dyn Archive>,
    state: Arc<ViewerState>,
}

impl Visit {
    pub(crate) fn new(state: &Arc<ViewerState>, reader: Reader) -> Self {
        Self { archive: state.archive_for(&reader.sight), reader, state: Arc::clone(state) }
    }

    pub(crate) fn state(&self) -> Arc<ViewerState> {
        Arc::clone(&self.state)
    }
}

impl Deref for Visit {
    type Target = ViewerState;

    fn deref(&self) -> &ViewerState {
        &self.state
    }
}

impl FromRequestParts<Arc<ViewerState>> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ViewerState>) -> Result<Self, Response> {
        let Some(reader) = parts.extensions.get::<Reader>().cloned() else {
            // An address that is open to everyone, such as that of an unknown asset.
            return Err(PageError::missing("There is no such page.").into_response());
        };
        Ok(Self::new(state, reader))
    }
}
