//! Exports whose workspace or whose file names are not what a simple program expects.

use serde_json::{Value, json};

use super::{ShapeArchive, plain_channel};
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
