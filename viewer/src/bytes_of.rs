//! Bytes from the store: files, and pictures of people and emoji. They are a stranger's: a browser is told what they are by what
//! they begin with, and may show only what cannot run.

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

/// The longest name that a download has.
const MAX_NAME_CHARS: usize = 150;

/// A picture never changes: another one has another address.
const KEPT: &str = "private, max-age=3600";

/// A file, by its id.
pub(crate) async fn file(
    State(state): State<Arc<ViewerState>>,
    Path((team, file)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let missing = || PageError::missing("This file is not in the archive.");
    let (Ok(team), Ok(file)) = (TeamId::parse(&team), FileId::parse(&file)) else { return Err(missing()) };
    let row = state.archive.get(&ItemKey::file(&team, &file)).await?;
    let row = row.as_ref().and_then(project::file).ok_or_else(missing)?;
    let key = row["uri"].as_str().and_then(FileKey::stored).ok_or_else(missing)?;
    let opened = state.files.open(&key).await?.ok_or_else(missing)?;
    let name = row["name"].as_str().unwrap_or(file.as_str());
    served(opened, name).await
}

/// A picture, by the hash of where it came from.
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
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(KEPT));
    Ok(response)
}

/// The bytes, as they are read.
async fn served(mut opened: Box<dyn FileReader>, name: &str) -> Result<Response, PageError> {
    let size_bytes = opened.size_bytes();
    let mut begun: Vec<Bytes> = Vec::new();
    let mut first: Vec<u8> = Vec::new();
    while first.len() < sniff::SNIFFED_BYTES
        && let Some(chunk) = opened.next().await?
    {
        first.extend(chunk.iter().take(sniff::SNIFFED_BYTES));
        begun.push(chunk);
    }
    let sniffed = sniff::content_type(&first);
    let rest = stream::try_unfold(opened, |mut opened| async move {
        Ok::<_, FilesError>(opened.next().await?.map(|chunk| (chunk, opened)))
    });
    let begun = stream::iter(begun.into_iter().map(Ok::<_, FilesError>));
    let body = Body::from_stream(futures_util::StreamExt::chain(begun, rest));
    let disposition = if sniffed.is_some() { "inline" } else { "attachment" };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(sniffed.unwrap_or("application/octet-stream")));
    headers.insert(CONTENT_LENGTH, size_bytes.into());
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(FILE_POLICY));
    let named = format!("{disposition}; filename*=UTF-8''{}", encoded(name));
    if let Ok(named) = HeaderValue::from_str(&named) {
        headers.insert(CONTENT_DISPOSITION, named);
    }
    Ok(response)
}

/// A name as a header has it: what is no letter, digit, point or hyphen is written as its bytes, so that no name leads out of a
/// folder or ends a header.
fn encoded(name: &str) -> String {
    let mut encoded = String::new();
    for c in name.chars().take(MAX_NAME_CHARS) {
        if c.is_ascii_alphanumeric() || c == '-' || (c == '.' && !encoded.is_empty()) {
            encoded.push(c);
        } else if matches!(c, '/' | '\\' | '.') || reader::plain::acts(c) {
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
    fn a_name_is_only_a_name() {
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
