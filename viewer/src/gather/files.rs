//! A page of the files of every workspace, and the page of a canvas.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key};
use reader::files::FileOrigin;
use reader::find;
use rules::file::canvas_text;
use rules::project;
use rules::view::FileView;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

use crate::pages::files::{CanvasPage, FileKind, FileStateName, FilesPage, FilesStart, ShownFile};

/// Files per page.
const PAGE: usize = 50;

/// Maximum number of rows that are read for a page: a fraction of a second. A link leads to the others.
const MAX_ROWS: usize = 20_000;

/// Which files are listed.
#[derive(Debug, Clone, Default)]
pub struct FilesFilter {
    /// The name contains this text, in lower case.
    pub name: String,
    /// They are shared in one of these channels, if there are any.
    pub channels: Vec<ChannelId>,
    /// One of these people uploaded them; `None` for anyone.
    pub people: Option<Vec<UserId>>,
    /// Their type.
    pub kind: Option<FileKind>,
    pub state: Option<FileStateName>,
}

impl FilesFilter {
    fn admits(&self, file: &ShownFile) -> bool {
        let row = &file.row;
        let is_from = |people: &Vec<UserId>| file.user.as_ref().is_some_and(|user| people.contains(user));
        (self.name.is_empty() || row.name().unwrap_or_default().to_lowercase().contains(&self.name))
            && (self.channels.is_empty() || row.shares().any(|(channel, _)| self.channels.contains(&channel)))
            && self.people.as_ref().is_none_or(is_from)
            && self.kind.is_none_or(|kind| kind == FileKind::of(row.mimetype().unwrap_or_default()))
            && self.state.is_none_or(|state| row.state() == Some(state.as_str()))
    }
}

/// Reads a page: the files that the filter admits among those that are read, newest first.
pub async fn read(
    archive: &dyn Archive,
    filter: &FilesFilter,
    start: &FilesStart,
) -> Result<FilesPage, ArchiveError> {
    let (mut listed, last) = read_rows(archive, filter, start.after.as_ref()).await?;
    listed.sort_by_cached_key(|file| {
        (Reverse(file.shared_at.as_ref().map(Ts::micros)), file.row.id_text().map(str::to_owned))
    });
    let from = start.page.saturating_mul(PAGE).min(listed.len());
    let rest = listed.split_off(from);
    let is_last_page = rest.len() <= PAGE;
    let next = if is_last_page {
        last.map(|last| FilesStart { after: Some(last), page: 0 })
    } else {
        Some(FilesStart { after: start.after.clone(), page: start.page + 1 })
    };
    Ok(FilesPage { files: rest.into_iter().take(PAGE).collect(), next })
}

/// Reads at most [`MAX_ROWS`] rows. Returns also the last one, if there are more.
async fn read_rows(
    archive: &dyn Archive,
    filter: &FilesFilter,
    start: Option<&(TeamId, String)>,
) -> Result<(Vec<ShownFile>, Option<(TeamId, String)>), ArchiveError> {
    let (mut listed, mut read) = (Vec::new(), 0);
    let teams = find::teams(archive).await?;
    for team in teams.iter().filter(|team| start.is_none_or(|(first, _)| *team >= first)) {
        if read >= MAX_ROWS {
            return Ok((listed, Some((team.clone(), String::new()))));
        }
        let partition = key::files(team);
        let after = start.filter(|(first, _)| first == team);
        let after = after.map(|(_, file)| ItemKey::new(partition.clone(), file.clone()));
        let mut query = Query { after, limit: MAX_ROWS - read, ..Query::partition(partition) };
        loop {
            let rows = archive.query(&query).await?;
            read += rows.items.len();
            let files = rows.items.iter().filter_map(listed_file);
            listed.extend(files.filter(|file| filter.admits(file)));
            let Some(next) = rows.next else { break };
            if read >= MAX_ROWS {
                return Ok((listed, Some((team.clone(), next.timestamp))));
            }
            query.limit = MAX_ROWS - read;
            query.after = Some(next);
        }
    }
    Ok((listed, None))
}

fn listed_file(item: &Item) -> Option<ShownFile> {
    let row = project::file(item)?;
    let FileOrigin { user, shared_at } = FileOrigin::read(item);
    Some(ShownFile { user, shared_at, row })
}

/// The names of files, by workspace and id: a message may have the id alone.
pub async fn names(
    archive: &dyn Archive,
    files: impl Iterator<Item = (TeamId, FileId)>,
) -> Result<BTreeMap<(TeamId, FileId), String>, ArchiveError> {
    let files: Vec<(TeamId, FileId)> = files.collect();
    let keys: Vec<ItemKey> = files.iter().map(|(team, file)| ItemKey::file(team, file)).collect();
    let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let name = |row: Option<Item>| Some(project::file(&row?)?.name()?.to_owned());
    Ok(files.into_iter().zip(rows).filter_map(|(file, row)| Some((file, name(row)?))).collect())
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
