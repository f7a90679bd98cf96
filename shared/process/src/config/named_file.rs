//! Reads the files that settings and commands name. A name may lead to anything: a device without an end, a FIFO
//! without a writer.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Maximum size of a file with a setting: some ten thousand tokens.
pub const MAX_SETTING_BYTES: u64 = 1024 * 1024;

/// Reads a regular file of at most this many bytes.
///
/// # Errors
/// Why it cannot be used, without any of its content.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, String> {
    // Before it is opened: to open a FIFO waits for its writer.
    if !fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > max_bytes {
        return Err(format!("it is longer than {}", size(max_bytes)));
    }
    Ok(text)
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_a_regular_file_within_the_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        fs::write(at("fits"), "x".repeat(2048)).unwrap();
        fs::write(at("long"), "x".repeat(2049)).unwrap();
        fs::write(at("binary"), [0xff, 0xfe]).unwrap();
        std::os::unix::fs::symlink(at("fits"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        for (name, expected) in [
            ("fits", None),
            ("link", None),
            ("long", Some("it is longer than 2 KiB")),
            ("endless", Some("it is not a regular file")),
            ("/dev/zero", Some("it is not a regular file")),
            ("fifo", Some("it is not a regular file")),
            ("socket", Some("it is not a regular file")),
            (".", Some("it is not a regular file")),
            ("nowhere", Some("No such file")),
            ("binary", Some("valid UTF-8")),
        ] {
            let read = read_text(&at(name), 2048);
            match (read, expected) {
                (Ok(text), None) => assert_eq!(text.len(), 2048, "{name}"),
                (Err(why), Some(expected)) => {
                    assert!(why.contains(expected) && !why.contains('\n'), "{name}: {why}");
                }
                (read, _) => panic!("{name}: {read:?}"),
            }
        }
    }
}
