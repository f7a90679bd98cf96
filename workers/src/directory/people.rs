//! The people of a workspace. <https://docs.slack.dev/reference/methods/users.list>

use ports::archive::{Item, ItemKey, Update};
use rules::directory::{is_user_changed, listed_user, user_updates};
use rules::figures::person::AuthorKind;
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::ids::{Ts, UserId};
use slack_api::Method;

use super::listing::{Listing, ListingPage};
use super::sync::write;
use super::{DirectorySync, SyncError, SyncReport};
use crate::admission::Entity;

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    members: Vec<&'a RawValue>,
}

impl DirectorySync {
    /// Syncs all people, one page at a time.
    pub(super) async fn sync_people(&self, clock: &mut Ts, report: &mut SyncReport) -> Result<(), SyncError> {
        let team = report.team.clone();
        let mut listing = Listing::new(&self.api, &team, Method::UsersList, &[], clock.clone());
        while let Some(page) = listing.next().await? {
            self.sync_people_page(&page, report).await?;
        }
        *clock = listing.into_clock();
        Ok(())
    }

    async fn sync_people_page(&self, page: &ListingPage, report: &mut SyncReport) -> Result<(), SyncError> {
        let team = report.team.clone();
        let listed: Members<'_> = page.reply.read()?;
        let mut people: Vec<(UserId, &RawValue)> = Vec::with_capacity(listed.members.len());
        for raw in listed.members {
            report.people.listed += 1;
            match listed_user(raw) {
                Ok(user) => {
                    if let Some(known) = &self.known {
                        known.found(Entity::User(team.clone(), user.clone()), None);
                    }
                    report.accounts.add(AuthorKind::from_listed(raw.get(), user.as_str(), team.as_str()));
                    people.push((user, raw));
                }
                Err(malformed) => {
                    report.people.skipped += 1;
                    report.first_skipped.get_or_insert(malformed);
                }
            }
        }
        let keys: Vec<ItemKey> = people.iter().map(|(user, _)| ItemKey::user(&team, user)).collect();
        let user_rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let mut updates: Vec<Vec<Update>> = Vec::new();
        let mut unchanged: Vec<&Item> = Vec::new();
        for ((user, raw), row) in people.iter().zip(&user_rows) {
            match row {
                Some(row) if !is_user_changed(Some(row), raw) => unchanged.push(row),
                Some(_) | None => match user_updates(&team, user, raw, &page.asked) {
                    Ok(person) => updates.push(person),
                    Err(malformed) => {
                        report.people.skipped += 1;
                        report.first_skipped.get_or_insert(malformed);
                    }
                },
            }
        }
        let written = write(&*self.archive, &updates).await?;
        report.people.changed += written.changed;
        report.people.skipped += written.too_large;
        let changed = updates.iter().filter_map(|updates| updates.first());
        self.pictures.send(&*self.queue, &team, changed, unchanged).await
    }
}
