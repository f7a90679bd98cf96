//! The binaries that the harness runs. The harness builds them, so they are never outdated.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ports::workers::WORKERS;

use super::print_uncaptured;

/// Variables that Cargo sets for the program that it starts, from its package. The build script of `ring`
/// runs again if one of them changes: if nested builds inherited them, manual builds and builds of tests
/// would invalidate each other.
const PACKAGE_VARIABLES: [&str; 8] = [
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PKG_NAME",
    "CARGO_PKG_VERSION_MAJOR",
    "CARGO_PKG_VERSION_MINOR",
    "CARGO_PKG_VERSION_PATCH",
    "CARGO_PKG_VERSION_PRE",
    "OUT_DIR",
];

/// The programs of a release.
pub fn programs() -> impl Iterator<Item = &'static str> {
    ["annalist", "ingest"].into_iter().chain(WORKERS.iter().map(|worker| worker.name))
}

/// The paths of the binaries.
#[derive(Debug)]
pub struct Binaries {
    /// The `annalist` command.
    pub annalist: PathBuf,
    /// Ingest alone.
    pub ingest: PathBuf,
    folder: PathBuf,
}

/// Builds the binaries in the running test's profile and target directory, once per process, with both backends: as part of
/// the whole workspace, so that `cargo test --workspace` has compiled everything but the programs themselves.
///
/// # Panics
/// If they do not build.
pub fn binaries() -> &'static Binaries {
    static BINARIES: OnceLock<Binaries> = OnceLock::new();
    BINARIES.get_or_init(|| {
        let exe = std::env::current_exe().expect("the running program has a path");
        let profile_dir = profile_dir(&exe);
        let programs = programs().flat_map(|name| ["--bin", name]);
        let whole = ["--workspace", "--features", "annalist/aws"];
        let args: Vec<&str> = whole.into_iter().chain(programs).collect();
        build(profile_dir, &args, "the programs under test");
        Binaries::in_folder(profile_dir)
    })
}

/// Builds the parts as they are deployed to Lambda, without SQLite, in a separate target directory. They
/// include no `annalist`.
///
/// # Panics
/// As [`binaries`].
pub fn lambda_binaries() -> &'static Binaries {
    static BINARIES: OnceLock<Binaries> = OnceLock::new();
    BINARIES.get_or_init(|| {
        let exe = std::env::current_exe().expect("the running program has a path");
        let profile_dir = profile_dir(&exe);
        let profile = profile_dir.file_name().expect("a profile's folder has a name");
        let target_dir = profile_dir.parent().expect("a profile's folder lies in the target directory");
        let profile_dir = target_dir.join("for-lambda").join(profile);
        let without_sqlite = ["--no-default-features", "--features", "ingest-service/aws,fleet/aws"];
        let parts = ["--bins", "--package", "ingest-service", "--package", "fleet"];
        let args = [&parts[..], &without_sqlite].concat();
        build(&profile_dir, &args, "the parts once more as Lambda runs them, without SQLite");
        Binaries::in_folder(&profile_dir)
    })
}

impl Binaries {
    fn in_folder(folder: &Path) -> Self {
        let (annalist, ingest) = (binary(folder, "annalist"), binary(folder, "ingest"));
        Self { annalist, ingest, folder: folder.to_owned() }
    }

    /// A worker alone.
    pub fn worker(&self, name: &str) -> PathBuf {
        binary(&self.folder, name)
    }
}

fn binary(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// `target/debug` of `target/debug/deps/it-1234` and of `target/debug/bench`.
fn profile_dir(exe: &Path) -> &Path {
    let dir = exe.parent().expect("a program lies in a folder");
    if dir.ends_with("deps") { dir.parent().expect("deps lies in a profile's folder") } else { dir }
}

/// Runs `cargo build`. Prints one line with `what` if there is anything to compile, since that may take
/// minutes.
fn build(profile_dir: &Path, args: &[&str], what: &str) {
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target_dir = profile_dir.parent().expect("a profile's folder lies in the target directory");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    for variable in PACKAGE_VARIABLES {
        cargo.env_remove(variable);
    }
    let mut building = cargo
        .arg("build")
        .args(args)
        .args(["--profile", profile])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target_dir)
        // The loop below reads its lines.
        .envs([
            ("CARGO_TERM_QUIET", "false"),
            ("CARGO_TERM_COLOR", "never"),
            ("CARGO_TERM_PROGRESS_WHEN", "never"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo can be started");
    let mut output = String::new();
    let lines = BufReader::new(building.stderr.take().expect("it is a pipe")).lines();
    for line in lines.map(|line| line.expect("cargo writes text")) {
        if line.trim_start().starts_with("Compiling") && !output.contains("Compiling") {
            print_uncaptured(&format!("building {what}, into {}", target_dir.display()));
        }
        output = output + &line + "\n";
    }
    let built = building.wait().expect("cargo ends").success();
    assert!(built, "the binaries do not build:\n{output}");
}
