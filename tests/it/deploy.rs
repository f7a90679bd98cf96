//! Compares the files in `deploy/` with the programs.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ::process::config::viewer::DEFAULT_VIEWER_LISTEN;
use ::process::config::{APP_TOKEN, BOT_TOKEN, DEFAULT_LISTEN, SIGNING_SECRET};
use tests::harness::binaries::{binaries, programs};
use tests::harness::command::annalist;
use tests::harness::process;
use workers::runtime::RuntimeSettings;

/// The time that requests get before the workers are stopped; see `ingest::serve`.
const REQUESTS_DRAIN: Duration = Duration::from_secs(5);

/// A shell expression that lists the workers' binaries.
const WORKER_BINARIES: &str = "$(basename -s .rs workers/fleet/src/bin/*.rs)";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Each `Name=value` setting of the unit.
fn settings(unit: &str) -> Vec<(&str, &str)> {
    let lines = unit.lines().filter(|line| !line.starts_with(['#', '[']));
    lines.filter_map(|line| line.split_once('=')).collect()
}

fn all<'a>(settings: &[(&'a str, &'a str)], name: &str) -> Vec<&'a str> {
    settings.iter().filter(|(known, _)| *known == name).map(|(_, value)| *value).collect()
}

fn one<'a>(settings: &[(&'a str, &'a str)], name: &str) -> &'a str {
    let [value] = all(settings, name)[..] else { panic!("{name} must occur once: {settings:?}") };
    value
}

/// Asserts that `up` reads each of these variables.
async fn assert_up_reads(variables: &[&str]) {
    let help = annalist(&["up", "--help"]).await.stdout;
    for variable in variables {
        assert!(help.contains(&format!("[env: {variable}=")), "`annalist up` reads no {variable}: {help}");
    }
}

fn drains_within(seconds: u64) {
    let workers = RuntimeSettings::default().drain_deadline;
    assert!(Duration::from_secs(seconds) > REQUESTS_DRAIN + workers, "{seconds} s are too short for a drain");
}

#[tokio::test]
async fn the_unit_runs_an_existing_command_with_a_writable_folder() {
    let unit = text("deploy/annalist.service");
    let settings = settings(&unit);
    let mut started = one(&settings, "ExecStart").split(' ');
    assert_eq!(started.next(), Some("/usr/local/bin/annalist"));
    let args: Vec<&str> = started.chain(["--help"]).collect();
    let outcome = annalist(&args).await;
    assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");

    let environment: Vec<(&str, &str)> =
        all(&settings, "Environment").iter().map(|set| set.split_once('=').unwrap()).collect();
    assert_up_reads(&environment.iter().map(|(name, _)| *name).collect::<Vec<_>>()).await;
    let value = |name| environment.iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!(value("ANNALIST_DATA"), format!("/var/lib/{}", one(&settings, "StateDirectory")));
    assert_eq!(value("ANNALIST_LISTEN"), DEFAULT_LISTEN.to_string());
    drains_within(one(&settings, "TimeoutStopSec").parse().unwrap());
    // The exit code of a wrong setting, which a restart would not fix.
    let wrong = annalist(&["up", "--data", "/nonexistent"]).await;
    assert_eq!(wrong.code.unwrap().to_string(), one(&settings, "RestartPreventExitStatus"));
    for (name, value) in [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("LimitCORE", "0"),
    ] {
        assert_eq!(one(&settings, name), value, "{name}");
    }
    let readme = text("deploy/README.md");
    // Without the file, `up` itself says what is missing.
    let file = one(&settings, "EnvironmentFile").strip_prefix('-').unwrap();
    assert!(readme.contains(file));
}

#[test]
fn systemd_accepts_the_unit_and_finds_little_exposed() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else { return };
    let version = String::from_utf8(version.stdout).unwrap();
    let release: u32 = version.split_whitespace().nth(1).unwrap().parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("annalist.service");
    let here = text("deploy/annalist.service")
        .replace("/usr/local/bin/annalist", binaries().annalist.to_str().unwrap());
    fs::write(&unit, here).unwrap();
    let analyze = |args: &[&str]| {
        let output = Command::new("systemd-analyze").args(args).arg(&unit).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{text}");
        text
    };
    let complaints = analyze(&["verify", "--man=no"]);
    assert!(!complaints.contains("annalist.service"), "{complaints}");
    // Version 250 introduced reading a unit that is not installed.
    if release >= 250 {
        analyze(&["security", "--offline=true", "--threshold=15"]);
    }
}

#[tokio::test]
async fn the_example_of_the_environment_names_the_secrets() {
    let example = text("deploy/annalist.env.example");
    for variable in [SIGNING_SECRET.value, BOT_TOKEN.value, APP_TOKEN] {
        let named = |line: &str| line.trim_start_matches('#') == format!("{variable}=");
        assert!(example.lines().any(named), "{variable}: {example}");
    }
    // The filled-in copies of it must not be committed.
    for copy in ["/deploy/annalist.env", "/deploy/.env"] {
        assert!(text(".gitignore").lines().any(|line| line == copy), "{copy}");
    }
}

/// The instructions of a Dockerfile, each on one line.
fn instructions(dockerfile: &str) -> Vec<(String, String)> {
    let joined: Vec<&str> = dockerfile.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = joined.join("\n").replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(a, b)| (a.to_owned(), b.trim().to_owned()))
        .collect()
}

/// Whether an image has a tag and a digest: `debian:trixie-20261005-slim@sha256:…`. The tag is for people,
/// the digest fixes the contents.
fn is_pinned(image: &str) -> bool {
    image.split_once("@sha256:").is_some_and(|(tagged, digest)| {
        tagged.contains(':') && digest.len() == 64 && digest.chars().all(|digit| digit.is_ascii_hexdigit())
    })
}

#[test]
fn a_tag_without_a_digest_is_not_pinned() {
    let digest = "0".repeat(64);
    for (image, expected) in [
        ("debian:trixie-slim", false),
        ("debian:trixie-20261005-slim", false),
        ("debian:trixie-20261005-slim@sha256:00", false),
        (&format!("debian@sha256:{digest}"), false),
        (&format!("debian:trixie-20261005-slim@sha256:{digest}"), true),
    ] {
        assert_eq!(is_pinned(image), expected, "{image}");
    }
}

#[tokio::test]
async fn the_image_is_pinned_does_not_run_as_root_and_contains_every_binary() {
    let dockerfile = text("deploy/Dockerfile");
    let instructions = instructions(&dockerfile);
    let of = |name: &str| -> Vec<&str> {
        instructions.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    };
    for image in of("FROM") {
        let image = image.split(' ').next().unwrap();
        assert!(is_pinned(image), "{image} may change tomorrow");
    }
    let toolchain = text("rust-toolchain.toml");
    let channel = toolchain.split("channel = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(of("FROM")[0].starts_with(&format!("rust:{channel}-")), "the toolchain is {channel}");
    assert!(of("ENV")[0] == format!("RUSTUP_TOOLCHAIN={channel}"));

    let user: u32 = of("USER").last().unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(user >= 1000, "{user}");
    let port = DEFAULT_LISTEN.port().to_string();
    assert_eq!(of("EXPOSE"), [format!("{port} {}", DEFAULT_VIEWER_LISTEN.port())]);
    let environment: Vec<(&str, &str)> =
        of("ENV")[1].split(' ').map(|set| set.split_once('=').unwrap()).collect();
    assert_up_reads(&environment.iter().map(|(name, _)| *name).collect::<Vec<_>>()).await;
    assert_eq!(environment, [("ANNALIST_DATA", "/data"), ("ANNALIST_LISTEN", &format!("0.0.0.0:{port}"))]);
    assert_eq!(of("VOLUME"), ["/data"]);
    assert_eq!((of("ENTRYPOINT"), of("CMD")), (vec![r#"["annalist"]"#], vec![r#"["up"]"#]));

    // Both scripts have annalist, ingest and a name for each file in the folder of the workers' binaries.
    let listed =
        Command::new("sh").args(["-c", &format!("echo {WORKER_BINARIES}")]).current_dir(root()).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let listed: BTreeSet<&str> =
        ["annalist", "ingest"].into_iter().chain(listed.split_whitespace()).collect();
    assert_eq!(listed, programs().collect());
    for script in ["deploy/Dockerfile", "deploy/dist.sh"] {
        let text = text(script);
        assert!(text.contains(&format!("workers={WORKER_BINARIES}")), "{script}");
        assert!(text.contains("annalist ingest message-writer"), "{script}");
        assert!(
            text.contains("for worker in $workers; do") && text.contains("ln -s message-writer"),
            "{script}"
        );
    }
    assert!(text("docs/deploy-aws.md").contains(&format!("for part in ingest {WORKER_BINARIES}; do")));
    // On an emulator, all but those that end at once while the responder is off.
    let page = text("localstack/README.md");
    let (_, parts) = page.split_once("for part in ").unwrap();
    let started: BTreeSet<&str> = parts.split_once(';').unwrap().0.split(' ').collect();
    let left_out: Vec<&&str> = listed.difference(&started).collect();
    assert_eq!(left_out, [&"annalist", &"poster", &"responder"]);
    let ignored = text("deploy/Dockerfile.dockerignore");
    let manifest = text("Cargo.toml");
    let (_, members) = manifest.split_once("members = [").unwrap();
    let members = members.split_once(']').unwrap().0.split('"').skip(1).step_by(2);
    let folders: BTreeSet<&str> = members.map(|member| member.split('/').next().unwrap()).collect();
    assert!(folders.contains("cli"), "{folders:?}");
    for needed in folders.into_iter().chain(["Cargo.toml", "Cargo.lock", ".cargo", "deploy/annalist.service"])
    {
        assert!(ignored.lines().any(|line| line == format!("!{needed}")), "the build lacks {needed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_images_health_check_distinguishes_a_ready_process_from_one_that_is_not_ready() {
    let command = health_command();
    let check = |port: u16| {
        let words: Vec<String> = command.iter().map(|word| word.replace("3000", &port.to_string())).collect();
        assert_ne!(words, command);
        let mut check = tokio::process::Command::new(&words[0]);
        check.args(&words[1..]).kill_on_drop(true);
        async move { check.output().await.unwrap().status.code() }
    };
    let data = tempfile::tempdir().unwrap();
    let up = process::up(data.path()).await;
    assert_eq!(check(up.address.port()).await, Some(0));
    let port = up.address.port();
    up.process.stop().await;
    assert_eq!(check(port).await, Some(1));
    // A listener that responds with a status other than 200.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Read the whole request: closing earlier would reset the client's connection before it gets the
        // response.
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
            request.extend_from_slice(&byte);
        }
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 503 Service Unavailable\r\n\r\n").unwrap();
    });
    assert_eq!(check(port).await, Some(1));
    answers.join().unwrap();
}

/// The command of the image's `HEALTHCHECK`.
fn health_command() -> Vec<String> {
    let dockerfile = text("deploy/Dockerfile");
    let (_, check) = dockerfile.split_once("HEALTHCHECK").unwrap();
    let command = check.lines().find_map(|line| line.trim().strip_prefix("CMD ")).unwrap();
    serde_json::from_str(command).unwrap()
}

#[tokio::test]
async fn compose_serves_pages_behind_a_password_and_passes_every_secret() {
    let compose = text("deploy/compose.yaml");
    let lines: Vec<&str> = compose.lines().map(str::trim).collect();
    let value = |name: &str| {
        let values = lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let [value] = values.collect::<Vec<_>>()[..] else { panic!("compose.yaml sets {name} not once") };
        value.to_owned()
    };
    for variable in [SIGNING_SECRET.value, BOT_TOKEN.value, APP_TOKEN] {
        assert_eq!(value(variable), format!("${{{variable}:-}}"));
    }
    let port = DEFAULT_VIEWER_LISTEN.port();
    assert_eq!(value("ANNALIST_VIEWER_LISTEN"), format!("0.0.0.0:{port}"));
    assert_eq!(value("ANNALIST_VIEWER_PASSWORD_FILE"), "auto");
    assert!(lines.contains(&format!("- \"127.0.0.1:{port}:{port}\"").as_str()));
    assert!(lines.contains(&"required: false"));
    assert_up_reads(&["ANNALIST_VIEWER_LISTEN", "ANNALIST_VIEWER_PASSWORD_FILE"]).await;
    // Compose writes a dollar sign twice.
    let health: Vec<String> = serde_json::from_str(&value("test").replace("$$", "$")).unwrap();
    assert_eq!(health[0], "CMD");
    assert_eq!(health[1..], health_command());
}

#[test]
fn compose_restricts_the_container_and_gives_it_time_to_drain() {
    let compose = text("deploy/compose.yaml");
    let lines: Vec<&str> = compose.lines().map(str::trim).collect();
    let port = DEFAULT_LISTEN.port();
    for line in [
        "read_only: true",
        "cap_drop:",
        "- ALL",
        "- no-new-privileges:true",
        "- /tmp",
        "- annalist:/data",
        "dockerfile: deploy/Dockerfile",
        "context: ..",
        &format!("- \"127.0.0.1:{port}:{port}\""),
    ] {
        assert!(lines.contains(&line), "compose.yaml lacks {line}");
    }
    let grace = lines.iter().find_map(|line| line.strip_prefix("stop_grace_period: ")?.strip_suffix('s'));
    drains_within(grace.unwrap().parse().unwrap());
}

#[test]
fn the_proxies_forward_only_the_events_path_to_the_default_port() {
    let readme = text("deploy/README.md");
    let address = DEFAULT_LISTEN.to_string();
    for block in ["```caddyfile", "```nginx", "```yaml"] {
        let (_, block) = readme.split_once(block).unwrap();
        let (block, _) = block.split_once("```").unwrap();
        assert!(block.contains(&address) && block.contains(tests::harness::client::PATH), "{block}");
        // The proxy answers requests for other paths.
        assert!(block.contains("404") && !block.contains("readyz"), "{block}");
    }
}

#[test]
fn the_release_scripts_are_valid_and_pack_existing_files() {
    for script in ["deploy/dist.sh", "deploy/release.sh"] {
        let parsed = Command::new("bash").arg("-n").arg(root().join(script)).output().unwrap();
        assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    }
    let refused = Command::new(root().join("deploy/release.sh")).arg("--target").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--targets and --image"));
    // Without a hash, another wheel of the same name would be run.
    let pinned = text("deploy/zig.txt").lines().filter(|line| line.contains("--hash=sha256:")).count();
    assert_eq!(pinned, 4);
    for file in ["deploy/annalist.service", "deploy/annalist.env.example", "LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(text("deploy/dist.sh").contains(file) && root().join(file).is_file(), "{file}");
    }
}

#[test]
fn the_program_of_the_workers_is_the_one_whose_name_a_link_to_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let program = binaries().worker("message-writer");
    for (name, expected) in
        [("historian", "Usage: historian "), ("my-historian", "is not the name of a worker")]
    {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let said = Command::new(link).arg("--help").output().unwrap();
        let said = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// Writes a script that may be executed.
fn script(path: &Path, body: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/usr/bin/env bash\nset -euo pipefail\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A checkout in which the two steps that compile are played.
#[test]
fn a_release_has_the_archives_the_list_of_contents_and_the_compose_file_with_the_sum_of_each() {
    let checkout = tempfile::tempdir().unwrap();
    let at = |name: &str| checkout.path().join(name);
    script(&at("deploy/dist.sh"), "mkdir -p dist && echo \"$1\" >\"dist/annalist-1.2.3-$1.tar.gz\"");
    for name in ["deploy/release.sh", "deploy/compose.yaml", "deploy/annalist.env.example"] {
        fs::copy(root().join(name), at(name)).unwrap();
    }
    fs::write(at("Cargo.toml"), "[workspace.package]\nversion = \"1.2.3\"\n").unwrap();
    let release = text("deploy/release.sh");
    let tool = release.lines().find_map(|line| line.strip_prefix("cyclonedx=")).unwrap();
    // As the real one, it writes a list for each member of the workspace, with the folder of each.
    let members = "for member in cli shared/rules; do mkdir -p $member; \
        echo \"path+file://$(pwd -P)/$member#1.2.3\" >$member/annalist-1.2.3.cdx.json; done";
    script(&at(&format!("target/cargo-cyclonedx-{tool}/bin/cargo-cyclonedx")), members);
    let image = "registry.example/annalist@sha256:0123";
    let args = ["--targets", "one two", "--image", image];
    let outcome = Command::new(at("deploy/release.sh")).args(args).output().unwrap();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let mut names: Vec<String> = fs::read_dir(at("dist"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let expected = [
        "SHA256SUMS",
        "annalist-1.2.3-one.tar.gz",
        "annalist-1.2.3-two.tar.gz",
        "annalist-1.2.3.cdx.json",
        "annalist.env.example",
        "compose.yaml",
    ];
    assert_eq!(names, expected);
    let sums =
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(at("dist")).status();
    assert!(sums.unwrap().success());
    assert_eq!(fs::read_to_string(at("dist/SHA256SUMS")).unwrap().lines().count(), expected.len() - 1);
    let compose = fs::read_to_string(at("dist/compose.yaml")).unwrap();
    assert!(
        compose.contains(&format!("image: ${{ANNALIST_IMAGE:-{image}}}\n    environment:\n")),
        "{compose}"
    );
    assert!(!compose.contains("build:") && !compose.contains("deploy/"), "{compose}");
    let list = fs::read_to_string(at("dist/annalist-1.2.3.cdx.json")).unwrap();
    assert_eq!(list, "path+file:///src/cli#1.2.3\n");
    assert!(!at("shared/rules/annalist-1.2.3.cdx.json").exists(), "it is left in the checkout");
}

#[test]
fn the_release_workflow_runs_pinned_actions_with_few_rights() {
    let workflow = text(".github/workflows/release.yml");
    let actions: Vec<&str> =
        workflow.lines().filter_map(|line| line.split_once("uses: ")).map(|(_, action)| action).collect();
    assert!(!actions.is_empty());
    for action in actions {
        let commit = action.split(['@', ' ']).nth(1).unwrap();
        assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{action}");
    }
    assert!(workflow.contains("\npermissions:\n  contents: read\n"));
    assert_eq!(workflow.matches("contents: write").count(), 1);
    for run in [".ci/run", "deploy/release.sh"] {
        assert!(workflow.contains(run) && root().join(run).is_file(), "{run}");
    }
}
