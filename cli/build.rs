//! Determines the commit of this build: from `git` in a checkout, otherwise from `ANNALIST_COMMIT`. Without
//! either, the version has no commit.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of digits of the commit hash in the version.
const DIGITS: usize = 10;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let checkout = checkout();
    // Exactly the files that change with HEAD: its log gets a line for each commit and each checkout.
    for head_file in ["HEAD", "logs/HEAD"] {
        let path = checkout.as_ref().and_then(|root| git(root, &["rev-parse", "--git-path", head_file]));
        // Cargo would rebuild every time for a missing file.
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

/// Returns the root of this source's own repository, not of a repository that the source was unpacked into. A
/// build script runs in its package's folder, which may differ from the folder it was compiled in.
fn checkout() -> Option<PathBuf> {
    let root = Path::new("..").canonicalize().ok()?;
    let top = git(&root, &["rev-parse", "--show-toplevel"])?;
    (Path::new(&top).canonicalize().ok()? == root).then_some(root)
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(args).output().ok()?;
    let stdout = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| stdout.trim().to_owned())
}

fn is_commit(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
