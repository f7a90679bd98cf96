//! Writes the rows of the people that an export lists, and of authors that it does not.

use ports::archive::{ItemKey, Update};
use rules::author::unknown_person;
use rules::directory::{listed_user, user_updates};
use rules::history::without_tokens;
use serde_json::value::{RawValue, to_raw_value};
use slack::envelope;
use slack::ids::{TeamId, Ts, UserId};
use tokio::sync::mpsc;

use super::days::DaysRead;
use super::layout::EntryIndex;
use super::plan::ImportPlan;
use super::roster::for_each_element;
use super::source::ExportEntries;
use super::{Import, ImportError, ROWS, on_thread};
use crate::admission::marks::Marks;
use crate::store::write_changed;

impl Import<'_> {
    /// Writes the people of all workspaces, dated by the newest message.
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
                marks.note_team(&*self.target.archive, &section.team, None).await?;
            }
            let team = &section.team;
            source = read_lists(source, section.users.clone(), person, async |people| {
                let users = write_people(self, team, &people, newest).await?;
                self.sum.users += users;
                Ok(())
            })
            .await?;
        }
        Ok(source)
    }

    /// Writes what messages say about authors that the export does not list, about the bots of apps, and about
    /// the workspace. An author of whom nothing else is known gets a row with the id.
    pub(super) async fn other_updates(&mut self, read: DaysRead) -> Result<(), ImportError> {
        let unknown = read.unlisted_authors.iter().map(|(team, user)| unknown_person(team, user));
        let mut newest = read.other_updates;
        unknown.for_each(|update| newest.add(update));
        write_changed(&*self.target.archive, &newest.into_updates()).await?;
        Ok(())
    }
}

/// A listed person, without credentials.
fn person(raw: &RawValue) -> Option<(UserId, Box<RawValue>)> {
    let user = listed_user(raw).ok()?;
    let mut value = envelope::parse_value(raw.get()).ok()?;
    without_tokens(&mut value);
    Some((user, to_raw_value(&value).ok()?))
}

/// Writes the people; returns their number. Every register is a maximum or a minimum, such as the time at which
/// a profile was first seen: an older export that lists the same person has something to add.
async fn write_people(
    import: &Import<'_>,
    team: &TeamId,
    people: &[(UserId, Box<RawValue>)],
    clock: &Ts,
) -> Result<u64, ImportError> {
    let updates = people.iter().filter_map(|(user, raw)| user_updates(team, user, raw, clock).ok());
    let updates: Vec<Update> = updates.flatten().collect();
    write_changed(&*import.target.archive, &updates).await?;
    Ok(people.len() as u64)
}

/// Reads lists again, in batches of elements, and passes each converted batch to `take`.
pub(super) async fn read_lists<T: Send + 'static>(
    source: Box<dyn ExportEntries>,
    entries: Vec<EntryIndex>,
    convert: impl Fn(&RawValue) -> Option<T> + Send + 'static,
    mut handle_batch: impl AsyncFnMut(Vec<T>) -> Result<(), ImportError>,
) -> Result<Box<dyn ExportEntries>, ImportError> {
    let (sender, mut receiver) = mpsc::channel::<Vec<T>>(1);
    let reading = on_thread(source, move |source| {
        let mut batch = Vec::new();
        for entry in entries {
            // Problems of the entry were reported when it was first read.
            for_each_element(source, entry, &mut Vec::new(), &mut |raw| {
                batch.extend(convert(raw));
                if batch.len() >= ROWS {
                    // If the receiver was dropped, it reports the error.
                    drop(sender.blocking_send(std::mem::take(&mut batch)));
                }
                Ok(())
            });
        }
        drop(sender.blocking_send(batch));
    });
    let handling = async move {
        while let Some(batch) = receiver.recv().await {
            handle_batch(batch).await?;
        }
        Ok::<(), ImportError>(())
    };
    let (read, handled) = tokio::join!(reading, handling);
    handled?;
    Ok(read?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_with_half_a_character_in_their_text_is_accepted() {
        let raw =
            RawValue::from_string(r#"{"id":"U1","name":"ana","real_name":"Ana \ud83d"}"#.to_owned()).unwrap();
        assert!(person(&raw).is_some_and(|(_, person)| person.get().contains('\u{fffd}')));
    }
}
