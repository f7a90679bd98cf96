//! Source files as the rules read them: code without comments and without the contents of strings.

use std::path::{Path, PathBuf};

/// One source file of the workspace.
pub(crate) struct SourceFile {
    /// Its path within the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The code: comments and the contents of strings are blanked, line numbers are unchanged.
    pub(crate) code: String,
}

impl SourceFile {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { path: path.into(), code: blank_comments_and_strings(&text), text }
    }

    /// The code before an inline `#[cfg(test)] mod …`; empty for a file of tests.
    pub(crate) fn code_without_tests(&self) -> &str {
        if self.path.ends_with("_tests.rs") {
            return "";
        }
        let lines: Vec<&str> = self.code.split_inclusive('\n').collect();
        let starts_tests = |pair: &[&str]| {
            pair[0].trim_end() == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].contains('{')
        };
        match lines.windows(2).position(starts_tests) {
            Some(line) => &self.code[..lines[..line].iter().map(|line| line.len()).sum()],
            None => &self.code,
        }
    }
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The folders of the workspace's packages.
pub(crate) fn members() -> Vec<String> {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let list = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let listed = list.split(',').map(|member| member.trim().trim_matches('"')).filter(|m| !m.is_empty());
    listed
        .flat_map(|member| member.strip_suffix("/*").map_or_else(|| vec![member.to_owned()], within))
        .collect()
}

/// The packages within a folder.
fn within(folder: &str) -> Vec<String> {
    let packages = std::fs::read_dir(workspace().join(folder)).unwrap();
    let names = packages.map(|package| package.unwrap().file_name().into_string().unwrap());
    names.map(|name| format!("{folder}/{name}")).collect()
}

/// All Rust files of all packages.
pub(crate) fn source_files() -> Vec<SourceFile> {
    let root = workspace();
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = members().iter().map(|member| root.join(member)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            // A package may have its own target folder.
            let is_source_folder = entry.file_type().unwrap().is_dir() && !path.ends_with("target");
            if is_source_folder {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let within = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
                files.push(SourceFile::new(within, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    // A package may be within the folder of another.
    files.dedup_by(|a, b| a.path == b.path);
    files
}

/// Returns the number and text of the first line that contains `pattern`. An identifier is not found within a
/// longer one; a trailing `*` matches the rest of an identifier.
pub(crate) fn find<'a>(code: &'a str, pattern: &str) -> Option<(usize, &'a str)> {
    let (pattern, open_end) = match pattern.strip_suffix('*') {
        Some(start) => (start, true),
        None => (pattern, false),
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let starts_word = pattern.starts_with(is_word);
    let ends_word = pattern.ends_with(is_word) && !open_end;
    let (at, _) = code.match_indices(pattern).find(|(at, _)| {
        let before = code[..*at].chars().next_back();
        let after = code[at + pattern.len()..].chars().next();
        !(starts_word && before.is_some_and(is_word) || ends_word && after.is_some_and(is_word))
    })?;
    let line = code[..at].matches('\n').count() + 1;
    Some((line, code.lines().nth(line - 1).unwrap_or_default().trim()))
}

/// Replaces comments and the contents of strings with blanks, keeping line breaks.
fn blank_comments_and_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_identifier = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (kept, blanked) = if rest.starts_with("//") {
            (0, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (0, block_comment(rest))
        } else if let Some(hashes) = raw_string(rest).filter(|_| !after_identifier) {
            let open = rest.find('"').unwrap_or(0) + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            (open, rest[open..].find(&end).unwrap_or(rest.len() - open))
        } else if first == '"' {
            (1, quoted(&rest[1..]))
        } else if let Some(length) = character(rest) {
            (0, length)
        } else {
            (first.len_utf8(), 0)
        };
        code.push_str(&rest[..kept]);
        code.extend(rest[kept..kept + blanked].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        let mut done = kept + blanked;
        // The closing quote belongs to the string that has just ended.
        if rest[..kept].ends_with('"') && rest[done..].starts_with('"') {
            code.push('"');
            done += 1;
        }
        rest = &rest[done..];
    }
    code
}

/// The length of a block comment; block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The number of hashes of a raw string that starts here.
fn raw_string(text: &str) -> Option<usize> {
    let rest = ["br", "cr", "r"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a string's contents.
fn quoted(inside: &str) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    inside.len()
}

/// The length of a character literal that starts here; a lifetime is not one.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if let Some(escape) = inside.strip_prefix('\\') {
        // The escaped character itself may be a quote.
        let escaped = escape.chars().next()?.len_utf8();
        return escape[escaped..].find('\'').map(|end| 2 + escaped + end + 1);
    }
    let c = inside.chars().next()?;
    inside[c.len_utf8()..].starts_with('\'').then_some(c.len_utf8() + 2)
}

#[test]
fn comments_and_strings_are_not_code() {
    let source = SourceFile::new(
        "x.rs",
        r##"use a::b; // todo!() "
/* sleep /* nested */ still */ fn f<'a>(x: &'a str) -> char {
    let quote = '"'; let escaped = '\''; let text = "sleep \" // sleep"; let after = 1;
    let raw = r#"sleep " sleep"#; let bytes = br"sleep\"; '\u{1f980}'
}
#[cfg(test)]
mod tests { sleep }
"##,
    );
    for name in ["a", "b", "f", "quote", "escaped", "text", "after", "raw", "bytes"] {
        assert!(find(source.code_without_tests(), name).is_some(), "{name} is missing in:\n{}", source.code);
    }
    assert_eq!(find(source.code_without_tests(), "sleep"), None, "{}", source.code);
    assert_eq!(find(source.code_without_tests(), "todo!"), None, "{}", source.code);
    assert_eq!(find(&source.code, "sleep"), Some((7, "mod tests { sleep }")));
    assert_eq!(source.code.lines().count(), source.text.lines().count());
}

#[test]
fn an_identifier_is_not_found_within_a_longer_one() {
    assert_eq!(find("let archives = re_archive;", "archive"), None);
    assert_eq!(find("use ports::archive;", "archive"), Some((1, "use ports::archive;")));
    assert_eq!(find("use aws_sdk_sqs;", "aws_*"), Some((1, "use aws_sdk_sqs;")));
    assert_eq!(find("use laws_of;", "aws_*"), None);
    assert_eq!(find("\nout.write_all(b);", ".write("), None);
    assert_eq!(find("\narchive.write(update)", ".write("), Some((2, "archive.write(update)")));
}
