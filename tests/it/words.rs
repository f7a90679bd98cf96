//! Checks that comments, messages and documents avoid words that name no actor or are roundabout.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::architecture::source::{SourceFile, source_files, workspace};

/// A word or phrase to avoid, in lower case, and what to write instead.
const AVOIDED: [(&str, &str); 20] = [
    ("whoever", "name the actor: a process, a worker, a person, an attacker"),
    ("whomever", "name the actor"),
    ("somebody", "name the actor: a person, a user, another process"),
    ("nobody", "name the actor: \"no process\", \"no reader\""),
    ("anybody", "name the actor: \"any client\", \"any user\""),
    ("so many", "name the number: a limit, a count, `n` rows"),
    ("is none", "\"is missing\", \"is not one\", \"there is no …\""),
    ("are none", "\"are missing\", \"are not\", \"there are no …\""),
    ("worked off", "\"drained\", \"handled\""),
    ("also where", "\"even if\""),
    ("dear", "\"expensive\""),
    ("put aside", "\"quarantined\""),
    ("held against", "\"compared with\", \"checked against\""),
    ("tells of", "\"reports\", \"carries\", \"says\""),
    ("is told", "\"receives\", \"is notified\", \"is determined by\""),
    ("are told", "\"receive\", \"are notified\", \"are determined by\""),
    ("told apart", "\"distinguished\""),
    ("seldom", "\"rarely\""),
    ("became of", "\"the outcome of\""),
    ("comes of", "\"results from\""),
];

/// This list, and messages that people might write in Slack.
const EXEMPT: [&str; 3] = ["tests/it/words.rs", "tests/testkit/src/corpus/", "cli/src/demo/messages.rs"];

/// The text of a Rust file's comments and strings; the code is blanked, line numbers are unchanged.
fn prose(file: &SourceFile) -> String {
    let kept = |(text, code): (char, char)| if text == code && !text.is_whitespace() { ' ' } else { text };
    file.text.chars().zip(file.code.chars()).map(kept).collect()
}

/// Every word with the number of its line. Comment markers and the backslash that continues a string do not
/// count as words.
fn words(text: &str) -> Vec<(usize, String)> {
    let is_word = |word: &&str| !matches!(*word, "//" | "///" | "//!" | "\\" | "*" | "-" | ">");
    let of_line = |(n, line): (usize, &str)| -> Vec<(usize, String)> {
        line.split_whitespace().filter(is_word).map(|word| (n + 1, word.to_lowercase())).collect()
    };
    text.lines().enumerate().flat_map(of_line).collect()
}

/// The words of each function's name, with the number of its line. A name has no apostrophe, so `nobodys`
/// counts as `nobody`.
fn named(code: &str) -> Vec<Vec<(usize, String)>> {
    let of_line = |(n, line): (usize, &str)| -> Option<Vec<(usize, String)>> {
        let name = line.split_once("fn ")?.1.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let word =
            |word: &str| word.strip_suffix("bodys").map_or(word.to_owned(), |start| format!("{start}body"));
        Some(name.split('_').map(|part| (n + 1, word(part))).collect())
    };
    code.lines().enumerate().filter_map(of_line).collect()
}

/// The lines on which a phrase begins: its words are adjacent, with only punctuation around the phrase.
fn lines_with(words: &[(usize, String)], phrase: &str) -> Vec<usize> {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    let last = phrase.len() - 1;
    let punctuation = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '`' | '\'');
    let matches = |window: &&[(usize, String)]| {
        window.iter().zip(&phrase).enumerate().all(|(n, ((_, word), expected))| {
            let word = if n == 0 { word.trim_start_matches(punctuation) } else { word };
            let word = if n == last { word.trim_end_matches(punctuation) } else { word };
            word == *expected
        })
    };
    words.windows(phrase.len()).filter(matches).map(|window| window[0].0).collect()
}

/// The Markdown files of a folder, each with its path within the workspace.
fn documents(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    let root = workspace();
    let named = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(), text)
    };
    files.into_iter().map(named).collect()
}

#[test]
fn comments_messages_documents_and_names_of_functions_avoid_these_words() {
    let sources = source_files().into_iter().map(|file| {
        let mut texts = named(&file.code);
        texts.push(words(&prose(&file)));
        (file.path, texts)
    });
    let documents = ["", "docs", "deploy", "localstack"].map(|folder| documents(&workspace().join(folder)));
    assert!(documents.iter().all(|found| !found.is_empty()), "a folder of documents has moved");
    let mut report = String::new();
    let documents = documents.into_iter().flatten().map(|(path, text)| (path, vec![words(&text)]));
    for (path, texts) in sources.chain(documents) {
        if EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        for (phrase, instead) in AVOIDED {
            for line in texts.iter().flat_map(|words| lines_with(words, phrase)) {
                writeln!(report, "{path}:{line} says \"{phrase}\"; better: {instead}").unwrap();
            }
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn a_phrase_is_found_across_lines_and_not_within_other_words_or_code() {
    let file = SourceFile::new(
        "x.rs",
        "/// Nobody; so\n/// many.\nfn nobody() {} // so_many, `nobody`, nobody's\nlet a = \"there is \\\n  none\";\n",
    );
    let words = words(&prose(&file));
    assert_eq!(lines_with(&words, "nobody"), [1]);
    assert_eq!(lines_with(&words, "so many"), [1]);
    assert_eq!(lines_with(&words, "is none"), [4]);
    assert_eq!(lines_with(&words, "dear"), [0; 0]);
}

#[test]
fn a_phrase_is_found_in_the_name_of_a_function_and_not_across_names() {
    let file = SourceFile::new(
        "x.rs",
        "fn a_job_is_put_aside() {}\nasync fn it_is_nobodys() {}\nfn so() {}\nfn many() {} // fn nobody()\n",
    );
    let lines =
        |phrase| named(&file.code).iter().flat_map(|words| lines_with(words, phrase)).collect::<Vec<_>>();
    assert_eq!((lines("put aside"), lines("nobody"), lines("so many")), (vec![1], vec![2], vec![]));
}
