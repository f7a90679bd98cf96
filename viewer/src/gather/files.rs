//! A page of the files of every workspace, and the page of a canvas.

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key};
use reader::find;
use rules::file::canvas_text;
use rules::project;
use rules::view::FileView;
use slack::ids::{FileId, TeamId};

use crate::pages::files::{CanvasPage, FilesPage};

/// Files per page.
const PAGE: usize = 100;

/// The start of a page: after this file of this workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesStart {
    pub team: TeamId,
    /// The file's id.
    pub file: String,
}

/// Reads a page.
pub async fn read(archive: &dyn Archive, start: Option<&FilesStart>) -> Result<FilesPage, ArchiveError> {
    let mut page = FilesPage::default();
    let teams = find::teams(archive).await?;
    for team in teams.iter().filter(|team| start.is_none_or(|start| **team >= start.team)) {
        let partition = key::files(team);
        let after = start.filter(|start| start.team == *team);
        let after = after.map(|start| ItemKey::new(partition.clone(), start.file.clone()));
        let mut query = Query { after, limit: PAGE, ..Query::partition(partition) };
        loop {
            let rows = archive.query(&query).await?;
            for item in &rows.items {
                if page.files.len() == PAGE {
                    page.next = next(&page);
                    return Ok(page);
                }
                page.files.extend(project::file(item));
            }
            match rows.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    Ok(page)
}

/// Reads the page of a canvas; `None` if the file is unknown or no canvas.
pub async fn read_canvas(
    archive: &dyn Archive,
    team: &TeamId,
    file: &FileId,
) -> Result<Option<CanvasPage>, ArchiveError> {
    let keys = [ItemKey::file(team, file), ItemKey::canvas_text(team, file)];
    let mut rows = archive.get_all(&[&keys[0], &keys[1]]).await?.into_iter();
    let file = rows.next().flatten().as_ref().and_then(project::file);
    let text = rows.next().flatten().as_ref().and_then(canvas_text::read);
    let file = file.filter(FileView::is_canvas);
    Ok(file.map(|file| CanvasPage { file, text: text.map(|text| text.text).unwrap_or_default() }))
}

/// Returns the address of the page after the last file. Ids are letters and digits, so they need no escaping.
fn next(page: &FilesPage) -> Option<String> {
    let last = page.files.last()?;
    Some(format!("/files?team={}&after={}", last.team()?, last.id()?))
}
