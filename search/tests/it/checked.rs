//! An index that finds fewer messages than the archive has is found and made anew.

use std::fs;
use std::os::unix::fs::FileExt;

use ports::archive::{ArchiveExt, Item, ItemKey};
use ports::changes::{ChangeBatch, ChangeCursor};
use ports::clock::TimestampMs;
use rules::figures::day::DayFigures;
use rules::figures::rollup::{ChannelDay, FiguresState, RollupDay};
use search::check::{IndexDamage, check_once};
use search::index::SearchIndex;
use serde_json::json;
use slack::ids::{ChannelId, Ts};

use crate::fixture::{SearchFixture, message, team};

const CHANNELS: [&str; 3] = ["C1", "C2", "C3"];
const DAYS: i64 = 3;
const MESSAGES: i64 = 120;
const FIRST_S: i64 = 1_700_006_400;

fn ts(day: i64, number: i64) -> String {
    format!("{}.000100", FIRST_S + day * 86_400 + number)
}

/// An archive whose days are counted, and its index.
async fn counted() -> SearchFixture {
    let fixture = SearchFixture::open().await;
    fixture.put(ItemKey::team(&team()), json!({ "seen": true })).await;
    fixture.channels(&CHANNELS.map(|id| (id, id))).await;
    for channel in CHANNELS {
        let written = |day| {
            (0..MESSAGES)
                .map(move |number| message(&ts(day, number), &format!("text word{number} of {channel}")))
        };
        let messages: Vec<_> = (0..DAYS).flat_map(written).collect();
        fixture.store(channel, &messages).await;
    }
    for channel in CHANNELS.map(|id| ChannelId::parse(id).unwrap()) {
        for day in 0..DAYS {
            let day = RollupDay::from_ts(&Ts::parse(&ts(day, 0)).unwrap()).unwrap();
            let day = ChannelDay { team: team(), channel: channel.clone(), day };
            fixture.archive.write(&day.request_count(None, None, TimestampMs(0))).await.unwrap();
            let due: Item = fixture.archive.get(&day.due_key()).await.unwrap().unwrap();
            let mut figures = DayFigures::default();
            figures.bot_messages = MESSAGES.cast_unsigned();
            fixture.archive.write(&day.rollup(&due, &figures)).await.unwrap();
            assert!(fixture.archive.delete_unchanged(&due).await.unwrap());
        }
    }
    let (closed, cursor) = (RollupDay::new(FIRST_S / 86_400 + DAYS), newest(&fixture).await);
    fixture.archive.write(&FiguresState::default().advance(Some(&cursor), closed)).await.unwrap();
    fixture.caught_up().await.optimize().await.unwrap();
    fixture
}

async fn newest(fixture: &SearchFixture) -> ChangeCursor {
    let mut cursor = None;
    loop {
        match fixture.changes.since(cursor.as_ref(), 100_000).await.unwrap() {
            ChangeBatch::Items { items, next } if items.is_empty() => return next,
            ChangeBatch::Items { next, .. } => cursor = Some(next),
            other @ (ChangeBatch::Spans { .. } | ChangeBatch::Rebuild) => panic!("{other:?}"),
        }
    }
}

async fn check(fixture: &SearchFixture) -> Option<IndexDamage> {
    check_once(&fixture.file(), &*fixture.changes, &*fixture.archive).await.unwrap()
}

async fn all_are_found(fixture: &SearchFixture) -> bool {
    let index = fixture.caught_up().await;
    let all = fixture.found(&index, "text").await.len() as i64 == MESSAGES * DAYS * CHANNELS.len() as i64;
    all && fixture.found(&index, "word7 in:C2").await.len() as i64 == DAYS
}

#[tokio::test]
async fn an_index_that_lacks_messages_of_a_day_is_made_anew() {
    let fixture = counted().await;
    assert_eq!(check(&fixture).await, None);
    // Messages that the roll-ups do not have yet, and one that is erased, are no difference.
    fixture.store("C2", &[message(&ts(1, 500), "late")]).await;
    fixture.erase(&ts(1, 7)).await;
    assert_eq!(check(&fixture).await, None, "the index is behind");
    drop(fixture.caught_up().await);
    assert_eq!(check(&fixture).await, None);

    let some = format!("SELECT id FROM messages WHERE ts / 1000000 = {}", FIRST_S + 86_400 + 60);
    let of_words = format!("DELETE FROM words WHERE rowid IN ({some});");
    let of_messages = format!("DELETE FROM messages WHERE id IN ({some});");
    for (sql, is_file) in [
        (of_messages.clone(), true),
        (of_words.clone(), true),
        (of_words + &of_messages, false),
        ("DELETE FROM places WHERE channel = 'C3'".to_owned(), false),
    ] {
        rusqlite::Connection::open(fixture.file()).unwrap().execute_batch(&sql).unwrap();
        let damage = check(&fixture).await.unwrap();
        assert_eq!(matches!(damage, IndexDamage::File(_)), is_file, "{sql}: {damage:?}");
        assert!(!fixture.file().exists());
        drop(fixture.caught_up().await);
        assert_eq!(check(&fixture).await, None, "{sql}");
    }
}

#[tokio::test]
async fn an_index_with_exchanged_pages_is_made_anew() {
    const PAGE: u64 = 4_096;
    let fixture = counted().await;
    let pages = fs::metadata(fixture.file()).unwrap().len() / PAGE;
    for (one, other) in [(3, 4), (pages / 2, pages / 2 + 1), (5, pages - 1), (pages - 3, pages - 2)] {
        assert!(all_are_found(&fixture).await);
        fixture.caught_up().await.optimize().await.unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(fixture.file()).unwrap();
        let mut swapped = [vec![0; PAGE as usize], vec![0; PAGE as usize]];
        for (bytes, page) in swapped.iter_mut().zip([one, other]) {
            file.read_exact_at(bytes, page * PAGE).unwrap();
        }
        if swapped[0] == swapped[1] {
            continue;
        }
        for (bytes, page) in swapped.iter().zip([other, one]) {
            file.write_all_at(bytes, page * PAGE).unwrap();
        }
        // Opening the index may notice it already.
        drop(check_once(&fixture.file(), &*fixture.changes, &*fixture.archive).await);
        assert!(all_are_found(&fixture).await, "{one} {other} of {pages}");
    }
}

#[tokio::test]
async fn an_index_with_a_changed_bit_is_made_anew_or_finds_everything() {
    const FLIPS: usize = 24;
    let fixture = counted().await;
    // Edited and erased messages have other entries.
    fixture.store("C2", &[message(&ts(1, 500), "late word500")]).await;
    let odd = format!("ABC Großé 会議室 {} <@U1> <https://x.example/Y?z=1|Label> `code`", "x".repeat(40_000));
    fixture.store("C2", &[message(&ts(1, 501), &odd), message(&ts(1, 502), &"é".repeat(20_000))]).await;
    fixture.erase(&ts(1, 500)).await;
    drop(fixture.caught_up().await);
    assert_eq!(check(&fixture).await, None);
    let whole = fs::read(fixture.file()).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut noticed = 0;
    for flip in 0..FLIPS {
        SearchIndex::delete(&fixture.file()).unwrap();
        let mut damaged = whole.clone();
        let at = random.usize(4_096..damaged.len());
        damaged[at] ^= 1 << random.u8(..8);
        fs::write(fixture.file(), &damaged).unwrap();
        let checked = check_once(&fixture.file(), &*fixture.changes, &*fixture.archive).await;
        if !matches!(checked, Ok(None)) {
            noticed += 1;
            continue;
        }
        let index = fixture.index().await;
        for number in (0..MESSAGES).step_by(5) {
            let found = fixture.found(&index, &format!("word{number}")).await.len() as i64;
            assert_eq!(found, DAYS * CHANNELS.len() as i64, "flip {flip} at {at}: word{number}");
        }
    }
    assert!(noticed > 0);
}
