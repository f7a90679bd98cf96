//! The page of figures: the week or month in a sentence, its trend, and links to what it counts and to other periods.

use serde_json::json;

use crate::fixture::{ViewerFixture, link_with_rel};

#[tokio::test]
async fn a_week_is_told_in_a_sentence_and_leads_to_its_channels_people_and_neighbours() {
    let fixture = ViewerFixture::open();
    for (id, name) in [("C1", "general"), ("C2", "plans")] {
        fixture.channel(id, name).await;
    }
    fixture.person("U1", "Ana").await;
    fixture.person("U2", "<b>Bo</b>").await;
    // Four messages from Monday, 2 November; six from Tuesday, 10 November, of which four on a Thursday.
    let message = async |channel: &str, ts: i64, user: &str| {
        fixture.message(channel, json!({ "ts": format!("{ts}.000000"), "text": "text", "user": user })).await;
    };
    for n in 0..4 {
        message("C1", 1_793_620_800 + n, "U1").await;
        message("C2", 1_794_484_800 + n, "U2").await;
    }
    message("C1", 1_794_312_000, "U1").await;
    message("C1", 1_794_312_001, "U1").await;
    fixture.index_messages().await;
    let page = fixture.page("/stats").await;
    for part in [
        "9–15 November 2026 (week 46)",
        "6 messages of 2 people in 2 channels, 50 % more than before; the busiest day was Thursday.",
        "<a href=\"/c/T1/C2\">#plans</a>",
        "<a href=\"/u/T1/U2\">&lt;b&gt;Bo&lt;/b&gt;</a>",
        "value=\"2026-W46\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_eq!(link_with_rel(&page, "next").as_deref(), Some("/stats?week=2026-W47"));
    let before = fixture.page(&link_with_rel(&page, "prev").unwrap()).await;
    assert!(before.contains("4 messages of 1 person in 1 channel; the busiest day was Monday."), "{before}");
    assert_eq!(link_with_rel(&before, "prev"), None, "the archive begins there");
    let current = fixture.page("/stats?week=2026-W47").await;
    assert!(
        current.contains("No person posted a message in this period.")
            && link_with_rel(&current, "next").is_none()
    );
}

#[tokio::test]
async fn the_top_messages_are_shown_with_their_beginning_as_it_is_now() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.person("U1", "Ana").await;
    let ts = |n: i64| format!("{}.000000", 1_794_312_000 + n);
    let texts = ["&lt;b&gt;first&lt;/b&gt;\nsecond", "before", "gone", ""];
    for (n, text) in (0..).zip(texts) {
        fixture.message("C1", json!({ "ts": ts(n), "text": text, "user": "U1" })).await;
        fixture.react("C1", &ts(n), "tada", "U1").await;
    }
    fixture.edit("C1", &ts(1), "1794312100.000000", &format!("after {}", "x".repeat(500))).await;
    fixture.reply("C1", "1794312200.000000", &ts(0), "a reply").await;
    fixture.delete("C1", &ts(2), "1794312300.000000").await;
    fixture.index_messages().await;
    let page = fixture.page("/stats").await;
    let excerpt = "<bdi class=\"quiet\">&lt;b&gt;first&lt;/b&gt;</bdi>";
    assert_eq!(page.matches(excerpt).count(), 2, "with the reactions and with the replies: {page}");
    assert!(page.contains("<bdi class=\"quiet\">after xxx") && !page.contains(&"x".repeat(200)), "{page}");
    assert!(!page.contains("gone") && !page.contains("before</bdi>"), "{page}");
}

#[tokio::test]
async fn a_month_is_compared_with_the_month_before_and_the_trend_ends_with_it() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.person("U1", "Ana").await;
    // Three messages from 1 September, one from the last second of October, two from 2 November 2026.
    for (first, count) in [(1_788_220_800, 3), (1_793_491_199, 1), (1_793_577_600, 2)] {
        for n in 0..count {
            let ts = format!("{first}.{n:06}");
            fixture.message("C1", json!({ "ts": ts, "text": "text", "user": "U1" })).await;
        }
    }
    fixture.index_messages().await;
    let page = fixture.page("/stats?month=2026-11").await;
    for part in [
        "November 2026",
        ", compared with October 2026",
        "2 messages of 1 person in 1 channel, 100 % more than before",
        "type=\"month\"",
        "value=\"2026-11\"",
        "The last 3 months",
        "aria-label=\"Messages, 2026-09: 3; 2026-10: 1; 2026-11: 2\"",
        "people without an earlier message in the archive",
        "<a href=\"/stats?week=2026-W47\">Week</a>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_eq!(link_with_rel(&page, "next"), None, "December has not begun");
    assert_eq!(link_with_rel(&page, "prev").as_deref(), Some("/stats?month=2026-10"));
    let last = fixture.page("/stats?month=").await;
    assert!(last.contains("value=\"2026-10\"") && last.contains("href=\"/stats?week=2026-W44\""), "{last}");
    assert!(!last.contains("The last"), "two months are no trend: {last}");
    let week = fixture.page("/stats?week=2026-W45").await;
    assert!(week.contains("The last 10 weeks") && week.contains("2026-W36: 3; 2026-W37: 0"), "{week}");
    assert!(week.contains("<a href=\"/stats?month=2026-11\">Month</a>"), "{week}");
}
