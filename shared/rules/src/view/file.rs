//! A file, independent of where it was shared.

use serde_json::Value;

use super::{list, view};
use slack::ids::{ChannelId, FileId, TeamId, Ts};

view! {
    /// A file, as [`crate::project::file`] returns it.
    FileView
}

impl FileView {
    fn text_of(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    pub fn team(&self) -> Option<TeamId> {
        TeamId::parse(self.text_of("team_id")?).ok()
    }

    pub fn id_text(&self) -> Option<&str> {
        self.text_of("file_id")
    }

    pub fn id(&self) -> Option<FileId> {
        FileId::parse(self.id_text()?).ok()
    }

    pub fn name(&self) -> Option<&str> {
        self.text_of("name")
    }

    /// The content type, as Slack reports it.
    pub fn mimetype(&self) -> Option<&str> {
        self.text_of("mimetype")
    }

    /// `held`, `failed`, `skipped` or `pending`.
    pub fn state(&self) -> Option<&str> {
        self.text_of("state")
    }

    /// Why it is not stored, if the answer is final.
    pub fn verdict(&self) -> Option<&str> {
        self.text_of("verdict")
    }

    /// Why it could not be fetched.
    pub fn error(&self) -> Option<&str> {
        self.text_of("error")
    }

    /// The key of its bytes, or their address.
    pub fn uri(&self) -> Option<&str> {
        self.text_of("uri")
    }

    /// The keys of its other stored versions, or their addresses.
    pub fn other_uris(&self) -> impl Iterator<Item = &str> {
        list(&self.0["other_uris"]).iter().filter_map(Value::as_str)
    }

    pub fn size_bytes(&self) -> Option<u64> {
        self.0["size_bytes"].as_u64()
    }

    /// Whether it is deleted in Slack.
    pub fn is_deleted(&self) -> bool {
        self.0["deleted"] == true
    }

    /// Whether it is a canvas: only a canvas has versions.
    pub fn is_canvas(&self) -> bool {
        self.0["versions"].is_array()
    }

    /// The versions of a canvas, oldest first.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = FileVersionView<'_>> + ExactSizeIterator {
        list(&self.0["versions"]).iter().map(FileVersionView)
    }

    /// The messages that share it.
    pub fn shares(&self) -> impl Iterator<Item = (ChannelId, Ts)> {
        list(&self.0["shares"]).iter().filter_map(|share| {
            let channel = ChannelId::parse(share["channel_id"].as_str()?).ok()?;
            Some((channel, Ts::parse(share["ts"].as_str()?).ok()?))
        })
    }
}

/// A version of a canvas.
#[derive(Debug, Clone, Copy)]
pub struct FileVersionView<'f>(&'f Value);

impl<'f> FileVersionView<'f> {
    /// The time of the edit, in seconds.
    pub fn updated_s(self) -> Option<u64> {
        self.0["updated"].as_u64()
    }

    /// The key of its bytes, or their address.
    pub fn uri(self) -> Option<&'f str> {
        self.0["uri"].as_str()
    }

    /// Why it is not stored.
    pub fn verdict(self) -> Option<&'f str> {
        self.0["verdict"].as_str()
    }

    pub fn size_bytes(self) -> Option<u64> {
        self.0["size_bytes"].as_u64()
    }
}
