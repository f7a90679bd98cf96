//! Finds out which commit this is built from: `git` in a checkout, else `ANNALIST_COMMIT`, else nothing is said.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit.
const DIGITS: usize = 10;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let checkout = checkout();
    // What moves with HEAD, and nothing else: the log of HEAD gets a line for each commit and each checkout.
    for moving in ["HEAD", "logs/HEAD"] {
        let path = checkout.as_ref().and_then(|root| git(root, &["rev-parse", "--git-path", moving]));
        // Cargo would build anew each time for a file that is not there.
        if let (Some(root), Some(path)) = (&checkout, path)
            && root.join(&path).exists()
        {
            println!("cargo::rerun-if-changed={}", root.join(path).display());
        }
    }
    let commit = checkout.and_then(|root| git(&root, &["rev-parse", "HEAD"]));
    let commit = commit.or_else(|| option_env!("ANNALIST_COMMIT").map(str::to_owned));
    let version = env!("CARGO_PKG_VERSION");
    match commit.as_deref().map(str::trim).filter(|commit| is_commit(commit)) {
        Some(commit) => println!("cargo::rustc-env=ANNALIST_VERSION={version} ({})", &commit[..DIGITS]),
        None => println!("cargo::rustc-env=ANNALIST_VERSION={version}"),
    }
}

/// The repository of this source, not one that it was unpacked into. A build script runs in its package's folder; the
/// folder it was compiled in may be another by now.
fn checkout() -> Option<PathBuf> {
    let root = Path::new("..").canonicalize().ok()?;
    let top = git(&root, &["rev-parse", "--show-toplevel"])?;
    (Path::new(&top).canonicalize().ok()? == root).then_some(root)
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(args).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}

fn is_commit(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
