//! The settings of a site, and what they change on its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use jiff::tz::TimeZone;
use ports::archive::erasure::{OptOutFact, OptOutScope};
use ports::archive::{Archive, ArchiveExt, ItemKey, Query, Update, key, query_all};
use process::config::publish::{PublicFiles, PublicNaming, SiteUrl};
use rules::publishing::opt_out;
use slack::hex::to_hex;
use slack::ids::TeamId;

use super::search_parts::SearchProgram;
use super::{PublishArgs, PublishError};

/// Changes if the same rows give other pages: each site is then rendered again.
const SITE_VERSION: u32 = 3;

/// Bytes of the key of pseudonyms: those of its hash function.
const KEY_BYTES: usize = 32;

/// Bytes of a channels file: names of all channels of a large workspace.
const MAX_CHANNELS_FILE_BYTES: usize = 4 * 1024 * 1024;

/// The settings of one run.
#[derive(Debug)]
pub(super) struct SiteSettings {
    pub(super) url: SiteUrl,
    pub(super) title: Option<String>,
    pub(super) zone: TimeZone,
    pub(super) zone_name: String,
    pub(super) naming: PublicNaming,
    pub(super) files: PublicFiles,
    /// Whether the pictures of people are shown.
    pub(super) has_avatars: bool,
    pub(super) is_indexed: bool,
    pub(super) include_shared: bool,
    pub(super) opt_out_emoji: Option<String>,
    /// The program that makes the search, if the site has one.
    pub(super) search_program: Option<SearchProgram>,
    /// The requested channels; `None` for all public ones.
    pub(super) requested: Option<Vec<String>>,
}

impl SiteSettings {
    /// Reads the settings, and the file of channels.
    pub(super) fn read(args: &PublishArgs, url: &SiteUrl) -> Result<Self, PublishError> {
        let mut requested = args.channels.clone();
        if let Some(file) = &args.site.channels_file {
            let failed = |error: io::Error| PublishError::ChannelsFile { path: file.clone(), error };
            let text = fs::read(file).map_err(failed)?;
            if text.len() > MAX_CHANNELS_FILE_BYTES {
                return Err(failed(io::Error::other("it is too large")));
            }
            let text = String::from_utf8(text).map_err(|_| failed(io::Error::other("it is not UTF-8")))?;
            let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
            requested.extend(names.map(str::to_owned));
        }
        let (zone, zone_name) = match &args.zone.tz {
            Some(named) => (named.zone.clone(), named.name.clone()),
            None => (TimeZone::UTC, "UTC".to_owned()),
        };
        Ok(Self {
            url: url.clone(),
            title: args.site.title.clone(),
            zone,
            zone_name,
            naming: args.site.names,
            files: args.site.files,
            has_avatars: args.avatars,
            is_indexed: !args.no_index,
            include_shared: args.include_shared,
            opt_out_emoji: args.opt_out_emoji.as_ref().map(|name| name.trim_matches(':').to_owned()),
            search_program: None,
            requested: (!args.all_public).then_some(requested),
        })
    }

    /// A text that changes if the pages of all channels change. The channels have their own.
    pub(super) fn fingerprint(&self, title: &str) -> String {
        let Self {
            url,
            zone_name,
            naming,
            files,
            has_avatars,
            is_indexed,
            opt_out_emoji,
            search_program,
            ..
        } = self;
        let search = search_program.as_ref().map(|program| &program.version);
        let Self { title: _, zone: _, include_shared: _, requested: _, .. } = self;
        format!(
            "{SITE_VERSION} {url:?} {title:?} {zone_name:?} {naming:?} {files:?} {has_avatars} {is_indexed} {opt_out_emoji:?} {search:?} {} {}",
            viewer::assets::ALL.map(viewer::assets::Asset::file_name).join(" "),
            viewer::assets::SITE_SEARCH.file_name()
        )
    }
}

/// Returns the people and channels of which nothing is stored any more.
pub(super) async fn out_of_archive(
    archive: &dyn Archive,
    teams: &[TeamId],
) -> Result<BTreeSet<(TeamId, OptOutScope)>, PublishError> {
    let mut out = BTreeSet::new();
    for team in teams {
        let query = Query {
            after: Some(ItemKey::erasure(team, "optout#")),
            // The next character after `#`.
            until: Some("optout$".to_owned()),
            ..Query::partition(key::erasures(team))
        };
        let facts = query_all(archive, query).await?;
        // The facts of a scope are in the order of their times.
        for fact in facts.iter().filter_map(OptOutFact::read) {
            let scope = (fact.team, fact.scope);
            if fact.is_out {
                out.insert(scope)
            } else {
                out.remove(&scope)
            };
        }
    }
    Ok(out)
}

/// Returns the people who opted out, and whether their texts are kept.
pub(super) async fn hidden_people(
    archive: &dyn Archive,
    teams: &[TeamId],
    out: &BTreeSet<(TeamId, OptOutScope)>,
) -> Result<BTreeMap<String, bool>, PublishError> {
    let mut hidden = BTreeMap::new();
    for team in teams {
        for row in query_all(archive, Query::partition(key::public_stances(team))).await? {
            let stance = opt_out::PublicStance::from_row(&row);
            hidden.extend(stance.hides().map(|keeps_text| (row.key.timestamp, keeps_text)));
        }
    }
    for (_, scope) in out {
        if let OptOutScope::User(user) = scope {
            hidden.insert(user.to_string(), false);
        }
    }
    Ok(hidden)
}

/// Returns the key of pseudonyms, which the archive keeps from the first run on. `may_store` is false for a run
/// that changes nothing.
pub(super) async fn pseudonym_key(
    archive: &dyn Archive,
    team: &TeamId,
    may_store: bool,
) -> Result<Vec<u8>, PublishError> {
    let key = ItemKey::pseudonym_key(team);
    if archive.get(&key).await?.is_none() && may_store {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| PublishError::Random(error.to_string()))?;
        let set_if_absent = [(opt_out::KEY.to_owned(), to_hex(&bytes).into())].into_iter().collect();
        archive.write(&Update { set_if_absent, ..Update::new(key.clone()) }).await?;
    }
    let stored = archive.get(&key).await?;
    let stored = stored.as_ref().and_then(|row| row.text(opt_out::KEY)).unwrap_or_default();
    Ok(stored.as_bytes().to_vec())
}
