//! Finds what changed since the last run, and marks it: settings, channels, names, messages.

use std::collections::BTreeSet;

use ports::archive::{Item, Query};
use ports::changes::{ChangeBatch, ChangeCursor, Changes};
use reader::joined::ChannelOfTeam;
use rules::message::stored_version;
use rusqlite::{Connection, params};
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};

use super::PublishError;
use super::run::PublishRun;
use super::state;

/// Rows of a batch of changes.
const BATCH_ROWS: usize = 1_000;

/// Messages that are noted in one step, because a step waits for the disk.
const NOTES_AT_ONCE: usize = 10_000;

/// Names that are compared at once: fewer than the names that are kept in memory.
const NAMES_AT_ONCE: usize = 1_000;

const CURSOR: &str = "cursor";
const SETTINGS: &str = "settings";

/// A message as the state knows it: its channel's folder, its time, and the root if it is a reply that is shown.
type NotedMessage = (String, Ts, Option<Ts>);

impl PublishRun<'_> {
    /// Marks everything that changed.
    pub(super) async fn mark_changes(&mut self, changes: &dyn Changes) -> Result<(), PublishError> {
        self.compare_settings()?;
        let cursor = self.state.meta(CURSOR)?.map(ChangeCursor::new);
        match cursor {
            Some(cursor) => {
                let new = self.compare_channels()?;
                self.compare_names().await?;
                for folder in new {
                    self.scan(&folder).await?;
                }
                self.follow(changes, Some(cursor)).await
            }
            None => {
                self.start_again()?;
                self.follow(changes, None).await
            }
        }
    }

    fn compare_settings(&mut self) -> Result<(), PublishError> {
        let fingerprint = self.settings.fingerprint(&self.title);
        let known = self.state.meta(SETTINGS)?;
        if known.as_ref() != Some(&fingerprint) {
            self.state.atomically(|db| {
                state::set_meta(db, SETTINGS, &fingerprint)?;
                state::mark_all(db)
            })?;
        }
        Ok(())
    }

    /// Marks what is to be made without any earlier knowledge.
    fn start_again(&mut self) -> Result<(), PublishError> {
        let fingerprint = self.settings.fingerprint(&self.title);
        let channels = self.known_channels();
        self.state.atomically(|db| {
            state::forget_all(db)?;
            state::set_meta(db, SETTINGS, &fingerprint)?;
            channels.iter().try_for_each(|channel| add_channel(db, channel))
        })
    }

    /// Marks channels that changed, and forgets those that are not published any more. Returns the folders of
    /// new ones.
    fn compare_channels(&mut self) -> Result<Vec<String>, PublishError> {
        let now = self.known_channels();
        self.state.atomically(|db| {
            let stored: Vec<[String; 3]> = db
                .prepare("SELECT folder, locations, facts FROM channel")?
                .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
                .collect::<rusqlite::Result<_>>()?;
            let is_same = |one: &[String; 3], other: &[String; 3]| one[..2] == other[..2];
            for gone in stored.iter().filter(|stored| !now.iter().any(|now| is_same(stored, now))) {
                state::forget_channel(db, &gone[0])?;
            }
            let mut new = Vec::new();
            for channel in &now {
                match stored.iter().find(|stored| is_same(stored, channel)) {
                    None => new.push(channel[0].clone()),
                    Some(stored) if stored[2] != channel[2] => {
                        state::mark_channel(db, &channel[0])?;
                        add_channel(db, channel)?;
                    }
                    Some(_) => {}
                }
            }
            Ok(new)
        })
    }

    /// Marks the units that show a name which is another one now.
    async fn compare_names(&mut self) -> Result<(), PublishError> {
        // A copy is as its key says, for good.
        let tags = self.state.texts("SELECT tag FROM tag WHERE tag NOT LIKE 'f:%' ORDER BY tag", &[])?;
        let mut changed = Vec::new();
        for tags in tags.chunks(NAMES_AT_ONCE) {
            let values = self.tag_values(tags).await?;
            for (tag, value) in tags.iter().zip(values) {
                let stored: String = self
                    .state
                    .db()
                    .prepare_cached("SELECT value FROM tag WHERE tag = ?1")?
                    .query_row([tag], |row| row.get(0))?;
                if stored != value {
                    changed.push((tag, value));
                }
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        self.state.atomically(|db| {
            for (tag, value) in &changed {
                db.execute("UPDATE tag SET value = ?2 WHERE tag = ?1", [*tag, value])?;
            }
            let tags: Vec<&String> = changed.iter().map(|(tag, _)| *tag).collect();
            // Reads the whole table, whose order is that in which months are rendered.
            let users: Vec<(String, String)> = db
                .prepare(
                    "SELECT DISTINCT channel, month FROM uses WHERE tag IN (SELECT value FROM json_each(?1))",
                )?
                .query_map([json!(tags).to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            users.iter().try_for_each(|(channel, month)| state::mark_whole(db, channel, month))
        })
    }

    /// Reads all messages of a channel that is new on the site.
    async fn scan(&mut self, folder: &str) -> Result<(), PublishError> {
        let Some(index) = self.channels.iter().position(|channel| channel.folder == folder) else {
            return Ok(());
        };
        let channel = &self.channels[index];
        let mut query = Query::partition(channel.joined.current_location().messages());
        loop {
            let page = channel.joined.query(&query).await?;
            let notes: Vec<NotedMessage> =
                page.items.iter().filter_map(|item| noted(&channel.folder, item)).collect();
            self.state.atomically(|db| note(db, &notes))?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let known = self.known_channels().swap_remove(index);
        self.state.atomically(|db| add_channel(db, &known))
    }

    /// Marks what changed in the archive since the cursor.
    async fn follow(
        &mut self,
        changes: &dyn Changes,
        mut cursor: Option<ChangeCursor>,
    ) -> Result<(), PublishError> {
        let mut notes = Vec::new();
        loop {
            let (next, is_last) = match changes.since(cursor.as_ref(), BATCH_ROWS).await? {
                ChangeBatch::Items { items, next } => {
                    let is_last = items.is_empty();
                    for item in items {
                        notes.extend(self.noted(item).await?);
                    }
                    (next, is_last)
                }
                ChangeBatch::Spans { spans, next } => {
                    let is_last = spans.is_empty();
                    for span in spans {
                        let place = ChannelOfTeam { team: span.team.clone(), channel: span.channel.clone() };
                        if !self.site.folders.contains_key(&place) {
                            continue;
                        }
                        let mut query = Some(span.query());
                        while let Some(current) = &mut query {
                            let page = self.archive.query(current).await?;
                            for item in page.items {
                                notes.extend(self.noted(item).await?);
                            }
                            if notes.len() >= NOTES_AT_ONCE {
                                self.state.atomically(|db| note(db, &std::mem::take(&mut notes)))?;
                            }
                            match page.next {
                                Some(next) => current.after = Some(next),
                                None => query = None,
                            }
                        }
                    }
                    (next, is_last)
                }
                ChangeBatch::Rebuild => {
                    notes.clear();
                    self.start_again()?;
                    cursor = None;
                    continue;
                }
            };
            let is_stored = self.state.meta(CURSOR)?.as_deref() == Some(next.as_str());
            if notes.len() >= NOTES_AT_ONCE || is_last && !(is_stored && notes.is_empty()) {
                self.state.atomically(|db| {
                    note(db, &std::mem::take(&mut notes))?;
                    state::set_meta(db, CURSOR, next.as_str())
                })?;
            }
            if is_last {
                return Ok(());
            }
            cursor = Some(next);
        }
    }

    /// Returns what the state must know of a row; `None` if it is not of a published channel.
    async fn noted(&self, item: Item) -> Result<Option<NotedMessage>, PublishError> {
        let place = item.key.item_id.strip_prefix("message#").and_then(|place| place.split_once('#'));
        let Some((Ok(team), Ok(channel))) =
            place.map(|(team, channel)| (TeamId::parse(team), ChannelId::parse(channel)))
        else {
            return Ok(None);
        };
        let Some(folder) = self.site.folders.get(&ChannelOfTeam { team, channel }) else { return Ok(None) };
        let Some(channel) = self.channels.iter().find(|channel| channel.folder == *folder) else {
            return Ok(None);
        };
        // What readers see of a channel with several ids is merged from all of them.
        if channel.joined.locations().len() > 1
            && let Ok(ts) = Ts::parse(&item.key.timestamp)
        {
            let merged = channel.joined.message(&ts).await?;
            return Ok(Some(merged.as_ref().and_then(|merged| noted(folder, merged)).unwrap_or((
                folder.clone(),
                ts,
                None,
            ))));
        }
        Ok(noted(folder, &item))
    }

    /// What the state compares of each channel: its folder, its locations, and what its pages show of it.
    fn known_channels(&self) -> Vec<[String; 3]> {
        let known = self.channels.iter().zip(&self.topics).map(|(channel, topic)| {
            let locations: Vec<String> =
                channel.joined.locations().iter().map(ChannelOfTeam::messages).collect();
            let facts =
                format!("{:?} {topic:?} {:?} {}", channel.name, channel.redirects, channel.is_archived);
            [channel.folder.clone(), locations.join(" "), facts]
        });
        known.collect()
    }
}

fn noted(folder: &str, item: &Item) -> Option<NotedMessage> {
    let ts = Ts::parse(&item.key.timestamp).ok()?;
    let is_shown = !item.is_erased() && !item.has_flag("deleted") && stored_version(item).is_some();
    let root = rules::message::root(item).filter(|root| is_shown && *root != ts);
    Some((folder.to_owned(), ts, root))
}

fn note(db: &Connection, notes: &[NotedMessage]) -> rusqlite::Result<()> {
    let mut days = BTreeSet::new();
    for (folder, ts, root) in notes {
        state::note_message(db, folder, ts, root.as_ref(), &mut days)?;
    }
    days.iter().try_for_each(|day| state::mark_day(db, day))
}

fn add_channel(db: &Connection, [folder, locations, facts]: &[String; 3]) -> rusqlite::Result<()> {
    db.execute(
        "INSERT OR REPLACE INTO channel (folder, locations, facts) VALUES (?1, ?2, ?3)",
        params![folder, locations, facts],
    )?;
    state::mark(db, folder, "")
}
