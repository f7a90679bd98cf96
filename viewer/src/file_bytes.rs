//! Serves bytes from the file store: files, and pictures of people and emoji. They are untrusted: the content
//! type is detected from the first bytes, and the browser may only show types that cannot run code.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use ports::archive::ItemKey;
use ports::files::{FileKey, FileReader, FilesError};
use rules::project;
use slack::ids::{FileId, TeamId};

use crate::answer::PageError;
use crate::headers::FILE_POLICY;
use crate::router::ViewerState;
use crate::sniff;

/// Maximum length of a download's name.
const MAX_NAME_CHARS: usize = 150;

/// A picture never changes: a new picture has a new address.
const PICTURE_CACHE_CONTROL: &str = "private, max-age=3600";

/// Serves a file by its id.
pub(crate) async fn file(
    State(state): State<Arc<ViewerState>>,
    Path((team, file)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let missing = || PageError::missing("This file is not in the archive.");
    let (Ok(team), Ok(file)) = (TeamId::parse(&team), FileId::parse(&file)) else { return Err(missing()) };
    let row = state.archive.get(&ItemKey::file(&team, &file)).await?;
    let row = row.as_ref().and_then(project::file).ok_or_else(missing)?;
    let key = row["uri"].as_str().and_then(FileKey::from_stored).ok_or_else(missing)?;
    let opened = state.files.open(&key).await?.ok_or_else(missing)?;
    let name = row["name"].as_str().unwrap_or(file.as_str());
    served(opened, name).await
}

/// Serves a picture by the hash of its original address.
pub(crate) async fn picture(
    State(state): State<Arc<ViewerState>>,
    Path((team, hash)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let missing = || PageError::missing("This picture is not in the archive.");
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let team = TeamId::parse(&team).ok().filter(|_| is_hash).ok_or_else(missing)?;
    let key = FileKey::parse(&format!("slack/{team}/images/{hash}")).ok_or_else(missing)?;
    let opened = state.files.open(&key).await?.ok_or_else(missing)?;
    let mut response = served(opened, "picture").await?;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(PICTURE_CACHE_CONTROL));
    Ok(response)
}

/// Streams the bytes of a file.
async fn served(mut opened: Box<dyn FileReader>, name: &str) -> Result<Response, PageError> {
    let size_bytes = opened.size_bytes();
    let mut first_chunks: Vec<Bytes> = Vec::new();
    let mut first: Vec<u8> = Vec::new();
    while first.len() < sniff::SNIFFED_BYTES
        && let Some(chunk) = opened.next().await?
    {
        first.extend(chunk.iter().take(sniff::SNIFFED_BYTES));
        first_chunks.push(chunk);
    }
    let sniffed = sniff::content_type(&first);
    let rest = stream::try_unfold(opened, |mut opened| async move {
        Ok::<_, FilesError>(opened.next().await?.map(|chunk| (chunk, opened)))
    });
    let first_chunks = stream::iter(first_chunks.into_iter().map(Ok::<_, FilesError>));
    let body = Body::from_stream(futures_util::StreamExt::chain(first_chunks, rest));
    let disposition_type = if sniffed.is_some() { "inline" } else { "attachment" };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(sniffed.unwrap_or("application/octet-stream")));
    headers.insert(CONTENT_LENGTH, size_bytes.into());
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(FILE_POLICY));
    let disposition = format!("{disposition_type}; filename*=UTF-8''{}", encoded(name));
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// Encodes a name for a header. Any character but letters, digits, dots and hyphens is replaced or
/// percent-encoded, so no name can leave a folder or end a header.
fn encoded(name: &str) -> String {
    let mut encoded = String::new();
    for c in name.chars().take(MAX_NAME_CHARS) {
        if c.is_ascii_alphanumeric() || c == '-' || (c == '.' && !encoded.is_empty()) {
            encoded.push(c);
        } else if matches!(c, '/' | '\\' | '.') || reader::plain::affects_terminal(c) {
            encoded.push('_');
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                encoded += &format!("%{byte:02X}");
            }
        }
    }
    if encoded.is_empty() { "file".to_owned() } else { encoded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_a_folder_or_end_a_header() {
        for (name, expected) in [
            ("plan.pdf", "plan.pdf"),
            ("a b\"c.txt", "a%20b%22c.txt"),
            ("../../etc/passwd", "_._.._etc_passwd"),
            ("a\r\nSet-Cookie: x", "a__Set-Cookie%3A%20x"),
            ("名.png", "%E5%90%8D.png"),
            ("a\u{202e}gnp.exe", "a_gnp.exe"),
            ("", "file"),
        ] {
            assert_eq!(encoded(name), expected, "{name}");
        }
        assert!(encoded(&"x".repeat(10_000)).len() <= MAX_NAME_CHARS);
    }
}
