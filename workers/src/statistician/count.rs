//! Counts a channel's day and stores the figures.

use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Update, WriteOutcome};
use reader::figures::counting;
use rules::figures::day::DayFigures;
use rules::figures::rollup::{self, ChannelDay};
use slack::ids::UserId;

/// First posts that are read and written in one call.
const AT_ONCE: usize = 100;

/// The result of counting a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayOutcome {
    /// No count was requested, or another process completed the request.
    NotDue,
    /// Its figures did not change.
    Same,
    /// Its roll-up changed.
    Changed,
}

/// Counts a day if a count is requested. The row of the request is read before the messages and deleted at
/// the end, unless there was another request since, so every later change is counted again.
pub(super) async fn count(archive: &dyn Archive, day: &ChannelDay) -> Result<DayOutcome, ArchiveError> {
    let keys = [day.due_key(), day.rollup_key()];
    let rows = archive.get_all(&[&keys[0], &keys[1]]).await?;
    let [Some(due), stored] = <[Option<Item>; 2]>::try_from(rows).unwrap_or_default() else {
        return Ok(DayOutcome::NotDue);
    };
    let figures = counting::count_day(archive, day).await?;
    let is_new = stored.as_ref().and_then(rollup::figures).as_ref() != Some(&figures);
    if is_new {
        first_posts(archive, day, &figures).await?;
        // Before the roll-up: otherwise a report stored meanwhile could be treated as one of the new figures.
        renew(archive, day, &due, &figures).await?;
    }
    archive.write(&day.rollup(&due, &figures)).await?;
    archive.delete_unchanged(&due).await?;
    Ok(if is_new { DayOutcome::Changed } else { DayOutcome::Same })
}

/// Gives the day, summed over all channels, a new version.
async fn renew(
    archive: &dyn Archive,
    day: &ChannelDay,
    due: &Item,
    figures: &DayFigures,
) -> Result<(), ArchiveError> {
    let mut row = archive.get(&day.day_key()).await?;
    loop {
        match archive.write(&day.renew(row.as_ref(), due, figures)).await? {
            WriteOutcome::Applied => return Ok(()),
            // Another channel's day was counted at the same time.
            WriteOutcome::Rejected(item) => row = Some(item),
        }
    }
}

/// Lowers the first posts of the people who wrote on this day, unless they wrote earlier.
async fn first_posts(
    archive: &dyn Archive,
    day: &ChannelDay,
    figures: &DayFigures,
) -> Result<(), ArchiveError> {
    let first_posts = figures
        .people
        .iter()
        .filter_map(|(id, person)| Some(day.first_post(&UserId::parse(id).ok()?, person.first.as_ref()?)));
    let first_posts: Vec<Update> = first_posts.collect();
    for first_posts in first_posts.chunks(AT_ONCE) {
        let keys: Vec<&ItemKey> = first_posts.iter().map(|first| &first.key).collect();
        let known = archive.get_all(&keys).await?;
        let is_earlier = |(first, known): &(&Update, &Option<Item>)| {
            first.guard.holds(&known.as_ref().map(|known| known.attributes.clone()).unwrap_or_default())
        };
        let earlier: Vec<&Update> =
            first_posts.iter().zip(&known).filter(is_earlier).map(|(first, _)| first).collect();
        for written in archive.write_all(&earlier).await {
            written?;
        }
    }
    Ok(())
}
