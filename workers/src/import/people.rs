//! Writes the rows of the people that an export lists, and of authors that it does not.

use ports::archive::{ItemKey, Update};
use rules::directory::{is_user_news, listed_user, user_updates};
use rules::history::without_tokens;
use rules::version;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use slack::envelope;
use slack::ids::{TeamId, Ts, UserId};
use tokio::sync::mpsc;

use super::days::DaysRead;
use super::layout::EntryIndex;
use super::plan::ImportPlan;
use super::roster::each;
use super::source::ExportEntries;
use super::{Import, ImportError, ROWS, on_thread, write_news};
use crate::marks::Marks;

/// Of a person, and of their profile.
const EMAIL: &str = "email";

impl Import<'_> {
    /// Writes the people of all workspaces, as they were when the newest message was written.
    pub(super) async fn people(
        &mut self,
        mut source: Box<dyn ExportEntries>,
        plan: &ImportPlan,
        newest: &Ts,
    ) -> Result<Box<dyn ExportEntries>, ImportError> {
        let marks = Marks::default();
        for section in &plan.sections {
            let key = ItemKey::team(&section.team);
            if self.target.archive.get(&key).await?.is_none() {
                marks.note_team(&*self.target.archive, &section.team).await?;
            }
            let team = &section.team;
            source = listed(source, section.users.clone(), person, async |people| {
                let users = write_people(self, team, &people, newest).await?;
                self.sum.users += users;
                Ok(())
            })
            .await?;
        }
        Ok(source)
    }

    /// Writes a placeholder for each author that the export does not list and the archive does not know. Of when it was first
    /// seen it says nothing.
    pub(super) async fn strangers(&mut self, read: &DaysRead) -> Result<(), ImportError> {
        let archive = &*self.target.archive;
        let strangers: Vec<&(TeamId, UserId)> = read.strangers.iter().collect();
        for strangers in strangers.chunks(ROWS) {
            let keys: Vec<ItemKey> = strangers.iter().map(|(team, user)| ItemKey::user(team, user)).collect();
            let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
            let unknown = strangers.iter().zip(rows).filter(|(_, row)| row.is_none());
            let placeholders = unknown.filter_map(|((team, user), _)| {
                let raw = to_raw_value(&serde_json::json!({ "id": user })).ok()?;
                user_updates(team, user, &raw, &version::zero()).ok()?.into_iter().next()
            });
            write_news(archive, &placeholders.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }
}

/// A person as they are listed, without credentials and without the mail address, which Slack shows to no app that does not
/// ask for it and which nothing here needs.
fn person(raw: &RawValue) -> Option<(UserId, Box<RawValue>)> {
    let user = listed_user(raw).ok()?;
    let mut value = envelope::value(raw.get()).ok()?;
    let person = value.as_object_mut()?;
    person.remove(EMAIL);
    if let Some(profile) = person.get_mut("profile").and_then(Value::as_object_mut) {
        profile.remove(EMAIL);
    }
    without_tokens(&mut value);
    Some((user, to_raw_value(&value).ok()?))
}

/// Writes those of whom the archive knows something else; the number of all.
async fn write_people(
    import: &Import<'_>,
    team: &TeamId,
    people: &[(UserId, Box<RawValue>)],
    clock: &Ts,
) -> Result<u64, ImportError> {
    let archive = &*import.target.archive;
    let keys: Vec<ItemKey> = people.iter().map(|(user, _)| ItemKey::user(team, user)).collect();
    let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let news = people.iter().zip(&rows).filter(|((_, raw), row)| is_user_news(row.as_ref(), raw));
    let updates = news.filter_map(|((user, raw), _)| user_updates(team, user, raw, clock).ok());
    let updates: Vec<Update> = updates.flatten().collect();
    write_news(archive, &updates).await?;
    Ok(people.len() as u64)
}

/// Reads lists again, a number of elements at a time, and hands over what is made of each.
pub(super) async fn listed<T: Send + 'static>(
    source: Box<dyn ExportEntries>,
    entries: Vec<EntryIndex>,
    make: impl Fn(&RawValue) -> Option<T> + Send + 'static,
    mut take: impl AsyncFnMut(Vec<T>) -> Result<(), ImportError>,
) -> Result<Box<dyn ExportEntries>, ImportError> {
    let (sender, mut receiver) = mpsc::channel::<Vec<T>>(1);
    let reading = on_thread(source, move |source| {
        let mut batch = Vec::new();
        for entry in entries {
            // What is wrong with it was said when it was read first.
            each(source, entry, &mut Vec::new(), &mut |raw| {
                batch.extend(make(raw));
                if batch.len() >= ROWS {
                    // If the other side has gone, that side says why.
                    drop(sender.blocking_send(std::mem::take(&mut batch)));
                }
                Ok(())
            });
        }
        drop(sender.blocking_send(batch));
    });
    let taking = async move {
        while let Some(batch) = receiver.recv().await {
            take(batch).await?;
        }
        Ok::<(), ImportError>(())
    };
    let (read, taken) = tokio::join!(reading, taking);
    taken?;
    Ok(read?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_whose_text_has_half_a_character_is_taken() {
        let raw =
            RawValue::from_string(r#"{"id":"U1","name":"ana","real_name":"Ana \ud83d"}"#.to_owned()).unwrap();
        assert!(person(&raw).is_some_and(|(_, taken)| taken.get().contains('\u{fffd}')));
    }
}
