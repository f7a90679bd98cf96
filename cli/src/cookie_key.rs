//! The secret with which the log-in cookies of the pages are keyed. It is kept next to the search index, so that
//! a browser stays logged in when `annalist` restarts.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use viewer::access::CookieKey;

/// The name of the file. Nothing else needs it, and no backup has it: without it, browsers log in again.
pub(crate) const FILE: &str = "viewer.key";

/// Returns the key in this file. Makes another one if the file is missing, or is not a key. If it cannot be used,
/// the key is valid until this process ends.
pub(crate) fn read_or_create(path: &Path) -> anyhow::Result<CookieKey> {
    let mut random = [0; CookieKey::BYTES];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("there are no random numbers: {error}"))?;
    let key = read(path).and_then(|key| match key {
        Some(key) => Ok(key),
        None => {
            create(path, &random)?;
            // Another process may have created it too: the file decides.
            Ok(read(path)?.unwrap_or_else(|| CookieKey::new(random)))
        }
    });
    Ok(key.unwrap_or_else(|error| {
        tracing::warn!(
            %error, file = %path.display(),
            "cannot keep the secret of log-in cookies: browsers log in again after a restart"
        );
        CookieKey::new(random)
    }))
}

fn read(path: &Path) -> io::Result<Option<CookieKey>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() == CookieKey::BYTES as u64 => {
            Ok(<[u8; CookieKey::BYTES]>::try_from(fs::read(path)?).ok().map(CookieKey::new))
        }
        Ok(metadata) if metadata.is_file() => Ok(None),
        Ok(_) => Err(io::Error::other("it is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the whole file under another name first, because another process may read it at any time.
fn create(path: &Path, key: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension(format!("key.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    file.write_all(key)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let bytes = || {
            read_or_create(&path).unwrap();
            fs::read(&path).unwrap()
        };
        let first = bytes();
        assert!(first.len() == CookieKey::BYTES && first.iter().any(|byte| *byte != first[0]));
        assert_eq!(bytes(), first);
        for damaged in [&b""[..], b"short", &[7; 33]] {
            fs::write(&path, damaged).unwrap();
            assert!(bytes().len() == CookieKey::BYTES && bytes() != first, "{damaged:?}");
        }
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read_or_create(&path).is_ok() && path.is_dir());
    }
}
