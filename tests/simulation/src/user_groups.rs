//! Changes of the user group that every run has.

use serde_json::Value;
use testkit::corpus::{event, user_id};
use testkit::fake_slack::user_group;

use super::world::World;

/// Returns the event of a change at a second: of the name and all members, or of some members.
pub(super) fn change(world: &World, number: u64, changed_s: i64, clock: &str) -> Value {
    let people: Vec<String> = (0..3).map(user_id).collect();
    let people: Vec<&str> = people.iter().map(String::as_str).collect();
    let (first, others) = people.split_at(usize::try_from(world.random_below(4)).unwrap_or_default());
    if world.chance_percent(50) {
        let group = user_group("S0GROUP", &format!("group{number}"), first, changed_s);
        event::user_group_updated(&group, clock)
    } else {
        event::user_group_members_changed("S0GROUP", first, others, changed_s, clock)
    }
}
