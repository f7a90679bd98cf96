//! Python environments for tools that the tests run, created by the tests themselves.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::print_uncaptured;

/// The Python of an environment that contains exactly the pinned packages, checked by hash; created once,
/// under `target/`.
///
/// # Errors
/// If a program is missing on this machine, or a package cannot be installed.
pub fn environment(name: &str, requirements: &str) -> Result<PathBuf, String> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(name);
    make(&home, requirements).map_err(|error| format!("{}: {error}", home.display()))
}

/// The path of slack-export-viewer, in a separate environment.
///
/// # Errors
/// As [`environment`].
pub fn slack_export_viewer() -> Result<PathBuf, String> {
    let python = environment("slack-export-viewer", include_str!("slack-export-viewer.txt"))?;
    Ok(python.with_file_name("slack-export-viewer"))
}

fn make(home: &Path, pinned: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(home)?;
    let python = home.join("venv/bin/python");
    let installed = home.join("installed.txt");
    // Test binaries run in parallel: one creates the environment, and the others wait here.
    let lock = File::create(home.join("lock"))?;
    lock.lock()?;
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == pinned) {
        return Ok(python);
    }
    print_uncaptured(&format!("installing Python packages into {}", home.display()));
    let requirements = home.join("requirements.txt");
    fs::write(&requirements, pinned)?;
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home.join("venv")))?;
    run(Command::new(&python).args([
        "-c",
        "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'Python %d.%d is too old' % sys.version_info[:2])",
    ]))?;
    run(Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            // Most modules are never imported; Python compiles those that are.
            "--no-compile",
            "--require-hashes",
        ])
        .args(["--only-binary", ":all:", "--requirement"])
        .arg(&requirements))?;
    fs::write(installed, pinned)?;
    Ok(python)
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output().map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", command.get_program().to_string_lossy()))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Err(io::Error::other(text.trim().to_owned()))
}
