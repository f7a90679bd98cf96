//! Cleaning: old bases go, then the blocks that no base lists.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};

use crate::{Base, BlockId, CopyError, CopyStore, list_bases, list_blocks};

/// Removes the bases that are older than `keep`, but never the newest one, then the blocks that no base lists. Killed,
/// the next cleaning goes on.
///
/// # Errors
/// [`CopyError`]: also if a base that stays is damaged, because nobody knows its blocks; it goes with its age.
pub async fn clean(store: &dyn CopyStore, keep: SignedDuration, now: Timestamp) -> Result<(), CopyError> {
    let mut bases = list_bases(store).await?;
    let newest = bases.pop();
    let mut listed: HashSet<BlockId> = HashSet::new();
    for at in bases {
        if at.timestamp().is_some_and(|made| now.duration_since(made) >= keep) {
            store.delete(&at.object()).await?;
        } else {
            listed.extend(Base::read(store, &at).await?.blocks());
        }
    }
    // Without a base, its blocks may be those of a first copy that was interrupted.
    let Some(newest) = newest else { return Ok(()) };
    listed.extend(Base::read(store, &newest).await?.blocks());
    for block in list_blocks(store).await?.difference(&listed) {
        store.delete(&block.object()).await?;
    }
    Ok(())
}
