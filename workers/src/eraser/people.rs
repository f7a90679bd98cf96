//! People: their profiles and their pictures.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use ports::files::FileKey;
use rules::file::image;
use slack::ids::{TeamId, UserId};

use super::{Eraser, EraserCounts, EraserError, PAGE};

/// Every picture that a person has had: each profile says where its own was.
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
    pub(super) async fn person(&self, team: &TeamId, user: &UserId) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        let key = ItemKey::user(team, user);
        let row = self.archive.get(&key).await?.filter(|row| !row.is_erased());
        let pictures = self.pictures.get(&key).cloned().unwrap_or_default();
        for picture in self.only_theirs(team, user, pictures, &mut counts).await? {
            counts.bytes += self.delete_bytes(&picture).await?;
        }
        // Their row goes last: it names the pictures.
        let profiles = query_all(self.archive, Query::partition(key::profiles(team, user))).await?;
        self.read(&mut counts, &profiles);
        for profile in profiles.iter().filter(|profile| !profile.is_erased()) {
            counts.erased(profile);
            self.erase(&profile.key).await?;
        }
        if let Some(row) = &row {
            counts.users += 1;
            counts.erased(row);
        }
        // Even if it is missing: it may come yet.
        self.erase(&key).await?;
        Ok(counts)
    }

    /// Those of a person's pictures that no person who stays has: many have one default picture.
    async fn only_theirs(
        &self,
        team: &TeamId,
        user: &UserId,
        mut pictures: BTreeSet<FileKey>,
        counts: &mut EraserCounts,
    ) -> Result<BTreeSet<FileKey>, EraserError> {
        let mut query = Query { limit: PAGE, ..Query::partition(key::users(team)) };
        while !pictures.is_empty() {
            let page = self.archive.query(&query).await?;
            self.read(counts, &page.items);
            let stays = |row: &&Item| {
                row.key.timestamp != user.as_str() && !row.is_erased() && !self.covered.covers_row(row)
            };
            for other in page.items.iter().filter(stays) {
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
