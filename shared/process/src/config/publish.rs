//! The settings of a public site.

use std::path::PathBuf;

use super::bucket::{BUCKET_PLACE, BucketPlace};

/// The names of people on a public site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PublicNaming {
    /// Their display names
    #[default]
    Display,
    /// A pseudonym for each person, which stays the same
    Pseudonym,
}

/// Whether a public site has a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PublicSearch {
    /// If the program Pagefind is installed
    #[default]
    Auto,
    /// Always: a run without Pagefind fails
    On,
    /// Never
    Off,
}

/// The bytes of files on a public site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PublicFiles {
    /// A file is shown as its name
    #[default]
    None,
    /// The files of all messages that are shown, and the pictures of custom emoji
    All,
}

/// The settings of a public site that have variables.
#[derive(Debug, Clone, clap::Args)]
pub struct PublicSiteArgs {
    /// The folder of the site. It must be missing, empty, or a site of an earlier run
    #[arg(long, env = "ANNALIST_PUBLISH_OUT", value_name = "DIR", required = true)]
    pub out: Option<PathBuf>,
    /// The address at which the folder is served
    #[arg(long, env = "ANNALIST_PUBLISH_URL", value_name = "URL", required = true, value_parser = SiteUrl::parse)]
    pub url: Option<SiteUrl>,
    /// Publish the channels in this file: a name or an id per line
    #[arg(long, env = "ANNALIST_PUBLISH_CHANNELS_FILE", value_name = "FILE")]
    pub channels_file: Option<PathBuf>,
    /// The title of the site [default: the name of the workspace]
    #[arg(long, env = "ANNALIST_PUBLISH_TITLE", value_name = "TEXT")]
    pub title: Option<String>,
    /// The names of people
    #[arg(long, env = "ANNALIST_PUBLISH_NAMES", value_enum, default_value_t)]
    pub names: PublicNaming,
    /// The bytes of files
    #[arg(long, env = "ANNALIST_PUBLISH_FILES", value_enum, default_value_t)]
    pub files: PublicFiles,
    /// The search of the site, which Pagefind makes
    #[arg(long, env = "ANNALIST_PUBLISH_SEARCH", value_enum, default_value_t)]
    pub search: PublicSearch,
    /// The program Pagefind [default: pagefind in PATH]
    #[arg(long, env = "ANNALIST_PAGEFIND", value_name = "PATH")]
    pub pagefind: Option<PathBuf>,
    /// Copy what changed to a bucket of S3, or of a store that speaks its protocol
    #[arg(long, env = "ANNALIST_PUBLISH_UPLOAD", value_name = BUCKET_PLACE)]
    pub upload: Option<BucketPlace>,
}

/// The address of a site, with a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteUrl(String);

impl SiteUrl {
    /// Reads an address of `http` or `https` with a host and a path.
    ///
    /// # Errors
    /// A text that shows the expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "use an address such as https://chat.example.org/archive/";
        let rest =
            ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme)).ok_or(EXPECTED)?;
        let host = rest.split('/').next().unwrap_or_default();
        let (name, port) = host.rsplit_once(':').filter(|_| !host.ends_with(']')).unwrap_or((host, "80"));
        let is_host = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c))
            && port.parse::<u16>().is_ok();
        let is_path = rest.chars().all(|c| c.is_ascii_graphic() && !"?#\"'<>\\`{}|^@".contains(c));
        if !is_host || !is_path {
            return Err(EXPECTED);
        }
        Ok(Self(format!("{}/", text.strip_suffix('/').unwrap_or(text))))
    }

    /// The address, with a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of the address, with a slash at its end.
    pub fn path(&self) -> &str {
        let start = self.0.match_indices('/').nth(2).map_or(self.0.len(), |(start, _)| start);
        &self.0[start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_ends_with_one_slash() {
        for (text, address, path) in [
            ("https://example.org", "https://example.org/", "/"),
            ("http://localhost:8080/a/b/", "http://localhost:8080/a/b/", "/a/b/"),
            ("https://[::1]:80/a", "https://[::1]:80/a/", "/a/"),
        ] {
            let url = SiteUrl::parse(text).unwrap();
            assert_eq!((url.as_str(), url.path()), (address, path));
        }
        for refused in [
            "example.org",
            "ftp://x",
            "https://",
            "https:///a",
            "https://x/?a",
            "https://x/#a",
            "https://x y/",
            "https://x:port/",
            "https://me@x/",
            "https://x/\"",
            "",
        ] {
            assert!(SiteUrl::parse(refused).is_err(), "{refused}");
        }
    }
}
