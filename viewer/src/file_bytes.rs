//! Serves bytes from the file store: files, and pictures of people and emoji. They are untrusted: the content
//! type is detected from the first bytes, and the browser may only show types that cannot run code.

use std::collections::VecDeque;
use std::ops::Range;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use ports::archive::ItemKey;
use ports::files::{FileKey, FileReader, FilesError};
use rules::project;
use rules::view::FileVersionView;
use serde::Deserialize;
use slack::ids::{FileId, TeamId};

use crate::answer::{PageError, notice_response};
use crate::headers::FILE_POLICY;
use crate::sniff;
use crate::state::Visit;

/// Maximum length of a download's name.
const MAX_NAME_CHARS: usize = 150;

/// A picture never changes: a new picture has a new address.
const PICTURE_CACHE_CONTROL: &str = "private, max-age=3600";

/// Selects a version of a canvas by the time of its edit; without it, the newest.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VersionParams {
    updated: Option<String>,
}

/// Serves a file by its id.
pub(crate) async fn file(
    state: Visit,
    Path((team, file)): Path<(String, String)>,
    Query(params): Query<VersionParams>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let missing = || PageError::missing("This file is not in the archive.");
    let (Ok(team), Ok(file)) = (TeamId::parse(&team), FileId::parse(&file)) else { return Err(missing()) };
    let row = state.archive.get(&ItemKey::file(&team, &file)).await?;
    let row = row.as_ref().and_then(project::file).ok_or_else(missing)?;
    let uri = match params.updated {
        Some(updated) => {
            let updated: u64 = updated.parse().map_err(|_| missing())?;
            row.versions().find(|version| version.updated_s() == Some(updated)).and_then(FileVersionView::uri)
        }
        None => row.uri(),
    };
    let key = uri.and_then(FileKey::from_stored).ok_or_else(missing)?;
    let opened = state.files.open(&key).await?.ok_or_else(missing)?;
    let name = row.name().unwrap_or(file.as_str());
    served(opened, name, requested_part(&method, &headers)).await
}

/// Serves a picture by the hash of its original address.
pub(crate) async fn picture(
    state: Visit,
    Path((team, hash)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let missing = || PageError::missing("This picture is not in the archive.");
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let team = TeamId::parse(&team).ok().filter(|_| is_hash).ok_or_else(missing)?;
    let key = FileKey::parse(&format!("slack/{team}/images/{hash}")).ok_or_else(missing)?;
    let opened = state.files.open(&key).await?.ok_or_else(missing)?;
    let response = served(opened, "picture", requested_part(&method, &headers)).await?;
    Ok(([(CACHE_CONTROL, PICTURE_CACHE_CONTROL)], response).into_response())
}

/// A part of a file that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilePart {
    /// From the first byte to the second one, or to the end.
    From(u64, Option<u64>),
    /// This number of bytes at the end.
    Last(u64),
}

impl FilePart {
    /// Parses a `Range` header with one range. Any other header is ignored, as the standard allows:
    /// <https://www.rfc-editor.org/rfc/rfc9110#name-range>.
    fn parse(header: &str) -> Option<Self> {
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        let (first, last) = header.strip_prefix("bytes=")?.trim().split_once('-')?;
        match (first, last) {
            ("", last) => Some(Self::Last(number(last)?)),
            (first, "") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// Returns the range of the part in a file of this size; `None` if it is outside of the file or empty.
    fn range(self, size_bytes: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(first, last) => {
                first..last.map_or(size_bytes, |last| last.saturating_add(1).min(size_bytes))
            }
            Self::Last(count) => size_bytes.saturating_sub(count)..size_bytes,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Returns the requested part of a file; `None` if the whole file is requested.
fn requested_part(method: &Method, headers: &HeaderMap) -> Option<FilePart> {
    let header = headers.get(RANGE).filter(|_| method == Method::GET)?;
    FilePart::parse(header.to_str().ok()?)
}

/// The bytes that are not sent yet.
struct UnsentBytes {
    first_chunks: VecDeque<Bytes>,
    opened: Box<dyn FileReader>,
    /// The range to send, from the start of the next chunk.
    range: Range<u64>,
}

impl UnsentBytes {
    async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        while !self.range.is_empty() {
            let chunk = match self.first_chunks.pop_front() {
                Some(chunk) => Some(chunk),
                None => self.opened.next().await?,
            };
            let Some(chunk) = chunk else { break };
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(chunk.len());
            let sent = chunk.slice(index(self.range.start)..index(self.range.end));
            let length = chunk.len() as u64;
            self.range = self.range.start.saturating_sub(length)..self.range.end.saturating_sub(length);
            if !sent.is_empty() {
                return Ok(Some(sent));
            }
        }
        Ok(None)
    }
}

/// Streams the bytes of a file, or of the requested part.
async fn served(
    mut opened: Box<dyn FileReader>,
    name: &str,
    part: Option<FilePart>,
) -> Result<Response, PageError> {
    let size_bytes = opened.size_bytes();
    let Some(range) = part.map_or(Some(0..size_bytes), |part| part.range(size_bytes)) else {
        let notice = notice_response(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "Invalid request",
            "The file does not have the requested bytes.",
        );
        return Ok(([(CONTENT_RANGE, format!("bytes */{size_bytes}"))], notice).into_response());
    };
    let mut first_chunks: VecDeque<Bytes> = VecDeque::new();
    let mut first: Vec<u8> = Vec::new();
    while first.len() < sniff::SNIFFED_BYTES
        && let Some(chunk) = opened.next().await?
    {
        first.extend(chunk.iter().take(sniff::SNIFFED_BYTES));
        first_chunks.push_back(chunk);
    }
    let sniffed = sniff::content_type(&first);
    let unsent = UnsentBytes { first_chunks, opened, range: range.clone() };
    let body = Body::from_stream(stream::try_unfold(unsent, |mut unsent| async move {
        Ok::<_, FilesError>(unsent.next().await?.map(|chunk| (chunk, unsent)))
    }));
    let disposition_type = if sniffed.is_some() { "inline" } else { "attachment" };
    let headers = [
        (ACCEPT_RANGES, "bytes".to_owned()),
        (CONTENT_TYPE, sniffed.unwrap_or("application/octet-stream").to_owned()),
        (CONTENT_LENGTH, (range.end - range.start).to_string()),
        (CONTENT_SECURITY_POLICY, FILE_POLICY.to_owned()),
        (CONTENT_DISPOSITION, format!("{disposition_type}; filename*=UTF-8''{}", encoded(name))),
    ];
    if part.is_none() {
        return Ok((headers, body).into_response());
    }
    let content_range = format!("bytes {}-{}/{size_bytes}", range.start, range.end.saturating_sub(1));
    let status = StatusCode::PARTIAL_CONTENT;
    Ok((status, [(CONTENT_RANGE, content_range)], headers, body).into_response())
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
    fn one_range_is_read_and_other_headers_are_ignored() {
        for (header, expected) in [
            ("bytes=0-0", Some(0..1)),
            ("bytes=2-99", Some(2..8)),
            ("bytes=7-", Some(7..8)),
            ("bytes=-3", Some(5..8)),
            ("bytes=-99", Some(0..8)),
            ("bytes=0-18446744073709551615", Some(0..8)),
            ("bytes=8-", None),
            ("bytes=-0", None),
        ] {
            assert_eq!(FilePart::parse(header).unwrap().range(8), expected, "{header}");
        }
        for header in [
            "",
            "bytes=",
            "bytes=-",
            "bytes=2-1",
            "bytes=0-1,3-4",
            "bytes=+1-2",
            "lines=1-2",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(FilePart::parse(header), None, "{header}");
        }
        assert_eq!(FilePart::Last(1).range(0), None);
    }

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
