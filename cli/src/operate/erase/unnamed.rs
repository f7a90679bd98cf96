//! Bytes among the files of a data folder that no row names. An erasure removes them, because no row says to whom they
//! belong: after a restore, for example, the folder may contain a file whose row is older than the file.

use ports::files::FileKey;
use process::config::backend::Backend;
use workers::eraser::{EraserCounts, EraserMode, unnamed};
use workers::runtime::keys_of;

use super::request::EraseRequest;

/// Counts the files of these workspaces that no row names, or removes them. A file of a job on a queue stays:
/// its worker stores the bytes first, and the row that names them afterwards.
pub(super) async fn erase(
    backend: &Backend,
    request: &EraseRequest,
    mode: EraserMode,
) -> anyhow::Result<EraserCounts> {
    let mut counts = EraserCounts::default();
    let Some(database) = backend.database() else { return Ok(counts) };
    let (archive, files) = (backend.archive(), backend.files());
    let teams = request.teams();
    let is_due = |key: &FileKey| key.parts().is_some_and(|parts| teams.contains(&parts.team()));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = files.list(after.as_ref()).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        found.extend(unnamed(&*archive, page.into_iter().map(|file| file.key).filter(is_due)).await?);
    }
    if found.is_empty() {
        return Ok(counts);
    }
    // In this order: a job that is gone by now has written its row, which is read after it.
    let mut after = i64::MIN;
    loop {
        let jobs = database.queued_jobs(after).await?;
        let Some(last) = jobs.last() else { break };
        after = last.seq;
        let of_jobs: Vec<FileKey> = jobs.iter().flat_map(|job| keys_of(&job.body)).collect();
        found.retain(|key| !of_jobs.contains(key));
    }
    for key in unnamed(&*archive, found).await? {
        counts.unnamed += 1;
        counts.bytes += files.open(&key).await?.map_or(0, |reader| reader.size_bytes());
        if mode != EraserMode::Plan {
            files.delete(&key).await?;
        }
    }
    Ok(counts)
}
