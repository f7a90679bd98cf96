//! Avatars and emoji.

use ports::archive::{Archive, ArchiveExt, ItemKey};
use ports::files::{FileKey, Files};
use ports::queue::Delivery;
use rules::file::image;
use rules::{Change, SlackEvent, project};
use serde_json::{Value, json};
use slack::envelope::Envelope;
use slack::ids::UserId;
use slack_api::Tokens;
use testkit::corpus::{TEAM, event};
use testkit::deliveries::delivery_of;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};
use workers::runtime::JobOutcome;

use super::fixture::{DownloaderFixture, authorization, downloads, settings, slack, team, with_slack};

/// Stores an event, as the message-writer does, and returns the picture jobs that follow.
async fn store(fixture: &DownloaderFixture, event: &Value) -> Vec<Delivery> {
    let body = event::envelope(TEAM, "Ev1", event);
    let envelope = Envelope::peek(body.as_bytes()).unwrap();
    let mut jobs = Vec::new();
    for change in SlackEvent::read(&envelope).unwrap().changes().unwrap() {
        let Change::Register(update) = change else { panic!("not of the directory") };
        fixture.archive.write(&update).await.unwrap();
        jobs.extend(image::job(&update).map(delivery_of));
    }
    jobs
}

async fn person(fixture: &DownloaderFixture, user: &str, url: &str) -> Delivery {
    let event = json!({ "type": "user_change", "event_ts": "1.000000",
        "user": { "id": user, "name": "ana", "profile": { "image_192": url } } });
    store(fixture, &event).await.remove(0)
}

async fn picture_of(fixture: &DownloaderFixture, user: &str) -> Value {
    let key = ItemKey::user(&team(), &UserId::parse(user).unwrap());
    project::directory(&fixture.archive.get(&key).await.unwrap().unwrap())["image_file"].clone()
}

async fn answer(slack: &MockServer, at: &str, response: ResponseTemplate) {
    Mock::given(path(at)).respond_with(response).mount(slack).await;
}

fn picture() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw("not really a picture", "image/png")
}

#[tokio::test]
async fn a_picture_is_fetched_once_and_without_any_token() {
    let (slack, fixture) = with_slack().await;
    answer(&slack, "/avatar.png", picture()).await;
    let url = format!("{}/avatar.png", slack.uri());
    for user in ["U01", "U02"] {
        let job = person(&fixture, user, &url).await;
        assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
        assert!(picture_of(&fixture, user).await.as_str().unwrap().starts_with("slack/"));
    }
    let requests = slack.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1, "the second has the same picture, and the token was not checked");
    assert_eq!(authorization(&requests[0]), None);
    assert_eq!(picture_of(&fixture, "U01").await, picture_of(&fixture, "U02").await);
}

#[tokio::test]
async fn emoji_pictures_are_fetched_without_any_token() {
    let slack = slack().await;
    let fixture = DownloaderFixture::new(&slack.uri(), Tokens::empty(), settings());
    answer(&slack, "/moved.gif", ResponseTemplate::new(301).insert_header("location", "/shipped.gif")).await;
    answer(&slack, "/shipped.gif", picture()).await;
    let event = json!({ "type": "emoji_changed", "subtype": "add", "name": "shipped",
        "value": format!("{}/moved.gif", slack.uri()), "event_ts": "1.000000" });
    let jobs = store(&fixture, &event).await;
    assert_eq!(fixture.handle(&jobs[0]).await, JobOutcome::Done);
    let row = fixture.archive.get(&ItemKey::emoji(&team(), "shipped")).await.unwrap().unwrap();
    assert!(project::directory(&row)["image_file"].is_string());
    let alias = json!({ "type": "emoji_changed", "subtype": "add", "name": "ship_it", "value": "alias:shipped",
        "event_ts": "1.000000" });
    assert!(store(&fixture, &alias).await.is_empty());
}

#[tokio::test]
async fn a_picture_that_cannot_be_fetched_is_given_up_without_an_error() {
    let (slack, fixture) = with_slack().await;
    let other = MockServer::start().await;
    Mock::given(wiremock::matchers::any()).respond_with(picture()).mount(&other).await;
    answer(&slack, "/page", ResponseTemplate::new(200).set_body_raw("<html>", "text/html")).await;
    answer(&slack, "/nothing", ResponseTemplate::new(200).set_body_raw("", "image/png")).await;
    answer(&slack, "/long", ResponseTemplate::new(200).set_body_raw(vec![0; 10_001], "image/png")).await;
    answer(&slack, "/gone", ResponseTemplate::new(410)).await;
    answer(
        &slack,
        "/away",
        ResponseTemplate::new(302).insert_header("location", format!("{}/x", other.uri())),
    )
    .await;
    let at = |path: &str| format!("{}{path}", slack.uri());
    let urls = [
        at("/page"),
        at("/nothing"),
        at("/long"),
        at("/gone"),
        at("/unknown"),
        at("/away"),
        format!("{}/x.png", other.uri()),
        "https://example.com/x.png".to_owned(),
        "https://user:pass@avatars.slack-edge.com/x.png".to_owned(),
    ];
    for (number, url) in urls.iter().enumerate() {
        let user = format!("U{number:02}");
        let job = person(&fixture, &user, url).await;
        assert_eq!(fixture.handle(&job).await, JobOutcome::Done, "{url}");
        assert_eq!(picture_of(&fixture, &user).await, Value::Null, "{url}");
    }
    assert!(other.received_requests().await.unwrap().is_empty());
    assert!(fixture.stored_bytes().is_empty());
}

#[tokio::test]
async fn a_failed_fetch_is_retried_a_few_times() {
    let (slack, fixture) = with_slack().await;
    answer(&slack, "/avatar.png", ResponseTemplate::new(503)).await;
    let job = person(&fixture, "U01", &format!("{}/avatar.png", slack.uri())).await;
    assert!(matches!(fixture.handle(&job).await, JobOutcome::Retry(_)));
    fixture.run_until_done(&job).await;
    assert_eq!(downloads(&slack).await.len(), 3);

    let busy = ResponseTemplate::new(429).insert_header("retry-after", "77");
    answer(&slack, "/busy.png", busy).await;
    let job = person(&fixture, "U02", &format!("{}/busy.png", slack.uri())).await;
    let JobOutcome::Retry(retry) = fixture.handle(&job).await else { panic!("not tried again") };
    assert_eq!(retry.after, Some(std::time::Duration::from_secs(77)));
}

#[tokio::test]
async fn a_picture_of_an_erased_person_is_deleted_unless_another_person_has_it() {
    let (slack, fixture) = with_slack().await;
    for (number, shared) in [(1, false), (2, true)] {
        let path = format!("/{number}.png");
        answer(&slack, &path, picture()).await;
        let url = format!("{}{path}", slack.uri());
        let job = person(&fixture, "U01", &url).await;
        if shared {
            person(&fixture, "U02", &url).await;
        }
        // The picture was stored, but its row did not have it yet, when the person was erased.
        let key = FileKey::image(&team(), &url);
        let mut writer = fixture.files.create(&key).await.unwrap();
        writer.write(b"a picture".as_slice().into()).await.unwrap();
        writer.publish().await.unwrap();
        fixture.archive.erase(&ItemKey::user(&team(), &UserId::parse("U01").unwrap())).await.unwrap();
        assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
        assert_eq!(fixture.stored_bytes().len(), usize::from(shared));
    }
    assert!(downloads(&slack).await.is_empty(), "no picture is requested");
}
