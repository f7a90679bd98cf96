//! Removes credentials from addresses. An export's addresses of files carry a token, `?t=xoxe-…`, which can
//! read every file of the workspace.

use slack::ids::{FileId, TeamId};

/// The hosts of files' bytes. Whatever follows the path there is a credential, or changes.
const FILE_HOSTS: [&str; 2] = ["files.slack.com", "slack-files.com"];

/// The beginnings of the public addresses of files, `permalink_public`.
const PUBLIC_FILES: [&str; 2] = ["https://slack-files.com/", "http://slack-files.com/"];

/// The suffix of a workspace's own host, which serves the pages of files.
const WORKSPACE_HOST: &str = ".slack.com";

/// The prefix of tokens, and the letters that can follow: <https://docs.slack.dev/authentication/tokens>.
const TOKEN: &str = "xox";
const KINDS: &[u8] = b"abcdeoprs";

/// The maximum number of tokens that are removed from one address. Text after them is cut off, so that
/// hostile text does not cost more time.
const MOST_TOKENS: usize = 16;

/// Removes the credentials from every address in a text.
pub(super) fn clean(text: &mut String) {
    if is_file_address(text)
        && let Some(end) = text.find(['?', '#'])
    {
        text.truncate(end);
    }
    if let Some(end) = end_without_public_key(text) {
        text.truncate(end);
    }
    // Most texts contain no token.
    if text.contains(TOKEN) && text.split(is_boundary).any(has_token) {
        let cleaned = text.split_inclusive(is_boundary).map(|part| {
            let (word, boundary) = match part.char_indices().next_back() {
                Some((at, last)) if is_boundary(last) => part.split_at(at),
                Some(_) | None => (part, ""),
            };
            if has_token(word) { format!("{}{boundary}", without_tokens(word)) } else { part.to_owned() }
        });
        *text = cleaned.collect();
    }
}

/// The end of a file's public address without its key, which opens the file for everybody:
/// `https://slack-files.com/T…-F…-key`.
fn end_without_public_key(text: &str) -> Option<usize> {
    let path = PUBLIC_FILES.iter().find_map(|address| text.strip_prefix(address))?;
    let (team, rest) = path.split_once('-')?;
    let (file, _) = rest.split_once('-')?;
    let is_public = TeamId::parse(team).is_ok() && FileId::parse(file).is_ok() && !text.contains(is_boundary);
    is_public.then(|| text.len() - path.len() + team.len() + 1 + file.len())
}

/// Whether a text is the address of a file on Slack, and nothing else.
fn is_file_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some((host, path)) = rest.and_then(|rest| rest.split_once('/')) else { return false };
    let is_page = || host.ends_with(WORKSPACE_HOST) && path.starts_with("files");
    !text.contains(is_boundary) && (FILE_HOSTS.contains(&host) || is_page())
}

/// Whether a character cannot be part of an address.
fn is_boundary(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "<>|\"`".contains(letter)
}

/// Whether a word is an address with a token in it. A token outside an address is text that a user wrote.
fn has_token(word: &str) -> bool {
    let address = [word.find("://"), word.find('?')].into_iter().flatten().min();
    address.is_some_and(|address| first_token(&word[address..]).is_some())
}

/// The position of the first token.
fn first_token(word: &str) -> Option<usize> {
    let begins = |(at, _): (usize, &str)| {
        let rest = &word.as_bytes()[at + TOKEN.len()..];
        let (kind, rest) = rest.split_first()?;
        let is_token = [&b"-"[..], b"%2d", b"%2D", b".xox"].iter().any(|next| rest.starts_with(next));
        (KINDS.contains(kind) && is_token).then_some(at)
    };
    word.match_indices(TOKEN).find_map(begins)
}

/// The address without the parameters that contain a token. A token outside the parameters is removed on its
/// own.
fn without_tokens(word: &str) -> String {
    let mut word = word.to_owned();
    let mut removed = 0;
    while let Some(at) = first_token(&word) {
        removed += 1;
        if removed > MOST_TOKENS {
            word.truncate(at);
            break;
        }
        let is_query = word[..at].contains(['?', '#']);
        let from = if is_query { word[..at].rfind(['?', '&', ';', '#']).unwrap_or(at) } else { at };
        let ends: &[char] = if is_query { &['&', '#'] } else { &['/', '?', '#', '&'] };
        let to = word[at..].find(ends).map_or(word.len(), |end| at + end);
        remove(&mut word, from, to, is_query);
    }
    word
}

/// Removes a parameter with the delimiter before it, or, for the first parameter, with the delimiter after
/// it.
fn remove(word: &mut String, from: usize, to: usize, is_parameter: bool) {
    const ESCAPED: &str = "&amp;";
    if !is_parameter {
        word.replace_range(from..to, "");
        return;
    }
    let is_first = word[from..].starts_with(['?', '#']);
    let after = if word[to..].starts_with(ESCAPED) {
        ESCAPED.len()
    } else {
        usize::from(word[to..].starts_with('&'))
    };
    if is_first && after > 0 {
        word.replace_range(from + 1..to + after, "");
        return;
    }
    // `&amp;` is one delimiter.
    let from = if word[..=from].ends_with(ESCAPED) { from + 1 - ESCAPED.len() } else { from };
    word.replace_range(from..to, "");
}
