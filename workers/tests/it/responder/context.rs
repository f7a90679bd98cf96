//! The part of a thread that a processor receives, and how long questions and answers are kept.

use std::time::Duration;

use ports::archive::ItemKey;
use ports::archive::erasure::ErasureScope;
use slack::ids::{ChannelId, Ts};
use testkit::corpus::event;
use tokio::time::advance;

use super::fixture::{APP, ResponderFixture};

/// The root of every thread in these tests.
const ROOT: u32 = 100;

impl ResponderFixture {
    /// Posts these messages as a thread.
    async fn post_thread(&self, texts: &[&str]) {
        for (n, text) in (ROOT..).zip(texts) {
            let (ts, root) = (self.ts(n), self.ts(ROOT));
            let message = if n == ROOT {
                event::message(&ts, "U2", text)
            } else {
                event::reply(&ts, &root, "U2", text)
            };
            self.apply_event(&event::posted("C01", &message)).await;
        }
    }

    /// Asks a question at the end of the thread and returns the messages that the processor receives.
    async fn context(&self, n: u32) -> Vec<String> {
        let question = event::reply(&self.ts(n), &self.ts(ROOT), "U1", &format!("<@{APP}> why?"));
        self.apply_event(&event::posted("C01", &question)).await;
        self.answer_all().await;
        let prompt = self.processor.prompts.lock().unwrap().pop().unwrap();
        let prompt_text = format!("{prompt:?}");
        assert!(!prompt_text.contains("secret"), "{prompt_text}");
        prompt.context.into_iter().map(|message| message.text).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_thread_is_cut_to_the_newest_messages_that_fit() {
    // Each message counts with the name of its author, which has two letters.
    for (bytes, expected) in [
        (0, &[][..]),
        (6, &[]),
        (7, &["third"]),
        (14, &["third"]),
        (15, &["second", "third"]),
        (22, &["first", "second", "third"]),
    ] {
        let mut fixture = ResponderFixture::new().await;
        fixture.limits.context_bytes = bytes;
        fixture.post_thread(&["a long beginning", "first", "second", "third"]).await;
        assert_eq!(fixture.context(200).await, expected, "{bytes} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_and_erased_messages_are_not_in_the_context() {
    let fixture = ResponderFixture::new().await;
    fixture.post_thread(&["a", "a secret that is deleted", "b", "a secret that is erased", "c"]).await;
    let deleted = event::reply(&fixture.ts(101), &fixture.ts(ROOT), "U2", "a secret that is deleted");
    fixture.apply_event(&event::deleted("C01", &deleted, &fixture.ts(150))).await;
    let channel = ChannelId::parse("C01").unwrap();
    fixture.erase(ErasureScope::Message(channel, Ts::parse(&fixture.ts(103)).unwrap())).await;
    assert_eq!(fixture.context(200).await, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn after_thirty_days_only_the_responded_row_of_a_question_is_kept() {
    const DAY_S: i64 = 24 * 3_600;
    let mut fixture = ResponderFixture::new().await;
    fixture.limits.max_age = Duration::from_secs(365 * 24 * 3_600);
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    advance(Duration::from_secs(2 * 24 * 3_600)).await;
    let later = fixture.later(2 * DAY_S, 200);
    let message = event::message(&later, "U1", &format!("<@{APP}> why?"));
    fixture.apply_event(&event::posted("C01", &message)).await;
    fixture.answer_all().await;
    let rows = async |ts: &Ts| {
        let (team, channel) = (&id.team, &id.channel);
        let keys = [
            ItemKey::question(team, channel, ts),
            ItemKey::answer(team, channel, ts),
            ItemKey::responded(team, channel, ts),
        ];
        let mut found = Vec::new();
        for key in keys {
            found.push(fixture.row(key).await.is_some());
        }
        found
    };
    let later = Ts::parse(&later).unwrap();
    for (days, expected) in [(27, [true; 3]), (2, [false, false, true])] {
        advance(Duration::from_secs(days * 24 * 3_600)).await;
        fixture.poll(&fixture.process("one")).await;
        assert_eq!(rows(&id.ts).await, expected);
        assert_eq!(rows(&later).await, [true; 3], "the later one is kept");
    }
    // Because of that row, the question is not answered again.
    let message = event::message(&fixture.ts(100), "U1", &format!("<@{APP}> why?"));
    fixture.write_event(&event::posted("C01", &message)).await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.processor.call_count()), (2, 2));
}
