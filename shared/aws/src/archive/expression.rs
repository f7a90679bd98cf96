//! An update as one conditional UpdateItem: [`Update::apply`] and [`Guard::holds`] in DynamoDB's expressions.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::name::{EXPIRES, PACKED, STAMP, to_stored};
use super::replacement::BULK_BYTES;
use super::size::stored_bytes;
use super::value;
use ports::archive::item::ERASED;
use ports::archive::{Guard, Update};

/// The parameters of an UpdateItem.
#[derive(Debug, Default)]
pub(super) struct Expression {
    pub(super) update: String,
    pub(super) condition: String,
    /// The names of `#0`, `#1`, …: many of ours are reserved words, and any text may be a name.
    pub(super) names: HashMap<String, String>,
    /// The values of `:0`, `:1`, …
    pub(super) values: HashMap<String, AttributeValue>,
    /// The alias of each name.
    aliases: HashMap<String, String>,
}

/// Maximum length of an expression in DynamoDB. An if_not_exists takes about twenty bytes, so the other limit
/// of 300 functions is never reached.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-expression-parameters>
const EXPRESSION_BYTES: usize = 4096;

impl Expression {
    /// The expression that writes `update`, the stamp and when the row expires, if it does. Because of the stamp there is always something to
    /// write, and an update that sets nothing still creates the item.
    ///
    /// Each name occurs only once: DynamoDB rejects overlapping paths.
    pub(super) fn for_update(update: &Update, stamp: &str, expires: Option<AttributeValue>) -> Self {
        let mut expression = Self::default();
        let mut sets = Vec::new();
        let mut removes = Vec::new();

        let written = update.guard.written_register();
        let is_register = |name: &str| written.is_some_and(|(register, _)| register == name);
        if let Some((register, version)) = written {
            sets.push(expression.assign(register, AttributeValue::S(version.to_owned())));
        }
        for (name, value) in update.set.iter().filter(|(name, _)| !is_register(name)) {
            sets.push(expression.assign(name, value::to_stored(value)));
        }
        let is_set = |name: &str| is_register(name) || update.set.contains_key(name);
        for (name, value) in update.set_if_absent.iter().filter(|(name, _)| !is_set(name)) {
            // A removed attribute is absent by then.
            let value = value::to_stored(value);
            sets.push(if update.remove.contains(&name.as_str()) {
                expression.assign(name, value)
            } else {
                expression.assign_if_absent(name, value)
            });
        }
        for name in &update.remove {
            if !is_set(name) && !update.set_if_absent.contains_key(*name) {
                removes.push(expression.name(name));
            }
        }
        // An update may remove a name twice, but an expression may not.
        removes.sort_unstable();
        removes.dedup();

        let (name, stamp) = (expression.alias(STAMP), expression.value(AttributeValue::N(stamp.to_owned())));
        sets.push(format!("{name}={stamp}"));
        if let Some(expires) = expires {
            let (name, expires) = (expression.alias(EXPIRES), expression.value(expires));
            sets.push(format!("{name}={expires}"));
        }
        expression.update = format!("SET {}", sets.join(","));
        if !removes.is_empty() {
            expression.update.push_str(" REMOVE ");
            expression.update.push_str(&removes.join(","));
        }
        expression.condition = expression.holds(&update.guard);
        expression
    }

    /// Whether the expressions are short enough for DynamoDB.
    pub(super) fn is_short(&self) -> bool {
        self.update.len() <= EXPRESSION_BYTES && self.condition.len() <= EXPRESSION_BYTES
    }

    /// Whether a value belongs into the bucket.
    pub(super) fn has_bulk(&self) -> bool {
        self.values.values().any(|value| stored_bytes(value) > BULK_BYTES)
    }

    /// The approximate size that the update alone adds to an item.
    pub(super) fn bytes(&self) -> usize {
        let names = self.names.values().map(String::len).sum::<usize>();
        names + self.values.values().map(stored_bytes).sum::<usize>()
    }

    /// The condition under which [`Guard::holds`], and no register is packed, where no condition sees it.
    fn holds(&mut self, guard: &Guard) -> String {
        let (erased, yes) = (self.name(ERASED), self.value(AttributeValue::Bool(true)));
        let packed = self.alias(PACKED);
        let condition =
            format!("attribute_not_exists({packed}) AND (attribute_not_exists({erased}) OR {erased}<>{yes})");
        let guard = match guard {
            Guard::Always => return condition,
            // A value that is not a string counts as absent: comparing it would fail, and the item could
            // never be written.
            Guard::Greater { register, version } => self.unless_text(register, Some(("<", version))),
            Guard::Less { register, version } => self.unless_text(register, Some((">", version))),
            Guard::Unchanged { register, expected: None, .. } => self.unless_text(register, None),
            Guard::Unchanged { register, expected: Some(expected), .. } => {
                format!("{}={}", self.name(register), self.value(AttributeValue::S(expected.clone())))
            }
        };
        format!("{condition} AND {guard}")
    }

    /// The condition that the register is not a string, or has the given relation to the version.
    fn unless_text(&mut self, register: &str, compared: Option<(&str, &str)>) -> String {
        let (name, text) = (self.name(register), self.value(AttributeValue::S("S".into())));
        let absent = format!("NOT attribute_type({name},{text})");
        match compared {
            None => absent,
            Some((relation, version)) => {
                let version = self.value(AttributeValue::S(version.to_owned()));
                format!("({absent} OR {name}{relation}{version})")
            }
        }
    }

    fn assign(&mut self, name: &str, value: AttributeValue) -> String {
        format!("{}={}", self.name(name), self.value(value))
    }

    fn assign_if_absent(&mut self, name: &str, value: AttributeValue) -> String {
        let (name, value) = (self.name(name), self.value(value));
        format!("{name}=if_not_exists({name},{value})")
    }

    /// The alias of an item's attribute.
    fn name(&mut self, name: &str) -> String {
        self.alias(&to_stored(name))
    }

    /// The alias of an attribute in the table.
    fn alias(&mut self, stored: &str) -> String {
        if let Some(alias) = self.aliases.get(stored) {
            return alias.clone();
        }
        let alias = format!("#{}", self.names.len());
        self.names.insert(alias.clone(), stored.to_owned());
        self.aliases.insert(stored.to_owned(), alias.clone());
        alias
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let alias = format!(":{}", self.values.len());
        self.values.insert(alias.clone(), value);
        alias
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use ports::archive::{Attributes, ItemKey};

    const NAMES: [&str; 7] = ["a", "b", "v", "erased", "#w", "timestamp", ""];

    fn any_update() -> impl Strategy<Value = Update> {
        let name = || proptest::sample::select(NAMES.to_vec());
        let attributes = || {
            proptest::collection::btree_map(name(), any::<bool>(), 0..4).prop_map(|map| -> Attributes {
                map.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
            })
        };
        let guard = (name(), 0..5u8).prop_map(|(register, kind)| {
            let (register, version) = (register.to_owned(), "1".to_owned());
            match kind {
                0 => Guard::Always,
                1 => Guard::Greater { register, version },
                2 => Guard::Less { register, version },
                3 => Guard::Unchanged { register, expected: None, version },
                _ => Guard::Unchanged { register, expected: Some("0".into()), version },
            }
        });
        let remove = proptest::collection::vec(name(), 0..5);
        (guard, attributes(), remove, attributes()).prop_map(|(guard, set, remove, set_if_absent)| Update {
            guard,
            set,
            remove,
            set_if_absent,
            ..Update::new(ItemKey::new("i", "t"))
        })
    }

    /// The names that an expression writes, in order.
    fn targets(expression: &Expression) -> Vec<&str> {
        let (sets, removes) = expression.update.split_once(" REMOVE ").unwrap_or((&expression.update, ""));
        let sets =
            sets.strip_prefix("SET ").unwrap().split(',').filter_map(|set| Some(set.split_once('=')?.0));
        let removes = removes.split(',').filter(|remove| !remove.is_empty());
        sets.chain(removes).map(|alias| expression.names[alias].as_str()).collect()
    }

    proptest! {
        #[test]
        fn no_two_paths_overlap(update in any_update()) {
            let expression = Expression::for_update(&update, "7", Some(AttributeValue::N("9".into())));
            let targets = targets(&expression);
            let distinct: BTreeSet<&str> = targets.iter().copied().collect();
            prop_assert_eq!(targets.len(), distinct.len(), "{}", expression.update);
            prop_assert!(distinct.contains(STAMP) && distinct.contains(EXPIRES));
            prop_assert!(!distinct.contains("itemId") && !distinct.contains("timestamp"), "a key is written");
            let aliased: BTreeSet<&String> = expression.names.values().collect();
            prop_assert_eq!(aliased.len(), expression.names.len(), "a name has two aliases");
        }

        #[test]
        fn exactly_the_declared_names_and_values_are_used(update in any_update()) {
            // DynamoDB rejects a name or value that is declared but not used, or used but not declared.
            let expression = Expression::for_update(&update, "7", Some(AttributeValue::N("9".into())));
            let text = format!("{} {}", expression.update, expression.condition);
            let used: BTreeSet<&str> = text
                .split(|c: char| !(c == '#' || c == ':' || c.is_ascii_digit()))
                .filter(|word| word.starts_with(['#', ':']))
                .collect();
            let declared: BTreeSet<&str> =
                expression.names.keys().chain(expression.values.keys()).map(String::as_str).collect();
            prop_assert_eq!(used, declared, "{}", text);
        }
    }

    #[test]
    fn an_update_becomes_an_update_and_a_condition_expression() {
        let update = Update {
            guard: Guard::Greater { register: "version".into(), version: "2".into() },
            set: Attributes::from_iter([("text".to_owned(), json!("t"))]),
            remove: vec!["files", "files", "team"],
            set_if_absent: Attributes::from_iter([
                ("parent".to_owned(), json!("p")),
                ("team".to_owned(), json!("T")),
            ]),
            ..Update::new(ItemKey::new("i", "t"))
        };
        let expression = Expression::for_update(&update, "7", None);
        assert_eq!(expression.update, "SET #0=:0,#1=:1,#2=if_not_exists(#2,:2),#3=:3,#5=:4 REMOVE #4");
        assert_eq!(
            expression.condition,
            "attribute_not_exists(#7) AND (attribute_not_exists(#6) OR #6<>:5) AND (NOT attribute_type(#0,:6) OR #0<:7)"
        );
        assert_eq!(expression.names["#5"], STAMP);
        assert_eq!(expression.values[":4"], AttributeValue::N("7".into()));
    }

    #[test]
    fn an_expression_that_is_too_long_is_recognised() {
        let with = |count: usize| Update {
            set_if_absent: (0..count).map(|number| (format!("raw#{number}"), json!(number))).collect(),
            ..Update::new(ItemKey::new("i", "t"))
        };
        assert!(Expression::for_update(&with(100), "7", None).is_short());
        assert!(!Expression::for_update(&with(300), "7", None).is_short());
    }
}
