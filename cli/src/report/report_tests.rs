use std::sync::Arc;
use std::time::Duration;

use ports::archive::ItemKey;
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::QueueName;
use serde_json::Value;
use testkit::deliveries;
use workers::runtime::{JobOutcome, Worker};
use workers::statistician::Statistician;

use super::*;
use crate::fixture::{CliFixture, output, parsed, squeezed};

/// Monday of 2026-W46.
const MONDAY: i64 = 1_794_182_400;

fn args() -> ReportArgs {
    parsed(&["--week", "2026-W46", "--data", "unused"]).unwrap()
}

/// Returns a clock at the Monday two weeks later.
fn clock() -> Arc<ManualClock> {
    ManualClock::starting_at(TimestampMs((MONDAY + 14 * 86_400) * 1_000))
}

async fn printed(fixture: &CliFixture, args: &ReportArgs) -> anyhow::Result<String> {
    output(async |out| run(fixture.archive(), &*fixture.changes(), &*clock(), args, out).await).await
}

fn at(second: i64) -> String {
    format!("{}.000100", MONDAY + second)
}

async fn busy() -> CliFixture {
    let fixture = CliFixture::open().await;
    fixture.channel("T1", "C1", "1000000000.000000", "general").await;
    fixture.channel("T1", "C2", "1000000000.000000", &"名".repeat(80)).await;
    fixture.person("T1", "U1", &"长\u{1b}[31m".repeat(30)).await;
    fixture.post("T1", "C1", &at(-7 * 86_400), "before").await;
    for n in 0..20 {
        fixture.post("T1", ["C1", "C2"][n % 2], &at(n as i64 * 7_000), &"word ".repeat(n * 500)).await;
    }
    fixture.reply("T1", "C1", &at(100), &at(0), "to the first").await;
    fixture
}

#[tokio::test]
async fn text_output_fits_eighty_columns_with_any_names() {
    let text = printed(&busy().await, &args()).await.unwrap();
    for expected in [
        "T1",
        "9–15 November 2026 (week 46), compared with 2–8 November 2026 (week 45)",
        "People",
        "#general",
        "Most replies",
        "Posted for the first time",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    let squeezed = squeezed(&text);
    assert!(squeezed.contains(&"messages 21 1 +20 +2000.0 %".to_owned()), "{text}");
    assert!(squeezed.contains(&"share of the top ten 100.0 % 100.0 % 0".to_owned()), "{text}");
    let width = |line: &str| {
        line.chars()
            .map(|c| if matches!(c, '\u{1100}'..'\u{2500}' | '\u{2e80}'..) { 2 } else { 1 })
            .sum::<usize>()
    };
    let fixture = busy().await;
    for args in [
        args(),
        ReportArgs { channel: Some("C2".into()), ..args() },
        ReportArgs { user: Some("U1".into()), ..args() },
    ] {
        let text = printed(&fixture, &args).await.unwrap();
        assert!(text.lines().count() > 20, "{text}");
        for line in text.lines() {
            assert!(width(line) <= 80 && !line.contains('\u{1b}'), "{} columns: {line}", width(line));
        }
    }
}

#[tokio::test]
async fn json_has_the_documented_keys() {
    let fixture = busy().await;
    let json = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    let whole = json(printed(&fixture, &ReportArgs { json: true, ..args() }).await.unwrap());
    let keys: Vec<&str> = whole.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "report_id",
        "scope",
        "from",
        "to",
        "previous",
        "cached",
        "basis",
        "figures",
        "channels",
        "users",
        "hours",
        "weekdays",
        "timezones",
        "emoji",
        "most_reacted",
        "most_replied",
        "incomplete_days",
    ] {
        assert!(keys.contains(&key), "{key} is missing in {keys:?}");
    }
    assert_eq!(
        whole["figures"]["messages"],
        serde_json::json!({ "value": 21, "previous": 1, "delta": 20, "percent": 2000 })
    );
    assert_eq!(whole["hours"].as_array().unwrap().len(), 24);
    let channel_args = ReportArgs { json: true, channel: Some("#general".into()), ..args() };
    let channel = json(printed(&fixture, &channel_args).await.unwrap());
    assert_eq!((&channel["scope"], &channel["name"]), (&"channel/C1".into(), &"general".into()));
    assert_eq!(channel["figures"]["messages"]["value"], 11);
    let user_args = ReportArgs { json: true, user: Some("U1".into()), ..args() };
    assert_eq!(
        json(printed(&fixture, &user_args).await.unwrap())["report_id"],
        "user/U1/2026-11-09/2026-11-16"
    );
    let range = ReportArgs {
        json: true,
        week: None,
        from: Some(date("2026-11-09").unwrap()),
        to: Some(date("2026-11-10T01:00:00Z").unwrap()),
        ..args()
    };
    let range = json(printed(&fixture, &range).await.unwrap());
    assert_eq!(
        (&range["from"], &range["figures"]["messages"]["value"]),
        (&"2026-11-09T00:00:00Z".into(), &14.into())
    );
    let month: ReportArgs = parsed(&["--month", "2026-11", "--json", "--data", "unused"]).unwrap();
    let month = json(printed(&fixture, &month).await.unwrap());
    assert_eq!((&month["from"], &month["to"]), (&"2026-11-01".into(), &"2026-12-01".into()));
    assert_eq!(month["previous"], serde_json::json!({ "from": "2026-10-01", "to": "2026-11-01" }));
    assert_eq!(month["figures"]["messages"]["value"], 22);
    assert_eq!(month["trend"].as_array().unwrap().len(), 12);
    let trend = whole["trend"].as_array().unwrap();
    let part = |from: &str, to: &str, messages: u64| serde_json::json!({ "from": from, "to": to, "messages": messages });
    assert_eq!(
        trend[9..],
        [
            part("2026-10-26", "2026-11-02", 0),
            part("2026-11-02", "2026-11-09", 1),
            part("2026-11-09", "2026-11-16", 21),
        ]
    );
    let last = json(printed(&fixture, &ReportArgs { json: true, week: None, ..args() }).await.unwrap());
    assert_eq!(last["from"], "2026-11-16", "the last week that is over");
}

#[tokio::test]
async fn invalid_arguments_are_errors_and_an_empty_period_is_a_report() {
    let fixture = busy().await;
    let error = async |args: ReportArgs| printed(&fixture, &args).await.unwrap_err().to_string();
    let unknown = error(ReportArgs { user: Some("stranger".into()), ..args() }).await;
    assert!(unknown.contains("no person is called stranger"), "{unknown}");
    fixture.person("T1", "U2", "barbara").await;
    let unknown = error(ReportArgs { user: Some("@barbra".into()), ..args() }).await;
    assert!(unknown.contains("called @barbra in this archive; did you mean barbara?"), "{unknown}");
    let unknown = error(ReportArgs { channel: Some("#genral".into()), ..args() }).await;
    assert!(unknown.contains("did you mean #general"), "{unknown}");
    let (from, to) = (date("2026-11-10").ok(), date("2026-11-09").ok());
    let empty = error(ReportArgs { week: None, from, to, ..args() }).await;
    assert!(empty.contains("ends before it begins"), "{empty}");
    let ahead = ReportArgs { week: Some(Period::week("2031-W01").unwrap()), ..args() };
    let ahead = printed(&fixture, &ahead).await.unwrap();
    assert!(
        ahead.contains("not over yet") && ahead.contains("No person posted a message in this period."),
        "{ahead}"
    );
    let before = ReportArgs { week: Some(Period::week("2025-W01").unwrap()), ..args() };
    let before = printed(&fixture, &before).await.unwrap();
    assert!(before.contains("Messages may be missing on 7 days"), "{before}");
    fixture.post("T2", "C9", &at(0), "another workspace").await;
    let several = error(args()).await;
    assert!(several.contains("--team"), "{several}");
    let one = ReportArgs { team: Some(TeamId::parse("T2").unwrap()), ..args() };
    assert!(printed(&fixture, &one).await.unwrap().contains("T2"));
    let nothing = CliFixture::open().await;
    let nothing = printed(&nothing, &args()).await.unwrap_err().to_string();
    assert!(nothing.contains("annalist doctor"), "{nothing}");
}

#[tokio::test]
async fn an_erased_person_has_an_empty_report_and_no_name() {
    let fixture = busy().await;
    fixture.profile("T1", "U2", "zoe", "2000000000.000000").await;
    let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U2").unwrap());
    let args_for = |name: &str| ReportArgs { json: true, user: Some(name.into()), ..args() };
    assert!(printed(&fixture, &args_for("zoe")).await.unwrap().contains("zoe"));
    fixture.archive().erase(&ItemKey::user(&team, &user)).await.unwrap();
    let unknown = printed(&fixture, &args_for("zoe")).await.unwrap_err().to_string();
    assert!(unknown.contains("no person is called zoe"), "{unknown}");
    let report: Value = serde_json::from_str(&printed(&fixture, &args_for("U2")).await.unwrap()).unwrap();
    assert_eq!((&report["name"], &report["figures"]["messages"]["value"]), (&Value::Null, &0.into()));
    assert_eq!(report["users"], serde_json::json!([]));
}

#[tokio::test]
async fn a_workspace_without_time_zones_is_counted_in_utc() {
    let report = printed(&busy().await, &ReportArgs { json: true, ..args() }).await.unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let zones = report["timezones"].as_array().unwrap();
    assert_eq!((zones.len(), &zones[0]["tz"], &zones[0]["messages"]), (1, &"unknown".into(), &21.into()));
    assert_eq!(report["weekdays"][0], 14, "of Monday in UTC");
}

#[tokio::test]
async fn the_page_is_self_contained_and_escapes_hostile_names() {
    let fixture = busy().await;
    fixture.profile("T1", "U1", "<img src=x onerror=alert(1)>\"'&", "2000000000.000000").await;
    fixture.channel("T1", "C1", "2000000000.000000", "</title><script>").await;
    let args = ReportArgs { html: true, ..args() };
    for args in [
        ReportArgs { user: Some("U1".into()), ..args.clone() },
        ReportArgs { channel: Some("C1".into()), ..args.clone() },
        args,
    ] {
        let page = printed(&fixture, &args).await.unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"), "{page:.300}");
        for forbidden in ["<img", "<script", "<link", "@import", "url(", " onload"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;&quot;'&amp;"));
        assert!(page.contains("svg .mark { fill: var(--plot); }\n"), "the style is unescaped");
        assert_eq!(page.matches("href=\"").count(), page.matches("href=\"https://").count());
        for (name, closed) in
            [("<svg", "</svg>"), ("<table", "</table>"), ("<div", "</div>"), ("<tr", "</tr>")]
        {
            assert_eq!(page.matches(name).count(), page.matches(closed).count(), "{name}");
        }
    }
}

/// Lets the statistician count every completed day.
async fn count(fixture: &CliFixture) {
    let statistician = Statistician::new(fixture.ports.clone(), fixture.changes());
    statistician.poll().await;
    fixture.advance_by(Duration::from_secs(91));
    deliveries::drain(&*fixture.ports.queue, QueueName::Stats, async |jobs| {
        let outcomes = statistician.handle(jobs).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
        vec![true; jobs.len()]
    })
    .await;
}

#[tokio::test]
async fn a_stored_report_is_printed_unchanged_until_a_late_edit() {
    let fixture = busy().await;
    fixture.advance_by(Duration::from_secs(14 * 86_400));
    let [text, json, html] =
        [args(), ReportArgs { json: true, ..args() }, ReportArgs { html: true, ..args() }];
    let made = [
        printed(&fixture, &json).await.unwrap(),
        printed(&fixture, &text).await.unwrap(),
        printed(&fixture, &html).await.unwrap(),
    ];
    assert!(made[0].contains("\"cached\":false"), "{}", made[0]);
    let list = ReportArgs { list: true, week: None, ..args() };
    assert_eq!(printed(&fixture, &list).await.unwrap(), "", "nothing was counted yet");
    count(&fixture).await;
    assert_eq!(printed(&fixture, &json).await.unwrap(), made[0], "from roll-ups");
    let listed = printed(&fixture, &list).await.unwrap();
    assert!(
        listed.starts_with("T1  team/2026-11-09/2026-11-16  made 2026-") && !listed.contains("changed"),
        "{listed}"
    );
    let listed = async || -> Value {
        let listed = printed(&fixture, &ReportArgs { json: true, ..list.clone() }).await.unwrap();
        serde_json::from_str(listed.lines().last().unwrap()).unwrap()
    };
    let first = listed().await;
    assert_eq!((&first["report_id"], &first["live"]), (&"team/2026-11-09/2026-11-16".into(), &true.into()));
    let stored = made[0].replacen("\"cached\":false", "\"cached\":true", 1);
    assert_eq!(printed(&fixture, &json).await.unwrap(), stored);
    assert_eq!(printed(&fixture, &text).await.unwrap(), made[1]);
    assert_eq!(printed(&fixture, &html).await.unwrap(), made[2]);
    let channel = ReportArgs { channel: Some("general".into()), ..json.clone() };
    assert!(printed(&fixture, &channel).await.unwrap().contains("\"cached\":false"));
    assert!(printed(&fixture, &channel).await.unwrap().contains("\"cached\":true"));
    let person = ReportArgs { user: Some("U1".into()), ..json.clone() };
    for _ in 0..2 {
        assert!(printed(&fixture, &person).await.unwrap().contains("\"cached\":false"));
    }

    fixture.edit("T1", "C2", &at(7_000), &format!("{}.000000", MONDAY + 900_000), "two words").await;
    let text = printed(&fixture, &list).await.unwrap();
    assert_eq!(
        text.matches("(something has changed since)\n").count(),
        2,
        "the workspace's and the channel's: {text}"
    );
    assert_eq!(listed().await["live"], false);
    let edited: Value = serde_json::from_str(&printed(&fixture, &json).await.unwrap()).unwrap();
    let before: Value = serde_json::from_str(&made[0]).unwrap();
    assert_eq!(edited["cached"], false, "before it is counted again");
    let words = |report: &Value| report["figures"]["words"]["value"].as_u64().unwrap();
    assert_eq!(words(&before) - words(&edited), 498);
    count(&fixture).await;
    assert_eq!(serde_json::from_str::<Value>(&printed(&fixture, &json).await.unwrap()).unwrap(), edited);
    assert!(printed(&fixture, &json).await.unwrap().contains("\"cached\":true"));
    assert_eq!(listed().await["live"], true, "it was made again");
}
