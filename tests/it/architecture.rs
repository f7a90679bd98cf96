//! Checks which code may name what. The table of rules is in `rules`.

mod rules;
pub(crate) mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rules::{ON_VIRTUAL_TIME, RULES};
use source::{SourceFile, find, members, source_files, workspace};

/// Names of files, folders and modules that do not describe their contents: a name that fits everything
/// collects everything.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "stuff"];

/// Maximum lines of a file: a longer one has more than one reason to change.
const LONGEST_FILE: usize = 500;

/// Names that the code under some paths must not use.
struct Rule {
    /// Files whose paths start with one of these.
    paths: &'static [&'static str],
    /// Files among them that are exempt.
    except: &'static [&'static str],
    /// Whole identifiers or pieces of code; a trailing `*` matches the rest of an identifier.
    forbidden: &'static [&'static str],
    /// Whether the rule also applies to inline unit tests.
    tests_too: bool,
    /// Why the rule exists.
    why: &'static str,
    /// A line of code that breaks it.
    example: &'static str,
}

impl Rule {
    fn applies_to(&self, path: &str) -> bool {
        let within = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
        within(self.paths) && !within(self.except)
    }

    /// Returns a report of the names in this file that break the rule, if there are any.
    fn broken_by(&self, file: &SourceFile) -> Option<String> {
        if !self.applies_to(&file.path) {
            return None;
        }
        let code = if self.tests_too { &file.code } else { file.code_without_tests() };
        let mut report = String::new();
        for forbidden in self.forbidden {
            if let Some((line, text)) = find(code, forbidden) {
                write!(report, "{}:{line} names `{forbidden}`: {text}\n    {}\n", file.path, self.why)
                    .unwrap();
            }
        }
        (!report.is_empty()).then_some(report)
    }
}

#[test]
fn no_code_names_what_its_rules_forbid() {
    let files = source_files();
    let broken: String =
        RULES.iter().flat_map(|rule| files.iter().filter_map(|file| rule.broken_by(file))).collect();
    assert!(broken.is_empty(), "\n{broken}");
}

#[test]
fn every_rule_applies_to_files_that_exist() {
    let files = source_files();
    for rule in RULES {
        for room in rule.paths.iter().chain(rule.except) {
            let has_files = files.iter().any(|file| file.path.starts_with(room));
            assert!(has_files, "the rule \"{}\" applies to {room}, which contains no file", rule.why);
        }
    }
}

#[test]
fn every_rule_catches_its_example() {
    for rule in RULES {
        let caught = SourceFile::new(format!("{}example.rs", rule.paths[0]), rule.example);
        assert!(rule.broken_by(&caught).is_some(), "the rule \"{}\" misses {}", rule.why, rule.example);
        let elsewhere = SourceFile::new("nowhere/example.rs", rule.example);
        assert!(rule.broken_by(&elsewhere).is_none());
    }
}

#[test]
fn tests_that_may_sleep_run_on_virtual_time() {
    let on_virtual_time = |file: &&SourceFile| ON_VIRTUAL_TIME.iter().any(|path| file.path.starts_with(path));
    for file in source_files().iter().filter(on_virtual_time) {
        let tests = file.code.lines().filter(|line| line.trim_start().starts_with("#[tokio::test"));
        for test in tests {
            assert!(
                test.contains("start_paused = true"),
                "{}: {test} may sleep and is not paused",
                file.path
            );
        }
    }
}

#[test]
fn no_file_is_too_long_to_have_one_reason_to_change() {
    let mut long = String::new();
    for file in source_files() {
        let lines = file.code_without_tests().lines().count();
        if lines > LONGEST_FILE {
            writeln!(
                long,
                "{} has {lines} lines before its tests, more than {LONGEST_FILE}: split it",
                file.path
            )
            .unwrap();
        }
    }
    assert!(long.is_empty(), "\n{long}");
}

#[test]
fn no_file_folder_or_module_has_an_empty_name() {
    assert!(find("pub mod utils;", "mod utils").is_some());
    for file in source_files() {
        for name in EMPTY_NAMES {
            let is_in_path = file.path.trim_end_matches(".rs").split('/').any(|part| part == *name);
            let is_module = find(&file.code, &format!("mod {name}")).is_some();
            assert!(!is_in_path && !is_module, "{}: `{name}` fits and collects everything", file.path);
        }
    }
}

/// The names of the public types that a file defines.
fn public_types(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let (keyword, rest) = line.strip_prefix("pub ")?.split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        matches!(keyword, "struct" | "enum" | "trait" | "type").then_some(name)
    })
}

#[test]
fn the_public_types_of_all_crates_have_different_names() {
    let (files, members) = (source_files(), members());
    let mut crates_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.contains("/src/") && !file.path.starts_with("tests/")) {
        let member = members.iter().find(|member| file.path.starts_with(&format!("{member}/src/")));
        for name in public_types(&file.code) {
            crates_of.entry(name).or_default().extend(member.map(String::as_str));
        }
    }
    assert!(crates_of.len() > 500, "{}", crates_of.len());
    crates_of.retain(|_, crates| crates.len() > 1);
    assert!(crates_of.is_empty(), "one name for types of several crates: {crates_of:#?}");
}

#[test]
fn there_is_one_tls_stack() {
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock")).unwrap();
    let versions = |name: &str| lock.matches(&format!("name = \"{name}\"\n")).count();
    assert_eq!((versions("rustls"), versions("hyper"), versions("ring")), (1, 1, 1));
    for other in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls"] {
        assert_eq!(
            versions(other),
            0,
            "{other}: the SDK's and the others' default features add a second stack"
        );
    }
}

#[test]
fn lambda_builds_contain_no_sqlite() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal,build", "--prefix", "none"])
        .args(["--package", "ingest-service", "--package", "fleet"])
        .args(["--no-default-features", "--features", "ingest-service/aws,fleet/aws"])
        .current_dir(workspace())
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("lambda_http") && tree.contains("aws-sdk-sqs"), "{tree}");
    assert!(!tree.contains("sqlite"), "{tree}");
}

#[test]
fn every_package_uses_the_lints_of_the_workspace() {
    for member in members() {
        let manifest = std::fs::read_to_string(workspace().join(&member).join("Cargo.toml")).unwrap();
        let lints = manifest.split_once("\n[lints]\n").map(|(_, lints)| lints.trim_start());
        assert!(
            lints.is_some_and(|lints| lints.starts_with("workspace = true")),
            "{member}/Cargo.toml lacks `[lints] workspace = true`: without it, no lint applies to its code"
        );
    }
}
