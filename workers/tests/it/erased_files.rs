//! Tests of erased files that several messages share.

use rules::file::row::MAX_SHARES;
use serde_json::json;
use testkit::corpus::event;
use workers::eraser::EraserMode;

use crate::eraser::{EraserFixture, SECRET, fact, person, ts};

#[tokio::test]
async fn a_forwarded_file_stays_until_the_last_message_with_it_is_erased() {
    let fixture = EraserFixture::new();
    let file = json!([{ "id": "F1", "name": format!("{SECRET}.pdf"), "user": "U2" }]);
    let original =
        event::with_fields(event::message(ts(1).as_str(), "U2", "mine"), [("files", file.clone())]);
    let forward = event::message(ts(2).as_str(), "U1", "fyi");
    let forward =
        event::with_fields(forward, [("attachments", json!([{ "author_id": "U2", "files": file }]))]);
    fixture.store_events(&[event::posted("C1", &original), event::posted("C2", &forward)]).await;
    fixture.share("F1", SECRET, &[("C1", 1), ("C2", 2)]).await;

    // The owner of the file is erased; the other person's message still has it.
    assert_eq!(fixture.run(&fact(person("U2")), EraserMode::Act).await.files, 0);
    assert_eq!(fixture.file_names(), ["F1"]);
    assert_eq!(fixture.run(&fact(person("U1")), EraserMode::Act).await.files, 1);
    assert_eq!((fixture.file_names(), fixture.leaks()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_file_stays_if_its_row_may_not_list_all_its_messages() {
    let fixture = EraserFixture::new();
    let seconds: Vec<u32> = (0..u32::try_from(MAX_SHARES).unwrap()).collect();
    let posted = |second: &u32| event::posted("C1", &event::message(ts(*second).as_str(), "U1", "mine"));
    fixture.store_events(&seconds.iter().map(posted).collect::<Vec<_>>()).await;
    let shared: Vec<(&str, u32)> = seconds.iter().map(|second| ("C1", *second)).collect();
    fixture.share("F1", "in more messages, perhaps", &shared).await;
    fixture.share("F2", "in these alone", &shared[1..]).await;
    let done = fixture.run(&fact(person("U1")), EraserMode::Act).await;
    assert_eq!((done.messages, done.files), (MAX_SHARES as u64, 1), "{done:?}");
    assert_eq!(fixture.file_names(), ["F1"]);
}
