//! The people of a workspace, as figures tell them apart.

use std::collections::HashMap;

use ports::archive::{Archive, ArchiveError, Item, Query, key, query_all};
use rules::figures::message::CountedMessage;
use rules::figures::person::PersonFacts;
use slack::ids::TeamId;

/// The people of a workspace by id.
#[derive(Debug, Clone, Default)]
pub struct People(HashMap<String, PersonFacts>);

impl People {
    /// Reads the directory of a workspace.
    pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<Self, ArchiveError> {
        let rows = query_all(archive, Query::partition(key::users(team))).await?;
        let mut people = Self::default();
        people.add(&rows, team);
        Ok(people)
    }

    pub(super) fn add<'r>(&mut self, rows: impl IntoIterator<Item = &'r Item>, team: &TeamId) {
        let read = |row: &Item| Some((row.key.timestamp.clone(), PersonFacts::read(row, team.as_str())?));
        self.0.extend(rows.into_iter().filter_map(read));
    }

    pub fn get(&self, id: &str) -> Option<&PersonFacts> {
        self.0.get(id)
    }

    /// Everyone, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PersonFacts)> {
        let mut people: Vec<(&str, &PersonFacts)> =
            self.0.iter().map(|(id, person)| (id.as_str(), person)).collect();
        people.sort_unstable_by_key(|(id, _)| *id);
        people.into_iter()
    }

    pub(super) fn is_bot(&self, message: &CountedMessage<'_>) -> bool {
        let known = message.author.and_then(|author| self.get(author));
        PersonFacts::is_bot(message.author, known, message.is_by_app)
    }

    pub(super) fn is_bot_now(&self, id: &str, is_by_app: bool) -> bool {
        PersonFacts::is_bot(Some(id), self.get(id), is_by_app)
    }
}
