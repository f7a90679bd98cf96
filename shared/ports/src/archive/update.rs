//! One write to the archive: one register with its guard, plus attributes that are set only if absent.

use std::borrow::Cow;

use serde_json::Value;

use super::item::{Attributes, ERASED, Item};
use super::key::ItemKey;

/// The condition under which an [`Update`] writes. An erased item rejects every update, regardless of its
/// guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// No register is written: only the set-if-absent attributes.
    Always,
    /// The register is a maximum: it is absent or less than `version`. Versions compare as text.
    Greater {
        /// The attribute with the version.
        register: String,
        /// The version that this update writes.
        version: String,
    },
    /// The register is a minimum: it is absent or greater than `version`.
    Less {
        /// The attribute with the version.
        register: String,
        /// The version that this update writes.
        version: String,
    },
    /// The register still has the version that was read (`None`: still absent).
    Unchanged {
        /// The attribute with the version.
        register: String,
        /// The version that was read.
        expected: Option<String>,
        /// The version that this update writes.
        version: String,
    },
}

/// One atomic write to one item. If it applies, the guard's register gets its version, `set` and `remove`
/// change the attributes of the register, and `set_if_absent` adds missing attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    pub key: ItemKey,
    /// The condition.
    pub guard: Guard,
    /// Attributes of the register that this version has.
    pub set: Attributes,
    /// Attributes of the register that this version lacks.
    pub remove: Vec<&'static str>,
    /// Attributes outside the register: identity, and registers that are set once.
    pub set_if_absent: Attributes,
}

/// The outcome of an update.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteOutcome {
    /// The update is durable.
    Applied,
    /// The guard failed, or the item is erased; this is the stored item.
    Rejected(Item),
}

impl Update {
    /// An update without changes.
    pub fn new(key: ItemKey) -> Self {
        Self {
            key,
            guard: Guard::Always,
            set: Attributes::new(),
            remove: Vec::new(),
            set_if_absent: Attributes::new(),
        }
    }

    /// An update that creates a mark: an item that only needs to exist. Marks are never removed.
    pub fn mark(key: ItemKey) -> Self {
        let set_if_absent = [("seen".to_owned(), true.into())].into_iter().collect();
        Self { set_if_absent, ..Self::new(key) }
    }

    /// The attributes of the item that this update creates if the item is missing, in no particular order;
    /// `None` if its guard requires a stored value. Equivalent to [`Update::apply`] with `None`, without a
    /// copy.
    pub fn initial_attributes(&self) -> Option<Vec<(&str, Cow<'_, Value>)>> {
        if !self.guard.holds(&Attributes::new()) {
            return None;
        }
        let register = self.guard.written_register();
        let is_register = |name: &str| register.is_some_and(|(register, _)| register == name);
        let set = self.set.iter().filter(|(name, _)| !is_register(name));
        let absent =
            self.set_if_absent.iter().filter(|(name, _)| !is_register(name) && !self.set.contains_key(*name));
        let mut attributes: Vec<(&str, Cow<'_, Value>)> =
            set.chain(absent).map(|(name, value)| (name.as_str(), Cow::Borrowed(value))).collect();
        attributes.extend(register.map(|(register, version)| (register, Cow::Owned(version.into()))));
        Some(attributes)
    }

    /// The rule that every backend follows, as a function on attributes: the attributes after the update, or
    /// `None` if its guard fails. `stored` is `None` for an item that does not exist.
    pub fn apply(&self, stored: Option<&Attributes>) -> Option<Attributes> {
        let mut attributes = stored.cloned().unwrap_or_default();
        if !self.guard.holds(&attributes) {
            return None;
        }
        for name in &self.remove {
            attributes.remove(*name);
        }
        attributes.extend(self.set.clone());
        if let Some((register, version)) = self.guard.written_register() {
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
    /// Whether the guard allows a write to an item with these attributes.
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

    /// The register that this guard writes, and its new version.
    pub fn written_register(&self) -> Option<(&str, &str)> {
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
            let fresh = update.initial_attributes().map(|attributes| -> Attributes {
                attributes.into_iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect()
            });
            assert_eq!(fresh, update.apply(None), "{:?}", update.guard);
        }
    }
}
