//! The demo, which a new user runs first, and every command that its output recommends.

use std::path::Path;
use std::time::{Duration, Instant};

use tests::harness::binaries::binaries;
use tests::harness::command::{annalist, run};
use tests::harness::process::Process;
use tokio::process::Command;

use crate::view::get;

/// The demo's promise: under ten seconds once it is built. It takes one second; tests run in parallel.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Far more than the demo takes, even on a machine that is busy compiling.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_demo_ends_within_seconds_and_each_command_it_names_works() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("it's a demo");
    binaries();
    let began = Instant::now();
    let demo = annalist(&["demo", "--data", data.to_str().unwrap()]).await;
    assert!(demo.code == Some(0) && demo.stderr.is_empty(), "{demo:?}");
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    for expected in [
        "forged signature",
        "channels joined",
        "former names",
        "private by now",
        "byte for byte",
        "login page",
        "pictures",
        "a gap",
        "@annalist search release",
        "/archives/C0",
    ] {
        assert!(demo.stdout.contains(expected), "{expected:?} is not in {}", demo.stdout);
    }

    let commands: Vec<&str> =
        demo.stdout.lines().filter(|line| line.starts_with("  ") && line.contains(" --data ")).collect();
    assert!(commands.len() >= 9, "{commands:?}");
    let (viewing, commands): (Vec<&str>, Vec<&str>) =
        commands.into_iter().partition(|command| command.contains(" view "));
    assert_eq!(viewing.len(), 1, "it names the viewer, which runs until a signal: `it view` has a test");
    for command in commands {
        let outcome = run(Path::new("/bin/sh"), &["-c", command.trim()], &[]).await;
        assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{command}: {outcome:?}");
        assert!(outcome.stdout.lines().count() > 1, "{command} shows nothing: {outcome:?}");
    }
}

#[tokio::test]
async fn the_demos_pages_are_served_until_a_signal_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(&binaries().annalist);
    command.args(["demo", "--viewer-listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("demo"));
    let demo = Process::start(&mut command);
    demo.wait_for_output("In a browser on this machine it is at http://", DEADLINE).await;
    let output = demo.output();
    let (_, address) = output.split_once("it is at http://").unwrap();
    let address = address.split('/').next().unwrap().parse().unwrap();
    let page = get(address, "/", "localhost").await;
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("data-channel=\"C0"), "{page}");
    demo.stop().await;
}
