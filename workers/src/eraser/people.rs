//! People: their profiles, their pictures and their memberships of user groups. An app's user has a bot too.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use ports::files::FileKey;
use rules::file::image;
use slack::ids::{TeamId, UserGroupId, UserId};

use super::{Eraser, EraserCounts, PAGE};
use crate::failure::PortError;

/// Every picture that a person has had: each profile names its own.
pub(super) async fn pictures(
    archive: &dyn Archive,
    team: &TeamId,
    user: &UserId,
) -> Result<BTreeSet<FileKey>, ArchiveError> {
    let row = archive.get(&ItemKey::user(team, user)).await?;
    let profiles = query_all(archive, Query::partition(key::profiles(team, user))).await?;
    Ok(row.iter().chain(&profiles).flat_map(image::keys).collect())
}

impl Eraser<'_> {
    /// Erases a person.
    pub(super) async fn person(&self, team: &TeamId, user: &UserId) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let key = ItemKey::user(team, user);
        let row = self.archive.get(&key).await?.filter(|row| !row.is_erased());
        let pictures = self.pictures.get(&key).cloned().unwrap_or_default();
        for picture in self.exclusive_pictures(team, user, pictures, &mut counts).await? {
            counts.bytes += self.delete_bytes(&picture).await?;
        }
        // The person's row is erased last: it names the pictures.
        let profiles = query_all(self.archive, Query::partition(key::profiles(team, user))).await?;
        self.read(&mut counts, &profiles);
        for profile in profiles.iter().filter(|profile| !profile.is_erased()) {
            counts.erased(profile);
            self.erase(&profile.key).await?;
        }
        let bots = query_all(self.archive, Query::partition(key::bots(team))).await?;
        self.read(&mut counts, &bots);
        for bot in bots.iter().filter(|bot| self.covered.covers_row(bot)) {
            counts.erased(bot);
            self.erase(&bot.key).await?;
        }
        self.memberships(team, user, &mut counts).await?;
        if let Some(row) = &row {
            counts.users += 1;
            counts.erased(row);
        }
        // Even if the row is missing: it may still arrive.
        self.erase(&key).await?;
        Ok(counts)
    }

    /// Erases a person's rows as a member of user groups.
    async fn memberships(
        &self,
        team: &TeamId,
        user: &UserId,
        counts: &mut EraserCounts,
    ) -> Result<(), PortError> {
        let groups = query_all(self.archive, Query::partition(key::user_groups(team))).await?;
        self.read(counts, &groups);
        let keys: Vec<ItemKey> = groups
            .iter()
            .filter_map(|group| UserGroupId::parse(&group.key.timestamp).ok())
            .map(|group| ItemKey::user_group_member(team, &group, user))
            .collect();
        for row in self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?.into_iter().flatten() {
            if !row.is_erased() {
                counts.erased(&row);
                self.erase(&row.key).await?;
            }
        }
        Ok(())
    }

    /// The pictures of a person that no remaining person has: many people share one default picture.
    async fn exclusive_pictures(
        &self,
        team: &TeamId,
        user: &UserId,
        mut pictures: BTreeSet<FileKey>,
        counts: &mut EraserCounts,
    ) -> Result<BTreeSet<FileKey>, PortError> {
        let mut query = Query { limit: PAGE, ..Query::partition(key::users(team)) };
        while !pictures.is_empty() {
            let page = self.archive.query(&query).await?;
            self.read(counts, &page.items);
            let remains = |row: &&Item| {
                row.key.timestamp != user.as_str() && !row.is_erased() && !self.covered.covers_row(row)
            };
            for other in page.items.iter().filter(remains) {
                let theirs = image::keys(other);
                pictures.retain(|picture| !theirs.contains(picture));
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        Ok(pictures)
    }
}
