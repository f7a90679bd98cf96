//! A file for each channel, in a folder for each workspace if there are several.

use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::source::{ExportSource, ExportedChannel};
use crate::operate::target::private_file_options;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// A file of an export that is being written.
pub(super) struct ExportFile(BufWriter<File>);

impl ExportFile {
    /// Creates the file and its folder.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(folder)?;
        }
        Ok(Self(BufWriter::with_capacity(BUFFER_BYTES, private_file_options().open(path)?)))
    }

    /// Flushes the file and syncs it to disk.
    pub(super) fn finish(self) -> io::Result<()> {
        self.0.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl Write for ExportFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the path of a channel's file.
pub(super) fn path(
    source: &ExportSource<'_>,
    channel: &ExportedChannel<'_>,
    folder: &Path,
    extension: &str,
) -> PathBuf {
    let mut path = folder.to_owned();
    path.extend(source.folder_of_team(&channel.joined.current_location().team).map(ToString::to_string));
    path.push(format!("{}.{extension}", channel.folder));
    path
}
