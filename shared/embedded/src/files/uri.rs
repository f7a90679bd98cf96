//! A path as a `file://` URI (RFC 8089).

use std::path::Path;

/// The URI of an absolute path. All characters are encoded except those that are safe in every URI path.
pub(crate) fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in bytes(path) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(unix)]
fn bytes(path: &Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}

#[cfg(not(unix))]
fn bytes(path: &Path) -> Vec<u8> {
    // `C:\data` is `/C:/data` in a URI.
    format!("/{}", path.to_string_lossy().replace('\\', "/")).into_bytes()
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn all_special_characters_of_a_path_are_encoded() {
        for (path, uri) in [
            (&b"/var/lib/annalist-data/files"[..], "file:///var/lib/annalist-data/files"),
            (b"/my data/%20?#\n", "file:///my%20data/%2520%3F%23%0A"),
            ("/Äpfel".as_bytes(), "file:///%C3%84pfel"),
            (b"/\xff", "file:///%FF"),
        ] {
            assert_eq!(file_uri(Path::new(OsStr::from_bytes(path))), uri);
        }
    }
}
