//! Counts of messages and replies match the archive.

use reader::joined::ChannelOfTeam;
use serde_json::json;
use slack::ids::{ChannelId, Ts};

use crate::fixture::{SearchFixture, message, team};

fn location(channel: &str) -> ChannelOfTeam {
    ChannelOfTeam { team: team(), channel: ChannelId::parse(channel).unwrap() }
}

#[tokio::test]
async fn replies_are_counted_by_their_root_and_channel() {
    let fixture = SearchFixture::open().await;
    let reply = |ts: &str, root: &str| json!({ "type": "message", "ts": ts, "thread_ts": root, "user": "U2", "text": "to it" });
    let mut broadcast = reply("1700001004.000000", "1700001001.000000");
    broadcast["subtype"] = "thread_broadcast".into();
    let root = reply("1700001001.000000", "1700001001.000000");
    fixture.store("C1", &[root, message("1700001002.000000", "alone")]).await;
    fixture.store("C1", &[reply("1700001003.000000", "1700001001.000000"), broadcast]).await;
    fixture.store("C2", &[reply("1700001005.000000", "1700001001.000000")]).await;
    let index = fixture.caught_up().await;
    let roots =
        ["1700001001.000000", "1700001002.000000", "1700001003.000000"].map(|ts| Ts::parse(ts).unwrap());
    let thread_sizes = async |channels: &[&str]| {
        let locations: Vec<ChannelOfTeam> = channels.iter().map(|channel| location(channel)).collect();
        let sizes = index.thread_sizes(&locations, &roots).await.unwrap();
        sizes.iter().map(|(root, size)| format!("{root} {} {}", size.replies, size.last)).collect::<Vec<_>>()
    };
    assert_eq!(thread_sizes(&["C1"]).await, ["1700001001.000000 2 1700001004.000000"]);
    assert_eq!(thread_sizes(&["C1", "C2"]).await, ["1700001001.000000 3 1700001005.000000"]);
    assert_eq!(thread_sizes(&["C9"]).await, [""; 0]);
    assert_eq!(thread_sizes(&[]).await, [""; 0]);
    let counts = async || index.message_counts().await.unwrap().into_iter().collect::<Vec<_>>();
    assert_eq!(counts().await, [(location("C1"), 4), (location("C2"), 1)]);
    fixture.erase("1700001002.000000").await;
    fixture.caught_up().await;
    assert_eq!(counts().await, [(location("C1"), 3), (location("C2"), 1)]);
}
