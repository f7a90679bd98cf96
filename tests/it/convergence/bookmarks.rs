//! Bookmarks, which no event reports: each list of a channel is stored as it was when it was requested.

use std::sync::Arc;

use ports::archive::Item;
use proptest::prelude::*;
use reader::bookmarks;
use reader::joined::ChannelOfTeam;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::TEAM;
use testkit::fake_slack::bookmark;
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use workers::directory::store_bookmarks;

use super::{DisorderedInputs, ListableArchive, check_property, disordered};

/// The bookmarks of the channel when its list was requested: for each id the title, if it was there.
type ListedTitles = Vec<Option<u8>>;

/// Lists that overlap, each an hour after the one before.
fn delivered() -> impl Strategy<Value = DisorderedInputs<(usize, ListedTitles)>> {
    let titles = prop::collection::vec(prop::option::weighted(0.7, 0..2u8), 3);
    let lists = prop::collection::vec(titles, 1..6);
    disordered(lists.prop_map(|lists| lists.into_iter().enumerate().collect()))
}

fn location() -> ChannelOfTeam {
    ChannelOfTeam { team: TeamId::parse(TEAM).unwrap(), channel: ChannelId::parse("C01").unwrap() }
}

fn listed(titles: &ListedTitles) -> Vec<Value> {
    let titles = titles.iter().enumerate();
    let titles = titles.filter_map(|(id, title)| Some((id, (*title)?)));
    titles
        .map(|(id, title)| bookmark(&format!("Bk{id}"), &format!("title {title}"), "https://a.test/"))
        .collect()
}

/// What a reader sees of the bookmarks that are not removed.
async fn shown(store: &impl ListableArchive) -> Vec<Value> {
    let all = bookmarks::bookmarks(&*store.archive(), &location()).await.unwrap();
    all.into_iter().filter(|bookmark| bookmark["removed"] != true).collect()
}

async fn store_as_delivered(
    delivered: &DisorderedInputs<(usize, ListedTitles)>,
    store: &impl ListableArchive,
) {
    let ChannelOfTeam { team, channel } = location();
    let mut lives = delivered.lives.iter();
    for index in &delivered.order {
        let (hour, titles) = &delivered.inputs[*index];
        let asked = Ts::parse(&format!("{}.000000", 1_700_000_000 + hour * 3_600)).unwrap();
        loop {
            let point = lives.next().map_or_else(CrashPoint::never, |steps| CrashPoint::after(*steps));
            let mortal = FaultyArchive::with_crash_point(store.archive(), Arc::clone(&point));
            let stored = store_bookmarks(&mortal, &team, &channel, &listed(titles), &asked).await;
            if !point.has_crashed() {
                stored.unwrap();
                break;
            }
        }
    }
}

#[test]
fn any_order_of_lists_leaves_the_bookmarks_of_the_newest_list() {
    check_property(1_500, &delivered(), async |delivered| {
        let (one, other) = (Arc::new(MemoryArchive::new()), Arc::new(MemoryArchive::new()));
        let in_order = DisorderedInputs {
            order: (0..delivered.inputs.len()).collect(),
            lives: Vec::new(),
            ..delivered.clone()
        };
        store_as_delivered(&in_order, &one).await;
        store_as_delivered(&delivered, &other).await;
        let titles = |bookmarks: &[Value]| -> Vec<(String, String)> {
            let text = |bookmark: &Value, name: &str| bookmark[name].as_str().unwrap().to_owned();
            bookmarks.iter().map(|bookmark| (text(bookmark, "id"), text(bookmark, "title"))).collect()
        };
        let newest = listed(&delivered.inputs.last().unwrap().1);
        let (expected, found) = (shown(&one).await, shown(&other).await);
        prop_assert_eq!(titles(&newest), titles(&expected));
        prop_assert_eq!(&expected, &found);
        // The archive has a row for every bookmark of the newest list, and for no other that is not marked.
        let rows: Vec<Item> = MemoryArchive::items(&other);
        let is_live = |row: &&Item| row.key.item_id.starts_with("bookmark#") && !row.has_flag("removed");
        prop_assert_eq!(rows.iter().filter(is_live).count(), newest.len());
        Ok(())
    });
}
