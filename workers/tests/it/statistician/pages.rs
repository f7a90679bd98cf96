//! Pages of history, as the historian and the import store them.

use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes};
use rules::figures::rollup::{ChannelDay, RollupDay};
use rules::history;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slack::ids::Ts;
use workers::store::store_history;

use super::fixture::{CHANNELS, PEOPLE, StatisticianFixture, WrittenMessage, channel, team};

/// More changes than a test makes.
const ALL: usize = 1_000_000;

impl StatisticianFixture {
    /// The days of the messages written since the cursor, and the next cursor.
    pub(super) async fn days_since(&self, cursor: Option<&ChangeCursor>) -> (Vec<ChannelDay>, ChangeCursor) {
        let ChangeBatch::Items { items, next } = self.archive.since(cursor, ALL).await.unwrap() else {
            panic!("the cursor is of another archive")
        };
        let spans = items.iter().filter_map(|item| ChangedSpan::for_row(&item.key));
        let day = |ChangedSpan { team, channel, day }| {
            Some(ChannelDay { team, channel, day: RollupDay::from_date(day?)? })
        };
        (spans.filter_map(day).collect(), next)
    }

    /// Stores a page of a channel's history: stored messages, edited or not, new messages, replies and
    /// tombstones.
    pub(super) async fn page(&mut self) {
        let id = CHANNELS[self.random.usize(0..CHANNELS.len())];
        let mut listed = Vec::new();
        for _ in 0..4 {
            let stored: Vec<WrittenMessage> =
                self.written.iter().filter(|written| written.channel == id).cloned().collect();
            let sample = self.random.choice(&stored).unwrap().clone();
            // The message may be one of this page, which is not stored yet.
            let Some(row) = self.archive.item(&sample.key()) else { continue };
            let author = self.random.choice(PEOPLE).unwrap();
            let mut message = json!({ "type": "message", "ts": sample.ts, "user": row.text("user").unwrap_or(author),
                "text": row.text("text"), "thread_ts": sample.root });
            match self.random.u8(0..5) {
                0 => {
                    let second = sample.ts.micros() / 1_000_000 + self.random.i64(1..1_000_000);
                    message["text"] = format!("now by <@{author}>").into();
                    message["user"] = author.into();
                    message["edited"] = json!({ "user": author, "ts": format!("{second}.000000") });
                }
                1 => {
                    message = json!({ "type": "message", "subtype": "tombstone", "ts": sample.ts, "user": "USLACKBOT" })
                }
                2 | 3 => {
                    let second = sample.ts.micros() / 1_000_000 + self.random.i64(1..300_000);
                    let ts = Ts::parse(&format!("{second}.{:06}", self.written.len())).unwrap();
                    let root = if sample.is_reply { sample.root.clone() } else { Some(sample.ts.clone()) };
                    let root = root.filter(|_| self.random.bool());
                    message = json!({ "type": "message", "ts": ts, "user": author, "text": "from history", "thread_ts": root });
                    self.written.push(WrittenMessage { channel: id, ts, is_reply: root.is_some(), root });
                }
                _ => {}
            }
            if self.random.bool() && message["subtype"].is_null() {
                message["reactions"] = json!([{ "name": "eyes", "users": [author, "U2"], "count": 2 }]);
            }
            listed.push(message);
        }
        let read =
            |message: &Value| history::read(&team(), &channel(id), &to_raw_value(message).unwrap()).unwrap();
        for outcome in store_history(&*self.archive, &listed.iter().map(read).collect::<Vec<_>>()).await {
            outcome.unwrap();
        }
    }
}
