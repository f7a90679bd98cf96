//! The bookmarks of the channels that only the directory lists. No event reports them, so they change whenever
//! their list is about to be read, and the fleet reads each list once a day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ports::archive::Item;
use rules::bookmark;
use serde_json::{Value, json};
use slack::ids::TeamId;
use testkit::corpus::TEAM;
use testkit::fake_slack::{self, SlackAnswer};
use tokio::time::sleep;
use workers::directory::DirectorySync;

use super::api::{LISTED_CHANNELS, listed_channel};
use super::fleet::SimulationState;
use super::schedule::Life;
use super::world::{Invariant, World};

/// After this time, every list is due again.
const DUE_AGAIN: Duration = Duration::from_secs(25 * 3_600);

/// The number of bookmarks that a channel has at some time.
const IDS: u64 = 4;

/// Changes the bookmarks of a channel in Slack: adds, changes, or removes one, or one comes back.
pub(super) fn change(world: &World, bookmarks: &mut Vec<Value>) {
    let id = format!("Bk{}", world.random_below(IDS));
    let known = bookmarks.iter().position(|bookmark| bookmark["id"] == *id);
    let mut bookmark =
        fake_slack::bookmark(&id, &format!("title {}", world.random_below(100)), "https://a.test/");
    match world.random_below(6) {
        0 => bookmark["title"] = Value::Null,
        1 => bookmark["link"] = json!(["https://a.test/"]),
        2 => bookmark["emoji"] = json!(":link:"),
        3 => bookmark["date_updated"] = json!("1700000000"),
        _ => {}
    }
    match known {
        Some(at) if world.chance_percent(40) => drop(bookmarks.remove(at)),
        Some(at) => bookmarks[at] = bookmark,
        None => bookmarks.push(bookmark),
    }
}

/// Adds an entry that is no bookmark to some lists.
pub(super) fn with_odd_entry(world: &World, answer: SlackAnswer) -> SlackAnswer {
    let odd = [json!(null), json!(7), json!({ "id": null }), json!({ "id": ["Bk0"] }), json!({})];
    let odd = usize::try_from(world.random_below(20)).ok().and_then(|at| odd.get(at));
    let mut body = answer.value();
    let Some((odd, bookmarks)) = odd.zip(body["bookmarks"].as_array_mut()) else { return answer };
    bookmarks.push(odd.clone());
    answer.with_body(body.to_string())
}

/// Changes the lists and reads them once more, a day later, and compares the bookmarks in the archive with those in Slack.
pub(super) async fn check_bookmarks(all: &SimulationState) {
    sleep(DUE_AGAIN).await;
    let Ok(team) = TeamId::parse(TEAM) else { return };
    for channel in (0..LISTED_CHANNELS).map(listed_channel) {
        all.truth.change_bookmarks(&all.world, &channel);
    }
    let life = Life::new("a day later".into(), 0);
    let dependencies = all.dependencies_for(&life);
    let ports = dependencies.ports;
    let report = DirectorySync::new(dependencies.web, ports.archive, ports.queue).sync(&team).await;
    life.die();
    if let Some(failure) = report.failure {
        return all.world.report_violation(Invariant::Bounded, format!("a sync without faults: {failure}"));
    }
    let mut stored: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in all.archive.items() {
        if let Some(channel) = row.key.item_id.strip_prefix(&format!("bookmark#{team}#")) {
            stored.entry(channel.to_owned()).or_default().extend(shown(&row));
        }
    }
    for channel in (0..LISTED_CHANNELS).map(listed_channel) {
        let Some(bookmarks) = all.truth.bookmarks(&channel) else { continue };
        let expected: BTreeSet<String> = bookmarks
            .iter()
            .map(|bookmark| [&bookmark["id"], &bookmark["title"], &bookmark["link"]].map(text).join(" "))
            .collect();
        let stored = stored.remove(&channel).unwrap_or_default();
        if stored != expected {
            let what = format!("the bookmarks of {channel} are {stored:?} instead of {expected:?}");
            all.world.report_violation(Invariant::Archive, what);
        }
    }
}

/// A stored bookmark that was not removed: its id, title and address.
fn shown(row: &Item) -> Option<String> {
    let shown = bookmark::project(row).filter(|shown| shown["removed"] != true)?;
    Some([&shown["id"], &shown["title"], &shown["link"]].map(text).join(" "))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
