//! Apps with a path and a secret of their own.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use ports::clock::{ManualClock, TimestampMs};
use ports::reread::{Reread, RereadLimits};
use slack::signing_table::SigningTable;

use super::queue::Behaviour;
use super::{IngestFixture, MESSAGE, NOW_S, router, secrets, signed_with};
use crate::EVENTS_PATH;

const APPS: usize = 500;

/// The secrets of the plain path and of this many apps.
fn table(apps: usize) -> SigningTable {
    let mut table = SigningTable::from(secrets("current"));
    let apps: BTreeMap<String, String> = (0..apps).map(|app| (app_id(app), secret(app))).collect();
    table.add_apps(&serde_json::to_string(&apps).unwrap().into()).unwrap();
    table
}

fn app_id(app: usize) -> String {
    format!("A0{app}")
}

fn secret(app: usize) -> String {
    format!("secret-{app}")
}

/// An endpoint with a table that has one app more each time it is read.
fn fixture(first: usize) -> (IngestFixture, Arc<ManualClock>) {
    let clock = ManualClock::starting_at(TimestampMs(NOW_S * 1000));
    let limits = RereadLimits {
        max_age: Duration::from_secs(15),
        min_interval: Duration::from_secs(1),
        time_limit: Duration::from_millis(800),
    };
    let read = Box::new(|last: Arc<SigningTable>| {
        let read = async move { Ok(Arc::new(table(last.app_count() + 1))) };
        Box::pin(read) as Pin<Box<dyn Future<Output = _> + Send>>
    });
    let mut fixture = IngestFixture::new(Behaviour::Keep);
    let reread = Reread::new("NAME", Arc::new(table(first)), limits, clock.clone(), read);
    fixture.ingest.secrets = Some(Arc::new(reread));
    fixture.router = router(fixture.ingest.clone());
    (fixture, clock)
}

/// The response to a request to this path, signed with this secret.
async fn status(fixture: &IngestFixture, path: &str, secret: &str) -> u16 {
    let mut request = signed_with(secret, NOW_S, MESSAGE);
    *request.uri_mut() = format!("{EVENTS_PATH}{path}").parse::<Uri>().unwrap();
    fixture.send(request).await.status.as_u16()
}

#[tokio::test]
async fn each_of_500_paths_accepts_only_the_secret_of_its_app() {
    let (fixture, _) = fixture(APPS);
    for app in 0..APPS {
        let path = format!("/{}", app_id(app));
        assert_eq!(status(&fixture, &path, &secret(app)).await, 200, "{path}");
        for wrong in [secret((app + 1) % APPS), "current".to_owned()] {
            assert_eq!(status(&fixture, &path, &wrong).await, 401, "{path}");
        }
        assert_eq!(status(&fixture, "", &secret(app)).await, 401, "the plain path has its own");
    }
    assert_eq!(status(&fixture, "", "current").await, 200);
    for (path, expected) in [
        (format!("/{}", app_id(APPS)), 401),
        ("/a%20b".to_owned(), 401),
        (format!("/{}", "A".repeat(4_000)), 401),
        ("/A00/more".to_owned(), 404),
        ("/".to_owned(), 404),
    ] {
        assert_eq!(status(&fixture, &path, &secret(0)).await, expected, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_app_gets_the_response_to_a_wrong_signature() {
    let (fixture, _) = fixture(1);
    let mut answers = Vec::new();
    for app in ["A00", "A0UNKNOWN"] {
        let mut request = signed_with("wrong", NOW_S, MESSAGE);
        *request.uri_mut() = format!("{EVENTS_PATH}/{app}").parse::<Uri>().unwrap();
        answers.push(fixture.send(request).await);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].verdict(), (401, false));
}

#[tokio::test]
async fn a_further_app_is_read_with_its_first_request() {
    let (fixture, clock) = fixture(1);
    let new_app = format!("/{}", app_id(1));
    assert_eq!(status(&fixture, &new_app, &secret(1)).await, 401, "it was just read");
    clock.advance(Duration::from_secs(1));
    assert_eq!(status(&fixture, &new_app, &secret(1)).await, 200);
    assert_eq!(status(&fixture, "/A00", &secret(0)).await, 200, "the others stay");
}
