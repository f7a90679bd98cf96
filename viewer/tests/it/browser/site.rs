//! An archive that is served to a browser on its own port.

use std::net::SocketAddr;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fixture::ViewerFixture;

/// A picture of one pixel.
const PIXEL: [u8; 67] = [
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 58,
    126, 155, 85, 0, 0, 0, 10, 73, 68, 65, 84, 120, 156, 99, 104, 0, 0, 0, 130, 0, 129, 119, 205, 114, 182,
    0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

/// A served archive.
pub(super) struct ServedSite {
    pub(super) fixture: ViewerFixture,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl ServedSite {
    pub(super) async fn serve(fixture: ViewerFixture) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(viewer::serve(listener, fixture.router(), std::future::pending()));
        Self { fixture, address, serving }
    }

    /// The address of a path.
    pub(super) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Serves a workspace with all kinds of content, and `count` messages in its first channel.
    pub(super) async fn busy(count: i64) -> Self {
        let fixture = ViewerFixture::open();
        for (id, name) in [("C1", "general"), ("C2", "deploys"), ("C3", "old-plans")] {
            fixture.channel(id, name).await;
        }
        fixture.channel_event("channel_archive", "C3").await;
        for (id, name) in [("U1", "Ana Lima"), ("U2", "Ben Okafor"), ("U3", "Cho 조은")] {
            fixture.person(id, name).await;
        }
        let message = |n: i64| {
            let user = ["U1", "U2", "U3"][usize::try_from(n % 3).unwrap()];
            json!({ "ts": ts(n), "user": user, "text": format!("message number {n} :wave:") })
        };
        fixture.messages("C1", &(0..count).map(message).collect::<Vec<_>>()).await;
        fixture.reply("C1", "1795170000.000100", &ts(0), "the *only* reply").await;
        fixture.edit("C1", &ts(1), "1795170100.000100", "message number 1, edited").await;
        fixture.delete("C1", &ts(2), "1795170200.000100").await;
        fixture.react("C1", &ts(3), "tada", "U2").await;
        let code =
            "```let answer = 42;```\n> quoted\n<https://example.com/|a link> and `code` for <@U2> in <#C2>";
        fixture
            .message(
                "C2",
                json!({ "ts": "1795100000.000100", "user": "U2", "text": code,
            "attachments": [{ "color": "good", "title": "Build 7", "text": "passed", "footer": "ci" }] }),
            )
            .await;
        let file = json!({ "id": "F1", "name": "pixel.png", "mimetype": "image/png", "size": PIXEL.len(), "mode": "hosted" });
        fixture.share("C2", "1795100001.000100", file, &PIXEL).await;
        let file =
            json!({ "id": "F2", "name": "notes.txt", "mimetype": "text/plain", "size": 5, "mode": "hosted" });
        fixture.share("C2", "1795100002.000100", file, b"notes").await;
        fixture.post("C3", "1700000000.000100", "long ago").await;
        Self::serve(fixture).await
    }
}

/// Returns the timestamp of message `n`; there is one every five minutes.
pub(super) fn ts(n: i64) -> String {
    format!("{}.000100", 1_791_000_000 + n * 300)
}

impl Drop for ServedSite {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
