//! Writes updates that most likely change nothing: the rows are read first.

use ports::archive::{Archive, ArchiveError, ArchiveExt, Update};

/// Rows that are read or written together.
const ROWS_AT_ONCE: usize = 512;

/// Writes the updates that change something; returns their number.
pub(crate) async fn write_changed(archive: &dyn Archive, updates: &[Update]) -> Result<u64, ArchiveError> {
    let mut written = 0;
    for updates in updates.chunks(ROWS_AT_ONCE) {
        let keys: Vec<_> = updates.iter().map(|update| &update.key).collect();
        let stored = archive.get_all(&keys).await?;
        let changes = updates.iter().zip(&stored).filter(|(update, stored)| {
            let attributes = stored.as_ref().map(|stored| &stored.attributes);
            match update.apply(attributes) {
                Some(after) => Some(&after) != attributes,
                None => stored.as_ref().and_then(|stored| update.left_out(stored)).is_some(),
            }
        });
        let changes: Vec<&Update> = changes.map(|(update, _)| update).collect();
        for outcome in archive.write_all(&changes).await {
            outcome?;
        }
        written += changes.len() as u64;
    }
    Ok(written)
}
