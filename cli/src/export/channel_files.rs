//! Files of an export, such as one for each channel, in a folder for each workspace if there are several.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::source::{ExportSource, ExportedChannel};
use crate::operate::target::private_file_options;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// A file of an export that is being written.
pub(super) type ExportFile = BufWriter<File>;

/// Creates a file and its folder.
pub(super) fn create(path: &Path) -> io::Result<ExportFile> {
    if let Some(folder) = path.parent() {
        disk::create_private_folder(folder)?;
    }
    Ok(BufWriter::with_capacity(BUFFER_BYTES, private_file_options().open(path)?))
}

/// Flushes a file and syncs it to disk.
pub(super) fn finish(file: ExportFile) -> io::Result<()> {
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Writes a whole file.
pub(super) fn save(path: &Path, content: &str) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(content.as_bytes())?;
    finish(file)
}

/// Creates the file of a channel.
pub(super) fn create_for_channel(
    source: &ExportSource<'_>,
    channel: &ExportedChannel<'_>,
    folder: &Path,
    extension: &str,
) -> io::Result<ExportFile> {
    let mut path = folder.to_owned();
    path.extend(source.folder_of_team(&channel.joined.current_location().team).map(ToString::to_string));
    path.push(format!("{}.{extension}", channel.folder));
    create(&path)
}
