//! Events about pins.

use serde_json::json;
use testkit::corpus::event;

use super::{TS, WriterFixture};

#[tokio::test]
async fn a_pin_waits_for_its_message_and_is_no_version_of_it() {
    let fixture = WriterFixture::new();
    let posted = event::posted("C01", &event::message(TS, "U01", "read this"));
    let opener = event::posted("C01", &event::message("1700000000.000050", "U01", "first"));
    fixture.store(&[opener, event::pin_added("C01", TS, "U02", "1700000005.000100")]).await;
    assert_eq!(fixture.message("C01", TS).await, None, "a pin alone shows nowhere");
    fixture.store(std::slice::from_ref(&posted)).await;
    let pinned = json!({ "user": "U02", "ts": "1700000005.000100" });
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!((&row["pinned"], row.get("pin"), row.get("updated_ts")), (&pinned, None, None));
    // The older removal came late.
    fixture.store(&[event::pin_removed("C01", TS, "U02", "1700000004.000000"), posted]).await;
    assert_eq!(fixture.message("C01", TS).await.unwrap()["pinned"], pinned);
    fixture.store(&[event::pin_removed("C01", TS, "U01", "1700000006.000000")]).await;
    assert_eq!(fixture.message("C01", TS).await.unwrap().get("pinned"), None);
    assert!(fixture.revisions(TS).await.is_empty());
}

#[tokio::test]
async fn a_pin_of_a_channel_that_never_was_public_leaves_nothing() {
    let fixture = WriterFixture::new();
    let pin = event::pin_added("C09", TS, "U01", "1700000005.000000");
    fixture.store(std::slice::from_ref(&pin)).await;
    assert!(fixture.archive.items().is_empty(), "it waits until its channel is known");
    fixture.store(&[event::with_fields(pin, [("channel_type", "group".into())])]).await;
    assert!(fixture.archive.items().is_empty());
}
