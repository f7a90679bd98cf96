//! Every reader of texts takes a time that grows with the length of a text alone.

use jiff::tz::TimeZone;
use reader::names::DisplayNames;
use reader::search::document::{index_words_and_facets, search_document};
use reader::text;
use rules::figures::message as figures;
use rules::file::page_text::text_of_page;
use rules::outgoing;
use rules::question::recognition;
use rules::view::MessageView;
use serde_json::json;
use slack::ids::UserId;
use testkit::long_texts::{PATTERNS, assert_linear, text_of};
use testkit::memory::archive::MemoryArchive;

use crate::fixture::ViewerFixture;

#[test]
fn search_reads_a_long_text_once() {
    let archive = MemoryArchive::new();
    let names = DisplayNames::for_teams(&archive, Vec::new());
    assert_linear("search", 8_192, |text| {
        let message = MessageView::from(json!({ "user": "U1", "text": text, "ts": "1700000000.000100" }));
        index_words_and_facets(&message, &names);
        let document = search_document(&message, &text::read(&message, &TimeZone::UTC), &names);
        assert!(document.searched_text().len() < 20 * text.len() + 1_000);
    });
}

#[test]
fn the_rules_read_a_long_text_once() {
    let app = UserId::parse("U0APP").unwrap();
    assert_linear("a rule", 32_768, |text| {
        recognition::without_mention(text, &app);
        assert!(recognition::mentions(text).count() <= text.len());
        assert!(figures::mentions(text, None).len() as u64 + figures::words(text) <= 2 * text.len() as u64);
    });
    assert_linear("a posted answer", 8_192, |text| {
        let safe = outgoing::to_safe_mrkdwn(text);
        assert!(outgoing::parts(&safe).len() <= text.len());
    });
    assert_linear("a canvas", 8_192, |text| {
        text_of_page(text.as_bytes());
    });
}

/// The messages of a page, a bench reads longer ones.
const BYTES: [usize; 2] = [4_096, 32_768];

#[tokio::test]
async fn pages_show_long_texts_of_every_pattern() {
    let fixture = ViewerFixture::open();
    let mut times = Vec::new();
    for (number, bytes) in BYTES.into_iter().enumerate() {
        let channel = format!("C{number}");
        for (at, pattern) in PATTERNS.iter().enumerate() {
            let text = format!("begin {} end", text_of(pattern, bytes));
            fixture.post(&channel, &format!("17000000{at:02}.000100"), &text).await;
        }
        let path = format!("/c/T1/{channel}");
        let mut shortest = std::time::Duration::MAX;
        for _ in 0..3 {
            let started = std::time::Instant::now();
            let page = fixture.page(&path).await;
            shortest = shortest.min(started.elapsed());
            assert!(
                page.matches("data-ts=").count() >= PATTERNS.len() && page.len() > bytes * PATTERNS.len() / 2
            );
        }
        times.push(shortest);
    }
    assert!(times[1] < 32 * times[0], "{times:?}");
}
