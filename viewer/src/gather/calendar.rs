//! The days of a month on which a channel has messages.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use reader::joined::ChannelOfTeam;
use search::counts::ChannelActivity;
use search::index::SearchIndex;
use slack::ids::Ts;

use crate::answer::PageError;
use crate::index::ChannelActivities;
use crate::pages::calendar::ChannelCalendar;
use crate::times;

/// Reads a month, by default that of the newest message; `None` for a channel without messages, and beyond the calendar.
pub(crate) async fn read(
    index: &SearchIndex,
    locations: &[ChannelOfTeam],
    activity: &ChannelActivities,
    month: Option<Date>,
    zone: &TimeZone,
) -> Result<Option<ChannelCalendar>, PageError> {
    let known = || locations.iter().filter_map(|location| activity.get(location));
    let end =
        |ends: fn(&ChannelActivity) -> &Option<Ts>| known().filter_map(move |known| ends(known).as_ref());
    let oldest = end(|known| &known.oldest).min_by_key(|ts| ts.micros());
    let newest = end(|known| &known.newest).max_by_key(|ts| ts.micros());
    let newest_day = newest.and_then(|newest| times::day(newest, zone));
    let Some(first) = month.or(newest_day).map(Date::first_of_month) else { return Ok(None) };
    let bounds = (0..=i32::from(first.days_in_month()))
        .map(|day| times::day_start(first.checked_add(day.days()).ok()?, zone))
        .collect::<Option<Vec<Ts>>>();
    let Some(bounds) = bounds else { return Ok(None) };
    let days = index.are_used(locations, &bounds).await.map_err(|_| PageError::NoIndex)?;
    let (has_earlier, has_later) = (
        oldest.is_some_and(|oldest| Some(oldest) < bounds.first()),
        newest.is_some_and(|newest| Some(newest) >= bounds.last()),
    );
    Ok(Some(ChannelCalendar { first, days, has_earlier, has_later }))
}
