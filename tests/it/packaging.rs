//! The parts of a package: completions, manual pages, and a version that names its commit.

use std::path::Path;
use std::process::Command;

use tests::harness::command::annalist;

/// The commands, as `--help` lists them.
async fn commands() -> Vec<String> {
    let help = annalist(&["--help"]).await.stdout;
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    let commands: Vec<String> = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect();
    assert!(commands.len() > 10 && commands.contains(&"restore".to_owned()), "{commands:?}");
    commands
}

/// Whether an optional program is installed.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[tokio::test]
async fn completions_are_scripts_that_their_shells_accept_and_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let outcome = annalist(&["completions", shell]).await;
        assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{shell}: {}", outcome.stderr);
        for command in commands().await {
            assert!(outcome.stdout.contains(&command), "{shell} does not know {command}");
        }
        let script = folder.path().join(shell);
        std::fs::write(&script, &outcome.stdout).unwrap();
        // bash runs the tests' own scripts, so it is always installed.
        if shell == "bash" || is_installed(shell) {
            let parsed = Command::new(shell).arg("-n").arg(&script).output().unwrap();
            assert!(parsed.status.success(), "{shell}: {}", String::from_utf8_lossy(&parsed.stderr));
        }
    }
    let unknown = annalist(&["completions", "csh"]).await;
    assert_eq!((unknown.code, unknown.stderr.lines().count()), (Some(2), 1), "{unknown:?}");
}

/// The page as a reader sees it, if a program that renders it is installed.
fn rendered(page: &Path) -> Option<String> {
    let mandoc = Command::new("mandoc").args(["-T", "utf8"]).arg(page).output();
    let shown = mandoc.or_else(|_| Command::new("man").args(["-l", "-P", "cat"]).arg(page).output()).ok()?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    // In minimal images, `man` is a stub that only prints a notice.
    (shown.status.success() && text.contains("NAME")).then_some(text)
}

#[tokio::test]
async fn the_manual_lists_every_command_and_has_a_page_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let page = annalist(&["man"]).await;
    assert!(page.code == Some(0) && page.stdout.starts_with(".ie"), "{page:?}");
    let dir = folder.path().join("man1");
    let written = annalist(&["man", "--dir", dir.to_str().unwrap()]).await;
    assert!(written.code == Some(0) && written.stdout.is_empty(), "{written:?}");
    let top = dir.join("annalist.1");
    assert_eq!(std::fs::read_to_string(&top).unwrap(), page.stdout);
    for command in commands().await {
        // roff renders an unescaped hyphen as another character.
        let escaped = command.replace('-', "\\-");
        assert!(page.stdout.contains(&format!("annalist\\-{escaped}(1)")), "{command} is not in the page");
        let own = dir.join(format!("annalist-{command}.1"));
        let text = std::fs::read_to_string(&own).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{}", own.display());
        if let Some(shown) = rendered(&own) {
            assert!(shown.contains("SYNOPSIS"), "{shown}");
        }
    }
    assert!(dir.join("annalist-quarantine-replay.1").is_file());
    if let Some(shown) = rendered(&top) {
        assert!(shown.contains("annalist-backup(1)") || shown.contains("annalist-backup"), "{shown}");
    }
}

#[tokio::test]
async fn the_version_names_the_commit_it_was_built_from() {
    let version = annalist(&["--version"]).await.stdout;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let head = Command::new("git").arg("-C").arg(&root).args(["rev-parse", "HEAD"]).output();
    let commit =
        head.ok().filter(|head| head.status.success()).map(|head| String::from_utf8(head.stdout).unwrap());
    let plain = format!("annalist {}", env!("CARGO_PKG_VERSION"));
    match commit {
        Some(commit) => assert_eq!(version.trim(), format!("{plain} ({})", &commit[..10])),
        // The source was unpacked from an archive.
        None => assert!(version.starts_with(&plain), "{version}"),
    }
}
