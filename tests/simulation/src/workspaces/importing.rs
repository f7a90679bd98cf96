//! An import into one workspace: old messages, each with a file that is downloaded afterwards.

use std::time::Duration;

use ports::archive::ItemKey;
use ports::queue::job::in_bulk;
use rules::history::{self, HistoryMessage};
use serde_json::Value;
use serde_json::value::to_raw_value;
use slack::ids::ChannelId;
use testkit::corpus::{event, ts};
use tokio::time::sleep_until;
use workers::store::store_history;

use super::super::fleet::SimulationState;
use super::super::schedule::Life;
use super::super::world::{Invariant, World};
use super::plan::{WorkspaceFate, channel_of, person_of};
use super::{SimulatedWorkspace, Workspaces};

/// Messages of the import. Their files take two processes two and a half minutes, at 300 a minute each, and are more
/// than the 1,000 up to which a queue takes work in bulk.
const MESSAGES: usize = 1_500;

/// Messages that are stored together.
const PAGE: usize = 100;

/// A year, by which the messages are older than the run.
const AGE_MICROS: i64 = 365 * 24 * 3_600 * 1_000_000;

/// When the import begins.
pub(super) fn begins_after(length: Duration) -> Duration {
    length * 5 / 8
}

/// The messages of the export, by their channel.
fn exported(index: usize) -> impl Iterator<Item = (String, Value)> {
    (0..MESSAGES).map(move |number| {
        let clock = ts(World::beginning().0 * 1_000 - AGE_MICROS + i64::try_from(number).unwrap_or(0));
        let user = person_of(index, number % 2);
        let file = event::file(&format!("F{index:05}OLD{number}"), &user);
        let message = event::message(&clock, &user, &format!("old text {number}"));
        (channel_of(index, number % 2), event::with_fields(message, [("files", vec![file].into())]))
    })
}

/// Stores the messages and sends the jobs of their files, as `annalist import` does.
///
/// # Panics
/// Never: the ids are valid.
pub(super) async fn import(all: &SimulationState, workspaces: &Workspaces) {
    let Some((index, workspace)) = importing(workspaces) else { return };
    sleep_until(workspaces.began + begins_after(workspaces.size.length())).await;
    workspaces.note_history(workspace, exported(index));
    let ports = all.dependencies_for(&Life::new("import".into(), 0)).ports;
    let read = |(channel, message): (String, Value)| {
        let channel = ChannelId::parse(&channel).expect("a valid id");
        let raw = to_raw_value(&message).expect("a value serialises");
        history::read(&workspace.team, &channel, &raw).expect("a message of an export")
    };
    let messages: Vec<HistoryMessage> = exported(index).map(read).collect();
    for page in messages.chunks(PAGE) {
        let stored = store_history(&*ports.archive, page).await;
        let jobs = page.iter().flat_map(|message| message.files().sends).map(in_bulk).collect();
        let sent = ports.queue.send(jobs).await;
        if stored.iter().any(Result::is_err) || sent.iter().any(Result::is_err) {
            all.world.report_violation(Invariant::Lost, "the import was refused".into());
        }
    }
}

/// The rows of the import, each with the id of its file.
pub(super) fn rows(workspaces: &Workspaces) -> Vec<(ItemKey, String)> {
    let Some((index, workspace)) = importing(workspaces) else { return Vec::new() };
    let row = |(channel, message): (String, Value)| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let item = format!("message#{}#{channel}", workspace.team);
        (ItemKey::new(item, text(&message["ts"])), text(&message["files"][0]["id"]))
    };
    exported(index).map(row).collect()
}

/// The workspace that is imported, unless only the others are played.
fn importing(workspaces: &Workspaces) -> Option<(usize, &SimulatedWorkspace)> {
    let index = workspaces.size.fates().iter().position(|fate| *fate == WorkspaceFate::Imports)?;
    Some((index, workspaces.workspaces.get(&index)?))
}
