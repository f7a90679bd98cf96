//! Counts a channel's day and stores what it counted.

use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Update, WriteOutcome};
use reader::figures::counting;
use rules::figures::day::DayFigures;
use rules::figures::rollup::{self, ChannelDay};
use slack::ids::UserId;

/// First posts that are asked for, and written, at once.
const AT_ONCE: usize = 100;

/// What became of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayOutcome {
    /// No count was asked for, or another one ended what was asked for.
    NotDue,
    /// It is as it was.
    Same,
    /// Its roll-up changed.
    Changed,
}

/// Counts a day that is to be counted. The row that asks for it is read before the messages and deleted at the end, if nothing
/// has asked since: whatever comes between is counted again.
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
        // Before the roll-up: a stored report that was made meanwhile is never taken for one of the day as it is now.
        renew(archive, day, &due, &figures).await?;
    }
    archive.write(&day.rollup(&due, &figures)).await?;
    archive.delete_unchanged(&due).await?;
    Ok(if is_new { DayOutcome::Changed } else { DayOutcome::Same })
}

/// Gives the day over all channels another version.
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

/// Lowers the first posts of the people who wrote on this day, if they did not write before.
async fn first_posts(
    archive: &dyn Archive,
    day: &ChannelDay,
    figures: &DayFigures,
) -> Result<(), ArchiveError> {
    let firsts = figures
        .people
        .iter()
        .filter_map(|(id, person)| Some(day.first_post(&UserId::parse(id).ok()?, person.first.as_ref()?)));
    let firsts: Vec<Update> = firsts.collect();
    for firsts in firsts.chunks(AT_ONCE) {
        let keys: Vec<&ItemKey> = firsts.iter().map(|first| &first.key).collect();
        let known = archive.get_all(&keys).await?;
        let is_news = |(first, known): &(&Update, &Option<Item>)| {
            first.guard.holds(&known.as_ref().map(|known| known.attributes.clone()).unwrap_or_default())
        };
        let news: Vec<&Update> = firsts.iter().zip(&known).filter(is_news).map(|(first, _)| first).collect();
        for written in archive.write_all(&news).await {
            written?;
        }
    }
    Ok(())
}
