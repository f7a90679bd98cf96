use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixture::team;

/// Shards as they are stored.
#[derive(Default)]
struct StoredShards(BTreeMap<ItemKey, Attributes>);

impl StoredShards {
    fn items(&self) -> Vec<Item> {
        self.0
            .iter()
            .map(|(key, attributes)| Item { key: key.clone(), attributes: attributes.clone() })
            .collect()
    }

    fn name(&mut self, names: &[(&str, &str)], shard_bytes: usize) -> usize {
        let names =
            names.iter().map(|(id, name)| (ChannelId::parse(id).unwrap(), (*name).to_owned())).collect();
        let updates = plan_names(&team(), shards(&self.items()), &names, shard_bytes);
        for update in &updates {
            let written = update.apply(self.0.get(&update.key)).expect("no other write came in between");
            self.0.insert(update.key.clone(), written);
        }
        updates.len()
    }

    fn merged(&self) -> BTreeMap<String, String> {
        merged(shards(&self.items()))
    }
}

#[test]
fn a_batch_is_one_write_per_changed_shard() {
    let mut stored = StoredShards::default();
    assert_eq!(stored.name(&[("C1", "a"), ("C2", "b")], 1000), 1);
    assert_eq!(stored.name(&[("C1", "a")], 1000), 0);
    assert_eq!(stored.name(&[("C1", "deleted_a"), ("C3", "c")], 1000), 1);
    assert_eq!(
        stored.items()[0].attributes["channels_map"],
        json!({ "C1": "deleted_a", "C2": "b", "C3": "c" })
    );
    assert_eq!(stored.items()[0].key, ItemKey::new("channelindex#T1", "0"));
}

#[test]
fn a_name_that_outgrows_its_shard_is_in_the_next_one_before_it_leaves() {
    let mut stored = StoredShards::default();
    stored.name(&[("C1", "aaaaaaaaaa"), ("C2", "bbbbbbbbbb")], 40);
    let names = BTreeMap::from([(ChannelId::parse("C1").unwrap(), "a".repeat(30))]);
    let updates = plan_names(&team(), shards(&stored.items()), &names, 40);
    let order: Vec<&str> = updates.iter().map(|update| update.key.timestamp.as_str()).collect();
    assert_eq!(order, ["1", "0"]);
    // Only the first write happened: the new name counts already.
    let first = updates[0].apply(None).unwrap();
    stored.0.insert(updates[0].key.clone(), first);
    assert_eq!(stored.merged()["C1"], "a".repeat(30));
    // A channel that is in two shards is renamed in both.
    stored.name(&[("C1", "b")], 1000);
    assert!(stored.items().iter().all(|shard| shard.attributes["channels_map"]["C1"] == "b"));
}

#[test]
fn a_shard_that_changed_since_it_was_read_refuses_the_write() {
    let mut stored = StoredShards::default();
    stored.name(&[("C1", "a")], 1000);
    let names = BTreeMap::from([(ChannelId::parse("C2").unwrap(), "b".to_owned())]);
    let late = plan_names(&team(), shards(&stored.items()), &names, 1000);
    stored.name(&[("C1", "c")], 1000);
    assert!(late[0].apply(stored.0.get(&late[0].key)).is_none());
}

proptest! {
    #[test]
    fn the_merged_index_has_the_last_names_and_no_shard_is_too_large(
        batches in prop::collection::vec(
            prop::collection::btree_map(0..40u32, "[a-z\"\\\\é]{1,12}", 1..12), 1..12),
        shard_bytes in 60..300usize,
    ) {
        let mut stored = StoredShards::default();
        let mut expected = BTreeMap::new();
        for batch in &batches {
            let ids: Vec<(String, &String)> = batch.iter().map(|(n, name)| (format!("C{n:02}"), name)).collect();
            let names: Vec<(&str, &str)> = ids.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
            stored.name(&names, shard_bytes);
            expected.extend(ids.iter().map(|(id, name)| (id.clone(), (*name).clone())));
            prop_assert_eq!(&stored.merged(), &expected);
            for shard in stored.items() {
                let map = &shard.attributes["channels_map"];
                prop_assert!(map.to_string().len() <= shard_bytes + 2 || map.as_object().unwrap().len() == 1);
            }
        }
    }
}
