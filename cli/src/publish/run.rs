//! One run: what it reads, the names that it shows, and the order of its work.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use ports::archive::Archive;
use ports::changes::Changes;
use ports::files::{FileKey, Files};
use process::config::publish::{PublicFiles, PublicNaming};
use reader::directory;
use reader::joined::ChannelOfTeam;
use reader::names::{DisplayNames, is_visible};
use reader::plain;
use rules::publishing::PublicNames;
use rules::view::PersonView;
use slack::ids::TeamId;
use tokio::sync::watch;
use viewer::gather::pictures::{self, CustomEmoji, PictureBook};
use viewer::pages::PageContext;
use viewer::pages::sidebar::{ChannelMenu, MenuChannel};
use viewer::public_links::{PublicLinks, PublicSite, encoded};

use super::PublishError;
use super::channels::{self, RefusedChannel, SiteChannel, SiteChannels};
use super::check::UnshownNames;
use super::search_parts::SearchParts;
use super::settings::{self, SiteSettings};
use super::state::{self, COPIES, SiteState, UnitKind};
use super::upload::UploadCounts;
use super::write::{SiteWriter, WriteCounts};
use crate::read::people_of;

pub(super) struct PublishRun<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) files: &'a dyn Files,
    pub(super) settings: SiteSettings,
    pub(super) title: String,
    pub(super) channels: Vec<SiteChannel<'a>>,
    /// The topics of the channels, as people read them.
    pub(super) topics: Vec<String>,
    pub(super) refused: Vec<RefusedChannel>,
    pub(super) public: Arc<PublicNames>,
    pub(super) names: DisplayNames<'a>,
    pub(super) site: PublicSite,
    pub(super) pictures: PictureBook,
    /// Dropped before the state, whose lock keeps other runs out of the folder that it writes to.
    pub(super) writer: SiteWriter,
    pub(super) state: SiteState,
    search: SearchParts,
    workspaces: Vec<(TeamId, String)>,
}

/// What a run did.
pub(super) struct RunOutcome {
    pub(super) channels: usize,
    pub(super) people_hidden: usize,
    pub(super) files: u64,
    pub(super) refused: Vec<RefusedChannel>,
    pub(super) counts: WriteCounts,
    /// What it did for the search; `None` if the site has none.
    pub(super) search: Option<SearchParts>,
    /// What it changed in the bucket, if there is one.
    pub(super) uploaded: Option<UploadCounts>,
    /// Whether it was asked to end before it was done.
    pub(super) is_interrupted: bool,
}

impl<'a> PublishRun<'a> {
    /// Reads what the site shows. `folder` is `None` for a run that writes nothing.
    pub(super) async fn begin(
        (archive, files): (&'a dyn Archive, &'a dyn Files),
        settings: SiteSettings,
        team: Option<&TeamId>,
        state: SiteState,
        folder: Option<PathBuf>,
    ) -> Result<Self, PublishError> {
        let SiteChannels { teams, published, refused, out } =
            channels::find(archive, &settings, team).await?;
        let pseudonym_key = match (settings.naming, teams.first()) {
            (PublicNaming::Pseudonym, Some(team)) => {
                Some(settings::pseudonym_key(archive, team, folder.is_some()).await?)
            }
            (PublicNaming::Pseudonym | PublicNaming::Display, _) => None,
        };
        let public = Arc::new(PublicNames {
            hidden: settings::hidden_people(archive, &teams, &out).await?,
            pseudonym_key,
            channels: channels::names_by_id(&published),
            opt_out_emoji: settings.opt_out_emoji.clone(),
            has_files: settings.files == PublicFiles::All,
        });
        let mut names = DisplayNames::for_teams(archive, teams.clone()).for_the_public(public.clone());
        let mut topics = Vec::new();
        for channel in &published {
            topics.push(match &channel.topic {
                Some(topic) => names.description_text(topic).await?,
                None => String::new(),
            });
        }
        let workspaces = directory::read_shown_names(archive, &teams).await?;
        let title = settings.title.clone();
        let title = title.unwrap_or_else(|| ChannelMenu::new(workspaces.clone()).site_name);
        let mut site = PublicSite { has_search: settings.search_program.is_some(), ..PublicSite::default() };
        for channel in &published {
            for location in channel.joined.locations() {
                site.folders.insert(location.clone(), channel.folder.clone());
            }
        }
        let emoji = Arc::new(pictures::emoji(archive, &teams).await?);
        let pictures = PictureBook { emoji, ..PictureBook::default() };
        let writer = SiteWriter::new(folder)?;
        let channels = published;
        Ok(Self {
            archive,
            files,
            settings,
            title,
            channels,
            topics,
            refused,
            public,
            names,
            site,
            pictures,
            state,
            writer,
            search: SearchParts::default(),
            workspaces,
        })
    }

    /// Brings the site up to date. `shutdown` ends the run between two units.
    pub(super) async fn finish_site(
        &mut self,
        changes: &dyn Changes,
        shutdown: &watch::Receiver<bool>,
    ) -> Result<RunOutcome, PublishError> {
        self.mark_changes(changes).await?;
        self.delete_unlisted()?;
        let is_interrupted = !self.render(shutdown).await?;
        self.writer.flush(&mut self.state)?;
        let files: u32 = self.state.db().query_row("SELECT count(*) FROM page", [], |row| row.get(0))?;
        Ok(RunOutcome {
            channels: self.channels.len(),
            people_hidden: self.public.hidden.len(),
            files: u64::from(files),
            refused: std::mem::take(&mut self.refused),
            counts: std::mem::take(&mut self.writer.counts),
            search: self.site.has_search.then(|| std::mem::take(&mut self.search)),
            uploaded: None,
            is_interrupted,
        })
    }

    /// Deletes the files of channels and months that are not on the site any more, before anything is written.
    fn delete_unlisted(&mut self) -> Result<(), PublishError> {
        let query = "SELECT path FROM page WHERE NOT EXISTS \
            (SELECT 1 FROM unit WHERE unit.channel = page.channel AND unit.month = page.month) \
            AND NOT (channel = '' AND (month = ?1 OR month LIKE 'search/%'))";
        let paths = self.state.texts(query, &[COPIES])?;
        if paths.is_empty() { Ok(()) } else { self.writer.delete(&mut self.state, &paths) }
    }

    /// Renders every marked unit. Returns false if the run must end before.
    async fn render(&mut self, shutdown: &watch::Receiver<bool>) -> Result<bool, PublishError> {
        loop {
            let months = self.state.dirty(UnitKind::Month)?;
            if months.is_empty() {
                break;
            }
            for unit in &months {
                if *shutdown.borrow() {
                    return Ok(false);
                }
                self.month(unit).await?;
            }
            self.writer.flush(&mut self.state)?;
            let channels: BTreeSet<&str> = months.iter().map(|unit| unit.channel.as_str()).collect();
            for channel in channels {
                self.state.mark_moved_neighbours(channel)?;
            }
        }
        self.delete_unused()?;
        for unit in self.state.dirty(UnitKind::Channel)? {
            if *shutdown.borrow() {
                return Ok(false);
            }
            self.channel_pages(&unit).await?;
        }
        self.writer.flush(&mut self.state)?;
        if let Some(unit) = self.state.dirty(UnitKind::Site)?.first() {
            let Some(search) = self.search_parts(shutdown).await? else { return Ok(false) };
            self.site_pages(unit, &search.names).await?;
            if search.failure.is_some() {
                // The next run tries again.
                self.writer.flush(&mut self.state)?;
                self.state.atomically(|db| state::mark(db, "", ""))?;
            }
            self.search = search;
        }
        Ok(true)
    }

    /// Returns how these things are shown now, for the comparison with what pages were made from.
    pub(super) async fn tag_values(&mut self, tags: &[String]) -> Result<Vec<String>, PublishError> {
        let of = |prefix: &'static str| tags.iter().filter_map(move |tag| tag.strip_prefix(prefix));
        self.names.learn_people(of("u:")).await?;
        self.names.learn_user_groups(of("g:")).await?;
        let avatars = match self.settings.has_avatars {
            true => pictures::people(self.archive, &self.teams(), of("u:").collect()).await?,
            false => HashMap::new(),
        };
        Ok(tags.iter().map(|tag| self.tag_value(tag, &avatars)).collect())
    }

    /// The workspaces of the site.
    pub(super) fn teams(&self) -> Vec<TeamId> {
        self.workspaces.iter().map(|(team, _)| team.clone()).collect()
    }

    fn tag_value(&self, tag: &str, avatars: &HashMap<String, FileKey>) -> String {
        let (kind, id) = tag.split_once(':').unwrap_or_default();
        match kind {
            "u" => {
                let avatar = avatars.get(id).map(FileKey::as_str);
                format!("{} {:?} {avatar:?}", self.names.person_name(id), self.public.hidden.get(id))
            }
            // The writer stores the path of a copy with the copy.
            "f" => String::new(),
            "g" => self.names.user_group_handle(id).unwrap_or_default().to_owned(),
            "c" => {
                let folder = self.site.folders.iter().find(|(place, _)| place.channel.as_str() == id);
                format!("{:?} {:?}", self.public.channel(id), folder.map(|(_, folder)| folder))
            }
            _ => match self.pictures.emoji.get(id) {
                Some(CustomEmoji::Picture(key)) => key.as_str().to_owned(),
                Some(CustomEmoji::Alias(other)) => format!("alias {other}"),
                None => String::new(),
            },
        }
    }

    /// Returns the names of the archive that must not be on the site.
    pub(super) async fn unshown_names(&self) -> Result<UnshownNames, PublishError> {
        let (mut people, mut channels) = (Vec::new(), Vec::new());
        for (team, _) in &self.workspaces {
            let mut rows = people_of(self.archive, team).await?;
            while let Some(page) = rows.next().await? {
                let name = |person: &PersonView| {
                    let names = [person.display_name(), person.real_name(), person.name()];
                    let name = names.into_iter().flatten().find(|name| is_visible(name))?;
                    Some((person.id()?.to_owned(), plain::line(name)))
                };
                people.extend(page.iter().filter_map(name));
            }
            let listed = directory::read(self.archive, team).await?;
            channels.extend(listed.iter().map(|(id, name)| (id.to_string(), plain::line(name))));
        }
        Ok(UnshownNames::new(&self.public, &people, &channels))
    }

    /// The absolute address of a file of the site.
    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{}", self.settings.url.as_str(), encoded(path))
    }

    /// What the messages of a channel are rendered with.
    pub(super) fn context<'c>(
        &'c self,
        links: &'c PublicLinks<'_>,
        channel: &'c SiteChannel<'_>,
    ) -> PageContext<'c> {
        PageContext {
            links,
            names: &self.names,
            pictures: &self.pictures,
            zone: &self.settings.zone,
            location: channel.joined.current_location(),
        }
    }

    /// The menu of a channel's pages, which has only this channel.
    pub(super) fn menu_of(&self, channel: &SiteChannel<'_>) -> ChannelMenu {
        let location = channel.joined.current_location();
        ChannelMenu {
            site_name: self.title.clone(),
            channels: vec![menu_channel(channel, None)],
            current: Some(location.clone()),
            ..ChannelMenu::new(self.workspaces.clone())
        }
    }

    /// The menu of the site, with the numbers of messages.
    pub(super) fn menu(&self, counts: &BTreeMap<String, u64>) -> ChannelMenu {
        let channel = |channel: &SiteChannel<'_>| {
            menu_channel(channel, Some(counts.get(&channel.folder).copied().unwrap_or_default()))
        };
        ChannelMenu {
            site_name: self.title.clone(),
            channels: self.channels.iter().map(channel).collect(),
            ..ChannelMenu::new(self.workspaces.clone())
        }
    }
}

fn menu_channel(channel: &SiteChannel<'_>, messages: Option<u64>) -> MenuChannel {
    let location: &ChannelOfTeam = channel.joined.current_location();
    MenuChannel {
        location: location.clone(),
        name: Some(channel.name.clone()),
        marks: channel.is_archived.then_some("archived").into_iter().collect(),
        messages,
        parts: Vec::new(),
    }
}
