//! Whether a hold keeps something that an erasure covers.

use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope, HoldFact};
use ports::archive::{Archive, ArchiveError, Query, key};

use super::{PAGE, channels_of};

/// Returns the hold of the first message that both an erasure covers and a hold keeps.
pub async fn find_held(
    archive: &dyn Archive,
    fact: &ErasureFact,
    holds: &ErasureFacts,
) -> Result<Option<HoldFact>, ArchiveError> {
    let covered: ErasureFacts = std::iter::once(fact).collect();
    let channels = match &fact.scope {
        ErasureScope::User(_) => channels_of(archive, &fact.team).await?,
        ErasureScope::Channel(channel) | ErasureScope::Message(channel, _) => [channel.clone()].into(),
    };
    for channel in channels {
        let mut query = Query { limit: PAGE, ..Query::partition(key::messages(&fact.team, &channel)) };
        loop {
            let page = archive.query(&query).await?;
            let mut due = page.items.iter().filter(|row| covered.covers_row(row));
            if let Some(hold) = due.find_map(|row| holds.hold_of(row)) {
                return Ok(Some(hold.clone()));
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    Ok(None)
}
