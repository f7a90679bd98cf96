//! Bytes that no row names. Rows lead the eraser to bytes, so it would never find these: bytes that were copied
//! into a restored folder, for example, after the copy of its rows.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, ItemKey, Query};
use ports::files::{FileKey, FileKeyParts};
use rules::file::{image, named};

use super::PAGE;

/// Those of these keys that no row names. Keys that this program does not create are not among them.
pub async fn unnamed(
    archive: &dyn Archive,
    keys: impl IntoIterator<Item = FileKey>,
) -> Result<BTreeSet<FileKey>, ArchiveError> {
    let (mut files, mut pictures, mut teams) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for key in keys {
        match key.parts() {
            Some(FileKeyParts::Image { team }) => {
                teams.insert(team);
                pictures.insert(key);
            }
            Some(parts @ FileKeyParts::Shared { .. }) => files.push((key, parts)),
            None => {}
        }
    }
    for partition in teams.iter().flat_map(named::partitions_of_pictures) {
        if pictures.is_empty() {
            break;
        }
        let mut query = Query { limit: PAGE, ..Query::partition(partition) };
        loop {
            let page = archive.query(&query).await?;
            for key in page.items.iter().flat_map(image::keys) {
                pictures.remove(&key);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    let mut found = pictures;
    for files in files.chunks(PAGE) {
        let rows: Vec<Vec<ItemKey>> = files.iter().map(|(_, parts)| named::rows_of(parts)).collect();
        let keys: BTreeSet<&ItemKey> = rows.iter().flatten().collect();
        let keys: Vec<&ItemKey> = keys.into_iter().collect();
        let items = archive.get_all(&keys).await?;
        let items: BTreeMap<&ItemKey, _> =
            keys.into_iter().zip(items).filter_map(|(key, item)| Some((key, item?))).collect();
        for ((key, parts), rows) in files.iter().zip(&rows) {
            let is_named =
                rows.iter().any(|row| items.get(row).is_some_and(|row| named::names(row, key, parts)));
            if !is_named {
                found.insert(key.clone());
            }
        }
    }
    Ok(found)
}
