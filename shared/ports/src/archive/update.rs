//! One write to the archive: one register with its guard, plus attributes that are set only where absent.

use std::borrow::Cow;

use serde_json::Value;

use super::item::{Attributes, ERASED, Item};
use super::key::ItemKey;

/// Under which condition an [`Update`] writes. An erased item refuses every update, whatever the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// No register is written: only the set-if-absent attributes.
    Always,
    /// The register is a maximum: it is absent or less than `version`. Versions compare as text.
    Greater {
        /// The attribute that holds the version.
        register: String,
        /// The version this update brings.
        version: String,
    },
    /// The register is a minimum: it is absent or greater than `version`.
    Less {
        /// The attribute that holds the version.
        register: String,
        /// The version this update brings.
        version: String,
    },
    /// The register still has the version that was read (`None`: still absent).
    Unchanged {
        /// The attribute that holds the version.
        register: String,
        /// The version that was read.
        expected: Option<String>,
        /// The version this update brings.
        version: String,
    },
}

/// One atomic write to one item. Where it applies, the guard's register takes its version, `set` and `remove` change
/// the attributes the register consists of, and `set_if_absent` adds what is not there yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Which item.
    pub key: ItemKey,
    /// Under which condition.
    pub guard: Guard,
    /// Attributes of the register that this version has.
    pub set: Attributes,
    /// Attributes of the register that this version lacks.
    pub remove: Vec<&'static str>,
    /// Attributes outside the register: identity, and registers that are set once.
    pub set_if_absent: Attributes,
}

/// What became of an update.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteOutcome {
    /// It is durable.
    Applied,
    /// The guard failed, or the item is erased; this is the item as it stands.
    Rejected(Item),
}

impl Update {
    /// An update that changes nothing yet.
    pub fn new(key: ItemKey) -> Self {
        Self {
            key,
            guard: Guard::Always,
            set: Attributes::new(),
            remove: Vec::new(),
            set_if_absent: Attributes::new(),
        }
    }

    /// An update that marks: from then on the item exists. Marks are never unset.
    pub fn mark(key: ItemKey) -> Self {
        let set_if_absent = [("seen".to_owned(), true.into())].into_iter().collect();
        Self { set_if_absent, ..Self::new(key) }
    }

    /// The attributes of the item that this update would create if it is missing, in no particular order; `None` if its
    /// guard needs something stored. What [`Update::apply`] says of nothing, without a copy.
    pub fn fresh(&self) -> Option<Vec<(&str, Cow<'_, Value>)>> {
        if !self.guard.holds(&Attributes::new()) {
            return None;
        }
        let register = self.guard.writes();
        let is_register = |name: &str| register.is_some_and(|(register, _)| register == name);
        let set = self.set.iter().filter(|(name, _)| !is_register(name));
        let absent =
            self.set_if_absent.iter().filter(|(name, _)| !is_register(name) && !self.set.contains_key(*name));
        let mut attributes: Vec<(&str, Cow<'_, Value>)> =
            set.chain(absent).map(|(name, value)| (name.as_str(), Cow::Borrowed(value))).collect();
        attributes.extend(register.map(|(register, version)| (register, Cow::Owned(version.into()))));
        Some(attributes)
    }

    /// The rule every backend follows, as a function on attributes: the attributes after the update, or `None` where
    /// its guard fails. `stored` is `None` for an item that does not exist.
    pub fn apply(&self, stored: Option<&Attributes>) -> Option<Attributes> {
        let mut attributes = stored.cloned().unwrap_or_default();
        if !self.guard.holds(&attributes) {
            return None;
        }
        for name in &self.remove {
            attributes.remove(*name);
        }
        attributes.extend(self.set.clone());
        if let Some((register, version)) = self.guard.writes() {
            attributes.insert(register.into(), version.into());
        }
        for (name, value) in &self.set_if_absent {
            if !attributes.contains_key(name) {
                attributes.insert(name.clone(), value.clone());
            }
        }
        Some(attributes)
    }
}

impl Guard {
    /// Whether an item with these attributes may be written to.
    pub fn holds(&self, stored: &Attributes) -> bool {
        if stored.get(ERASED) == Some(&Value::Bool(true)) {
            return false;
        }
        let current = |register: &str| stored.get(register).and_then(Value::as_str);
        match self {
            Self::Always => true,
            Self::Greater { register, version } => {
                current(register).is_none_or(|current| current < version.as_str())
            }
            Self::Less { register, version } => {
                current(register).is_none_or(|current| current > version.as_str())
            }
            Self::Unchanged { register, expected, .. } => current(register) == expected.as_deref(),
        }
    }

    /// The register this guard writes and the version it takes.
    pub fn writes(&self) -> Option<(&str, &str)> {
        match self {
            Self::Always => None,
            Self::Greater { register, version }
            | Self::Less { register, version }
            | Self::Unchanged { register, version, .. } => Some((register, version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_item_is_an_update_applied_to_no_item() {
        let object = |names: &[&str]| -> Attributes {
            names.iter().map(|name| ((*name).to_owned(), Value::from(*name))).collect()
        };
        let register = |guard: fn(String, String) -> Guard| guard("v".into(), "1".into());
        for guard in [
            Guard::Always,
            register(|register, version| Guard::Greater { register, version }),
            register(|register, version| Guard::Less { register, version }),
            register(|register, version| Guard::Unchanged { register, expected: None, version }),
            register(|register, version| Guard::Unchanged { register, expected: Some("0".into()), version }),
        ] {
            let update = Update {
                guard,
                set: object(&["a", "v"]),
                set_if_absent: object(&["a", "b", "v"]),
                ..Update::new(ItemKey::new("i", "t"))
            };
            let fresh = update.fresh().map(|attributes| -> Attributes {
                attributes.into_iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect()
            });
            assert_eq!(fresh, update.apply(None), "{:?}", update.guard);
        }
    }
}
