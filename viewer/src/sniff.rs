//! Detects the type of a file from its first bytes. The name and type in its metadata are untrusted.

/// Number of bytes that determine the type.
pub const SNIFFED_BYTES: usize = 16;

/// Brands of pictures in MP4 containers. Not every browser shows them.
const PICTURE_BRANDS: [&[u8; 4]; 7] = [b"heic", b"heix", b"hevc", b"mif1", b"msf1", b"avif", b"avis"];

/// Returns the type of a file that a browser may show; `None` for any other file.
pub fn content_type(first: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, magic: &[u8]| first.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    if at(0, b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if at(0, b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if at(0, b"GIF87a") || at(0, b"GIF89a") {
        Some("image/gif")
    } else if at(0, b"RIFF") && at(8, b"WEBP") {
        Some("image/webp")
    } else if at(0, b"RIFF") && at(8, b"WAVE") {
        Some("audio/wav")
    } else if at(4, b"ftypM4A ") {
        Some("audio/mp4")
    } else if at(4, b"ftyp") && !PICTURE_BRANDS.iter().any(|brand| at(8, *brand)) {
        Some("video/mp4")
    } else if at(0, b"\x1a\x45\xdf\xa3") {
        Some("video/webm")
    } else if at(0, b"OggS") {
        Some("audio/ogg")
    } else if at(0, b"fLaC") {
        Some("audio/flac")
    } else if at(0, b"ID3")
        || (first.first() == Some(&0xff) && first.get(1).is_some_and(|byte| byte & 0xe6 == 0xe2))
    {
        Some("audio/mpeg")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_determine_the_type() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", Some("audio/wav")),
            (b"\0\0\0\x20ftypisom", Some("video/mp4")),
            (b"\0\0\0\x20ftypM4A ", Some("audio/mp4")),
            (b"\0\0\0\x20ftypmp42", Some("video/mp4")),
            (b"\0\0\0\x18ftypheic", None),
            (b"\0\0\0\x18ftypmif1", None),
            (b"\0\0\0\x1cftypavif", None),
            (b"\x1a\x45\xdf\xa3", Some("video/webm")),
            (b"ID3\x04", Some("audio/mpeg")),
            (b"\xff\xfb\x90", Some("audio/mpeg")),
            (b"<svg xmlns=", None),
            (b"<!DOCTYPE html>", None),
            (b"%PDF-1.7", None),
            (b"GIF", None),
            (b"\xff", None),
            (b"", None),
        ] {
            assert_eq!(content_type(bytes), expected, "{bytes:?}");
        }
    }
}
