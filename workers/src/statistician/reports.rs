//! Stores reports, and removes them.

use ports::archive::{Archive, ArchiveError, ArchiveExt, Query, WriteOutcome, key, query_all};
use rules::figures::stored_report::KeptReport;
use slack::ids::TeamId;

/// Stores a report; returns whether it did. If another process stores the same report at the same time, that
/// one wins; a report that is too large for rows is not stored.
pub async fn store(archive: &dyn Archive, report: &KeptReport) -> Result<bool, ArchiveError> {
    if !report.fits() {
        return Ok(false);
    }
    let keys = report.keys();
    let stored = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let rows = report.rows(&stored);
    let Some((head, chunks)) = rows.split_last() else { return Ok(false) };
    // The listing row is written first, so that every stored part can be removed, and the head last.
    let listed = report.list_entry();
    for rows in [vec![&listed], chunks.iter().collect(), vec![head]] {
        for outcome in archive.write_all(&rows).await {
            if outcome? != WriteOutcome::Applied {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Removes all stored reports of a workspace; the listing row of each goes last.
pub(crate) async fn remove(archive: &dyn Archive, team: &TeamId) -> Result<(), ArchiveError> {
    for listed in query_all(archive, Query::partition(key::reports(team))).await? {
        let rows = query_all(archive, Query::partition(key::report(team, &listed.key.timestamp))).await?;
        for row in rows.iter().chain([&listed]) {
            archive.delete_unchanged(row).await?;
        }
    }
    Ok(())
}
