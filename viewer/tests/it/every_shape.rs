//! Random messages of every kind of content: pages, plain text and search read the same words, and all words
//! that Slack shows.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use ports::archive::ItemKey;
use reader::names::DisplayNames;
use reader::search::document::index_words_and_facets;
use reader::text::{self, flat};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::fake_slack::shapes::Markers;
use testkit::fake_slack::shapes::random::{damage, random_message};

use crate::fixture::ViewerFixture;

/// A second in an unoptimised build.
const ROUNDS: u64 = 10;

/// The page of a channel shows this number of messages.
const MESSAGES: usize = 50;

fn ts(number: usize) -> String {
    format!("1700000{number:03}.000100")
}

/// The marker words in a text: the prefix and three letters. Nothing may stand between two of them.
fn words(text: &str, prefix: &str) -> BTreeSet<String> {
    let word = |(at, _)| text[at..].chars().take(prefix.len() + 3).collect();
    text.match_indices(prefix).map(word).collect()
}

/// The part of a page that shows a message, without tags.
fn part_of(page: &str, ts: &str) -> String {
    let (_, part) =
        page.split_once(&format!("data-ts=\"{ts}\"")).unwrap_or_else(|| panic!("{ts} is not shown"));
    let part = part.split("data-ts=\"").next().unwrap_or_default();
    let mut text = String::new();
    for piece in part.split('<').skip(1) {
        text += piece.split_once('>').map_or("", |(_, text)| text);
        text.push(' ');
    }
    text
}

async fn check_round(round: u64) {
    let mut random = fastrand::Rng::with_seed(round);
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let (mut messages, mut expected, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..MESSAGES {
        let mut markers = Markers::new(&format!("zq{number:02}"));
        let mut message = random_message(&ts(number), &mut markers, &mut |end| random.usize(..end));
        damaged.push(number % 2 == 1);
        if damaged[number] {
            (0..=random.usize(..3)).for_each(|_| damage(&mut message, &mut |end| random.usize(..end)));
        }
        expected.push(markers.shown().iter().cloned().collect::<BTreeSet<String>>());
        messages.push(message);
    }
    fixture.messages("C1", &messages).await;
    let page = fixture.page("/c/T1/C1").await;
    let archive = fixture.archive();
    let names = DisplayNames::for_teams(&*archive, Vec::new());
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    for (number, message) in messages.iter().enumerate() {
        let key = ItemKey::message(&team, &channel, &Ts::parse(&ts(number)).unwrap());
        let row = archive.get(&key).await.unwrap().unwrap();
        let projected = rules::project::message(&row).unwrap();
        let prefix = format!("zq{number:02}");
        let lines = text::read(&projected, &TimeZone::UTC).lines;
        let plain: String = lines.iter().map(|line| flat::line(line, &names) + "\n").collect();
        let shown = words(&part_of(&page, &ts(number)), &prefix);
        assert_eq!(words(&plain, &prefix), shown, "round {round}: {plain} is not {message}");
        let (indexed, _) = index_words_and_facets(&projected, &names);
        let indexed = words(&indexed, &prefix);
        assert!(
            indexed.is_superset(&shown),
            "round {round}: {indexed:?} lacks some of {shown:?} of {message}"
        );
        if !damaged[number] {
            assert_eq!(shown, expected[number], "round {round}: {plain} lacks words of {message}");
        }
        assert!(!plain.trim().is_empty(), "round {round}: nothing is read of {message}");
    }
}

#[tokio::test]
async fn every_reader_shows_the_same_words_of_any_message_and_all_that_slack_shows() {
    for round in 0..ROUNDS {
        check_round(round).await;
    }
}
