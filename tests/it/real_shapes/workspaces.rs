//! Exports whose workspace or whose file names are not what a simple program expects.

use serde_json::{Value, json};

use tests::harness::command::json_lines;

use super::{ShapeArchive, plain_channel};
use crate::export::formats::{contains, files_below};
use crate::import::export::Export;

fn message(ts: &str, user: &str, text: &str) -> Value {
    json!({ "type": "message", "user": user, "text": text, "ts": ts, "team": "T0HOME0001" })
}

#[tokio::test]
async fn an_export_belongs_to_its_members_and_not_to_its_guests() {
    let person = |id: &str, team: &str, is_guest: bool| {
        json!({ "id": id, "team_id": team, "name": id.to_lowercase(), "is_restricted": is_guest,
            "profile": { "display_name": id.to_lowercase() } })
    };
    let people = json!([
        person("U1", "T0HOME0001", false),
        person("U2", "T0HOME0001", false),
        person("U7", "T0GUESTS01", true),
        person("U8", "T0GUESTS01", true),
        person("U9", "T0GUESTS01", true),
    ]);
    let export = Export::default()
        .with("users.json", &people)
        .with("channels.json", &json!([plain_channel("C0HOME", "home")]))
        .with("home/2023-11-14.json", &json!([message("1700000001.000100", "U1", "at home")]));
    let archive = ShapeArchive::new(&export).await;
    assert_eq!(archive.imported.code, Some(0), "{}", archive.imported.stderr);
    let listed = archive.printed(&["messages", "home", "--team", "T0HOME0001"]).await;
    assert!(listed.contains("at home"), "{listed}");
}

#[tokio::test]
async fn an_export_that_windows_zipped_is_imported() {
    let people =
        json!([{ "id": "U1", "team_id": "T0HOME0001", "name": "pat", "profile": { "display_name": "pat" } }]);
    let export = Export::default()
        .with("users.json", &people)
        .with("channels.json", &json!([plain_channel("C0HOME", "home")]))
        .with("home\\2023-11-14.json", &json!([message("1700000001.000100", "U1", "from a folder")]));
    let archive = ShapeArchive::new(&export).await;
    assert_eq!(
        (archive.imported.code, archive.imported.count("new")),
        (Some(0), 1),
        "{}",
        archive.imported.stderr
    );
    assert!(archive.printed(&["messages", "home"]).await.contains("from a folder"));
}

#[tokio::test]
async fn a_person_of_another_organisation_is_a_stranger_in_every_list_and_is_erased_by_name() {
    let person = |id: &str| json!({ "id": id, "team_id": "T0HOME0001", "name": id.to_lowercase(), "profile": { "display_name": id.to_lowercase() } });
    let profile =
        json!({ "display_name": "kim.v", "real_name": "Kim Vale", "name": "kim", "team": "T0PARTNER01" });
    let greeting = json!({ "type": "message", "user": "U0KIM", "text": "greetings from outside", "ts": "1700000001.000100",
        "team": "T0PARTNER01", "user_team": "T0PARTNER01", "source_team": "T0PARTNER01", "user_profile": profile });
    let day = json!([greeting, message("1700000002.000100", "U1", "welcome <@U0KIM>")]);
    let export = Export::default()
        .with("users.json", &json!([person("U1"), person("U2")]))
        .with("channels.json", &json!([plain_channel("C0HOME", "home")]))
        .with("home/2023-11-14.json", &day);
    let archive = ShapeArchive::new(&export).await;
    assert_eq!(archive.imported.code, Some(0), "{}", archive.imported.stderr);
    let data = archive.data();
    let people = json_lines(&*data, &["users"]).await;
    let kim = people
        .iter()
        .find(|person| person.to_string().contains("U0KIM"))
        .unwrap_or_else(|| panic!("{people:?}"));
    assert_eq!(kim["kind"], "stranger", "{kim}");
    assert!(archive.printed(&["users"]).await.contains("kim.v"));
    let report = archive.printed(&["report", "--from", "2023-11-14", "--to", "2023-11-15", "--json"]).await;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["figures"]["all_users"]["value"], 2, "{report}");

    archive.printed(&["erase", "--user", "kim.v", "--yes", "--compact"]).await;
    for text in ["greetings from outside", "Kim Vale", "kim.v"] {
        let files = files_below(&data).into_iter();
        let left: Vec<_> = files.filter(|(_, bytes)| contains(bytes, text)).map(|(path, _)| path).collect();
        assert!(left.is_empty(), "{text} is in {left:?}");
    }
    assert!(archive.printed(&["messages", "home"]).await.contains("welcome"));
}
