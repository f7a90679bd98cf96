//! The row that says how the last copy went.

use copies::BaseTime;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, ItemKey, Update};
use ports::clock::TimestampMs;
use process::config::copy::CopyTarget;
use serde::Serialize;

use crate::plain;

/// A night may be an hour longer than a day, and a copy may take some hours.
const TWO_NIGHTS_MS: i64 = 54 * 3_600_000;

/// The state of the copies, as `status --json` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CopyState {
    /// The target.
    pub(crate) to: Option<String>,
    /// The last copy.
    pub(crate) at: Option<String>,
    /// Why copies have failed since then.
    pub(crate) error: Option<String>,
    /// Whether the last copy is older than two nights, which is the time in which one may be missed.
    #[serde(skip)]
    pub(crate) is_old: bool,
}

impl CopyState {
    /// `20261126T030000Z in /mnt/backup; since then: …`.
    pub(crate) fn text(&self) -> String {
        let to = self.to.as_deref().unwrap_or("?");
        let at = self.at.as_deref().map_or_else(|| format!("none in {to}"), |at| format!("{at} in {to}"));
        match &self.error {
            Some(error) => format!("{at}; since then: {}", plain::excerpt(error, 200)),
            None => at,
        }
    }
}

/// Stores the outcome of an attempt: the time of a copy, or why there is none. The newest attempt decides.
pub(super) async fn store(
    archive: &dyn Archive,
    target: &CopyTarget,
    tried: TimestampMs,
    made: Result<&str, &anyhow::Error>,
) -> Result<(), ArchiveError> {
    let key = ItemKey::archive_copy();
    let guard = Guard::Greater { register: "tried".to_owned(), version: format!("{:015}", tried.0) };
    let mut update = Update { guard, ..Update::new(key) };
    update.set.insert("to".to_owned(), target.to_string().into());
    match made {
        Ok(at) => {
            update.set.insert("at".to_owned(), at.into());
            update.remove.push("error");
        }
        Err(error) => {
            update.set.insert("error".to_owned(), format!("{error:#}").into());
        }
    }
    archive.write(&update).await.map(drop)
}

/// Reads how the last copy went; `None` if none was ever tried.
pub(crate) async fn read(archive: &dyn Archive, now: TimestampMs) -> Result<Option<CopyState>, ArchiveError> {
    let row = archive.get(&ItemKey::archive_copy()).await?;
    Ok(row.map(|row| {
        let text = |name: &str| row.text(name).map(str::to_owned);
        let at = text("at");
        let made = at.as_deref().and_then(BaseTime::parse).and_then(|at| at.timestamp());
        let is_old = made.is_none_or(|made| now.0 - made.as_millisecond() > TWO_NIGHTS_MS);
        CopyState { to: text("to"), at, error: text("error"), is_old }
    }))
}

#[cfg(test)]
mod tests {
    use process::config::copy::CopyTarget;

    use super::*;
    use crate::fixture::CliFixture;

    #[tokio::test]
    async fn a_copy_is_old_after_two_nights() {
        let fixture = CliFixture::open().await;
        let target = CopyTarget::Folder("/mnt/copies".into());
        let made = "20261126T030000Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
        store(fixture.archive(), &target, TimestampMs(made), Ok("20261126T030000Z")).await.unwrap();
        for (hours, expected) in [(0, false), (53, false), (55, true)] {
            let now = TimestampMs(made + hours * 3_600_000);
            assert_eq!(read(fixture.archive(), now).await.unwrap().unwrap().is_old, expected, "{hours}");
        }
    }
}
