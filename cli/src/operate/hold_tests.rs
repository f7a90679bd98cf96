use super::*;
use crate::fixture::{CliFixture, output};
use crate::operate::erase::{self, EraseArgs};

#[derive(clap::Parser)]
struct ParsedHoldCommand {
    #[command(subcommand)]
    command: HoldCommand,
}

async fn run_hold(fixture: &CliFixture, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let json: &[&str] = &["--json", "--data", "unused"];
    let arguments = [&["annalist"], arguments, json].concat();
    let ParsedHoldCommand { command } = clap::Parser::try_parse_from(arguments)?;
    let printed = output(async |out| run(&fixture.backend, fixture.clock(), &command, out).await).await?;
    Ok(printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

async fn erase_error(fixture: &CliFixture, arguments: &[&str]) -> Option<String> {
    let mut args: EraseArgs = crate::fixture::parsed(arguments).unwrap();
    args.backend = fixture.data();
    let done = output(async |out| erase::run(&fixture.backend, fixture.clock(), &args, out).await).await;
    done.err().map(|error| error.to_string())
}

#[tokio::test]
async fn a_hold_is_listed_until_it_is_released() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "kept").await;
    let set = ["set", "--user", "U1", "--channel", "C1", "--from", "2023-11-01", "--reason", "case 12"];
    let set = run_hold(&fixture, &set).await.unwrap();
    let id = set[0]["id"].as_str().unwrap().to_owned();
    assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(
        (&set[0]["user_id"], &set[0]["channel_id"], &set[0]["from"], &set[0]["to"], &set[0]["reason"]),
        (&json!("U1"), &json!("C1"), &json!("1698796800.000000"), &json!(null), &json!("case 12"))
    );
    assert_eq!(run_hold(&fixture, &["list"]).await.unwrap(), set);
    let released = run_hold(&fixture, &["release", &id, "--reason", "closed"]).await.unwrap();
    assert_eq!(released[0]["release_reason"], "closed");
    assert_eq!(run_hold(&fixture, &["list"]).await.unwrap(), Vec::<Value>::new());
    assert_eq!(run_hold(&fixture, &["list", "--all"]).await.unwrap(), released);
    let again = run_hold(&fixture, &["release", &id, "--reason", "closed"]).await.unwrap_err();
    assert!(again.to_string().contains("was released on 2026-11-20"), "{again}");
}

#[tokio::test]
async fn a_wrong_hold_is_refused_and_nothing_is_stored() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "kept").await;
    for wrong in [
        &["set", "--user", "U1"][..],
        &["set", "--reason", "x"],
        &["set", "--channel", "C1", "--workspace", "--reason", "x"],
        &["set", "--channel", "C1", "--reason", " "],
        &["set", "--channel", "C1", "--reason", "x", "--from", "yesterday"],
    ] {
        assert!(run_hold(&fixture, wrong).await.unwrap_err().is::<clap::Error>(), "{wrong:?}");
    }
    let turned = ["set", "--channel", "C1", "--reason", "x", "--from", "2026-11-02", "--to", "2026-11-02"];
    assert!(run_hold(&fixture, &turned).await.unwrap_err().is::<UsageError>());
    for (unknown, expected) in [
        (&["set", "--channel", "C9", "--reason", "x"][..], "no channel C9"),
        (&["set", "--user", "@nemo", "--reason", "x"], "nemo"),
        (&["release", "12345678", "--reason", "x"], "there is no hold 12345678"),
    ] {
        let error = run_hold(&fixture, unknown).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    assert_eq!(run_hold(&fixture, &["list", "--all"]).await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn erase_refuses_what_is_on_hold_and_names_the_hold() {
    let erased = [
        (&["--user", "U1"][..], "U1"),
        (&["--channel", "C1"], "C1"),
        (&["--message", "C1", "1700000000.000100"], "the message 1700000000.000100 of C1"),
    ];
    let held = [
        (&["--user", "U1"][..], [true, true, true]),
        (&["--channel", "C1"], [true, true, true]),
        (&["--workspace"], [true, true, true]),
        (&["--channel", "C1", "--to", "2023-11-01"], [false, true, false]),
        (&["--channel", "C2"], [false, false, false]),
        (&["--user", "U2"], [false, false, false]),
    ];
    for (scope, refuses) in held {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000000.000100", "kept").await;
        fixture.channel("T1", "C2", "1700000000.000000", "other").await;
        let hold = run_hold(&fixture, &[&["set", "--reason", "case 12"], scope].concat()).await.unwrap();
        let id = hold[0]["id"].as_str().unwrap();
        for ((arguments, what), refuses) in erased.iter().zip(refuses) {
            let yes: &[&str] = if refuses { &["--yes"] } else { &[] };
            let error = erase_error(&fixture, &[*arguments, yes].concat()).await;
            let expected = format!(
                "{what} is on hold {id} (\"case 12\", since 2026-11-20): release it first with annalist hold release {id}"
            );
            if refuses {
                assert_eq!(error, Some(expected), "{scope:?}");
                let key = ItemKey::new("message#T1#C1", "1700000000.000100");
                assert!(!fixture.archive().get(&key).await.unwrap().unwrap().is_erased());
            } else {
                assert_eq!(error, None, "{scope:?} {what}");
            }
        }
    }
}
