use std::process::Command;

use serde_json::json;
use testkit::corpus::event;

use crate::UsageError;
use crate::export::{ExportArgs, run};
use crate::fixture::{CliFixture, output, parsed};

async fn export(fixture: &CliFixture, arguments: &[&str]) -> anyhow::Result<String> {
    let mut args: ExportArgs = parsed(arguments).unwrap();
    args.backend = fixture.data();
    output(async |out| run(&fixture.backend, None, &args, out).await).await
}

#[tokio::test]
async fn the_export_of_a_person_has_their_messages_profile_and_files_with_sums() {
    let fixture = CliFixture::open().await;
    fixture.person("T1", "U1", "ana").await;
    fixture.person("T1", "U2", "bob").await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    fixture.edit("T1", "C1", "1700000000.000100", "1700000009.000000", "mine, edited").await;
    let file = |id: &str| {
        json!({ "id": id, "name": "a b.txt", "size": 4, "mode": "hosted", "filetype": "text",
        "url_private_download": "https://files.slack.com/a.txt" })
    };
    fixture.share("T1", "C1", "1700000001.000100", &file("F1")).await;
    let mut others = event::message("1700000002.000100", "U2", "of another person");
    others["files"] = json!([file("F2")]);
    fixture.write("T1", &event::posted("C1", &others)).await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("ana");
    let printed =
        export(&fixture, &["--format", "jsonl", "--out", out.to_str().unwrap(), "--user", "@ana"]).await;
    assert!(printed.unwrap().starts_with("Exported 2 messages "));
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    for (name, own, lines) in [
        ("messages.jsonl", "mine, edited", 2),
        ("revisions.jsonl", "\"mine\"", 1),
        ("users.jsonl", "ana", 1),
        ("files.jsonl", "F1", 1),
    ] {
        let text = read(name);
        assert!(text.contains(own) && text.lines().count() == lines, "{name}: {text}");
        assert!(
            !text.contains("another person") && !text.contains("bob") && !text.contains("F2"),
            "{name}: {text}"
        );
    }
    let checked =
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&out).status();
    assert!(checked.unwrap().success());
    assert_eq!(read("SHA256SUMS").lines().count(), 5);
}

#[tokio::test]
async fn the_export_of_a_person_needs_jsonl_and_a_person() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("ana");
    let out = out.to_str().unwrap();
    let error = export(&fixture, &["--format", "html", "--out", out, "--user", "U1"]).await.unwrap_err();
    assert!(error.is::<UsageError>(), "{error}");
    let error = export(&fixture, &["--format", "jsonl", "--out", out, "--user", "@nemo"]).await.unwrap_err();
    assert!(error.to_string().contains("nemo"), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
