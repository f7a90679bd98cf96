//! Any sequence of writes has the outcomes, and leaves the item, that [`Update::apply`] defines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ports::archive::{Archive, ArchiveExt, Attributes, Guard, Item, ItemKey, Update};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Number, Value, json};
use testkit::memory::archive::MemoryArchive;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::fixture;

/// The names that an update may use.
#[derive(Clone, Copy)]
struct UpdateNames {
    registers: &'static [&'static str],
    attributes: &'static [&'static str],
}

/// Any name may be a register, even one with a meaning in the table.
const ANY: &[&str] = &["a", "b", "v", "w", "v", "w", "a", "b", "erased", "#w", "timestamp", "itemId"];
const ANYWHERE: UpdateNames = UpdateNames { registers: ANY, attributes: ANY };
/// Registers that are not also attributes: a version is short, so a register never leaves the table.
const APART: UpdateNames = UpdateNames { registers: &["v", "w"], attributes: &["a", "b", "c", "#d"] };

#[derive(Debug, Clone)]
enum ModelStep {
    Write(Update),
    /// The item as it is, or with one more attribute.
    Delete {
        exactly: bool,
    },
}

fn version() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["", "1", "10", "2", "é", "🦀", "～"]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => version().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(|float| Number::from_f64(float).map_or(Value::Null, Value::Number)),
        1 => proptest::sample::select(vec![json!(1.0), json!(1e300), json!({"#json": "1"}), json!({"#s3": "k", "#bytes": 1})]),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Text of some kilobytes: one value fits the table, three together do not.
fn long() -> impl Strategy<Value = Value> {
    (prop_oneof![Just(5), Just(90), Just(180)], "[a-c]")
        .prop_map(|(kilobytes, letter)| Value::from(letter.repeat(kilobytes * 1024)))
}

fn update(names: UpdateNames, value: BoxedStrategy<Value>) -> impl Strategy<Value = Update> {
    let name = move || proptest::sample::select(names.attributes);
    let attributes = move || {
        proptest::collection::btree_map(name(), value.clone(), 0..4).prop_map(|map| -> Attributes {
            map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        })
    };
    let register = || proptest::sample::select(names.registers);
    let guard = prop_oneof![
        Just(Guard::Always),
        (register(), version())
            .prop_map(|(register, version)| Guard::Greater { register: register.into(), version }),
        (register(), version())
            .prop_map(|(register, version)| Guard::Less { register: register.into(), version }),
        (register(), proptest::option::of(version()), version()).prop_map(|(register, expected, version)| {
            Guard::Unchanged { register: register.into(), expected, version }
        }),
    ];
    let remove = proptest::collection::vec(name(), 0..4);
    (guard, attributes(), remove, attributes()).prop_map(|(guard, set, remove, set_if_absent)| Update {
        guard,
        set,
        remove,
        set_if_absent,
        ..Update::new(ItemKey::new("", ""))
    })
}

fn steps(update: impl Strategy<Value = Update>) -> impl Strategy<Value = Vec<ModelStep>> {
    let step = prop_oneof![
        6 => update.prop_map(ModelStep::Write),
        1 => any::<bool>().prop_map(|exactly| ModelStep::Delete { exactly }),
    ];
    proptest::collection::vec(step, 1..8)
}

/// Runs the steps on one key of the archive and of the model, and compares them.
async fn run(archive: &dyn Archive, key: ItemKey, steps: Vec<ModelStep>) -> Result<(), TestCaseError> {
    let model = MemoryArchive::new();
    for step in steps {
        match step {
            ModelStep::Write(update) => {
                let update = Update { key: key.clone(), ..update };
                let (outcome, expected) = (archive.write(&update).await, model.write(&update).await);
                prop_assert_eq!(outcome.unwrap(), expected.unwrap(), "{:?}", update);
            }
            ModelStep::Delete { exactly } => {
                let stored = model.get(&key).await.unwrap();
                let mut item = stored.unwrap_or(Item { key: key.clone(), attributes: Attributes::new() });
                if !exactly {
                    item.attributes.insert("more".into(), Value::Null);
                }
                let (deleted, expected) =
                    (archive.delete_unchanged(&item).await, model.delete_unchanged(&item).await);
                prop_assert_eq!(deleted.unwrap(), expected.unwrap(), "{:?}", item);
            }
        }
        let (item, expected) = (archive.get(&key).await.unwrap(), model.get(&key).await.unwrap());
        prop_assert_eq!(item, expected);
    }
    Ok(())
}

async fn any_steps_agree(cases: u32, steps: impl Strategy<Value = Vec<ModelStep>>) {
    let archive: Arc<dyn Archive> = fixture::archive().await;
    let key = AtomicU32::new(0);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    block_in_place(|| {
        runner
            .run(&steps, |steps| {
                let key = ItemKey::new("model", key.fetch_add(1, Ordering::Relaxed).to_string());
                Handle::current().block_on(run(&*archive, key, steps))
            })
            .unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn any_updates_match_the_model() {
    any_steps_agree(400, steps(update(ANYWHERE, value().boxed()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_large_updates_match_the_model() {
    let value = prop_oneof![2 => long(), 1 => scalar()];
    any_steps_agree(60, steps(update(APART, value.boxed()))).await;
}
