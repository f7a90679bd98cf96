use std::time::Duration;

use ports::archive::ItemKey;
use serde_json::Value;

use super::*;
use crate::fixture::{CliFixture, output};

#[derive(clap::Parser)]
struct ParsedOptOutCommand {
    #[command(subcommand)]
    command: OptOutCommand,
}

async fn opt_out(fixture: &CliFixture, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let json: &[&str] = &["--json", "--data", "unused"];
    let ParsedOptOutCommand { command } =
        clap::Parser::try_parse_from([&["annalist"], arguments, json].concat())?;
    let printed = output(async |out| run(&fixture.backend, fixture.clock(), &command, out).await).await?;
    Ok(printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

async fn text(fixture: &CliFixture, ts: &str) -> Option<String> {
    let row = fixture.archive().get(&ItemKey::new("message#T1#C1", ts)).await.unwrap();
    row.and_then(|row| row.text("text").map(str::to_owned))
}

#[tokio::test]
async fn what_is_written_while_a_person_or_a_channel_is_out_is_not_stored() {
    for scope in [["--user", "U1"], ["--channel", "C1"]] {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1795178000.000100", "before").await;
        let added = opt_out(&fixture, &[&["add"], &scope[..]].concat()).await.unwrap();
        assert_eq!((&added[0]["since"], &added[0]["until"]), (&json!("1795178096.000000"), &json!(null)));
        // Nothing changes if it is repeated.
        fixture.advance_by(Duration::from_secs(10));
        assert_eq!(opt_out(&fixture, &[&["add"], &scope[..]].concat()).await.unwrap(), added);
        fixture.post("T1", "C1", "1795178100.000100", "while out").await;
        let removed = opt_out(&fixture, &[&["remove"], &scope[..]].concat()).await.unwrap();
        assert_eq!(removed[0]["until"], "1795178106.000000");
        assert_eq!(opt_out(&fixture, &["list"]).await.unwrap(), removed);
        fixture.post("T1", "C1", "1795178100.000100", "while out").await;
        fixture.post("T1", "C1", "1795178200.000100", "after").await;
        let texts = [
            text(&fixture, "1795178000.000100").await,
            text(&fixture, "1795178100.000100").await,
            text(&fixture, "1795178200.000100").await,
        ];
        assert_eq!(texts, [Some("before".into()), None, Some("after".into())], "{scope:?}");
        // Out again.
        fixture.advance_by(Duration::from_secs(10));
        let again = opt_out(&fixture, &[&["add"], &scope[..]].concat()).await.unwrap();
        assert_eq!(again[0]["until"], json!(null));
        assert_eq!(opt_out(&fixture, &["list"]).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn only_who_is_known_can_opt_out_and_only_who_is_out_can_return() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1795178000.000100", "before").await;
    for (wrong, expected) in [
        (&["add", "--channel", "C9"][..], "no channel C9"),
        (&["add", "--user", "@nemo"], "nemo"),
        (&["remove", "--user", "U1"], "U1 of T1 has not opted out"),
    ] {
        let error = opt_out(&fixture, wrong).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    for wrong in [&["add"][..], &["add", "--user", "U1", "--channel", "C1"]] {
        assert!(opt_out(&fixture, wrong).await.unwrap_err().is::<clap::Error>());
    }
    assert_eq!(opt_out(&fixture, &["list"]).await.unwrap(), Vec::<Value>::new());
}
