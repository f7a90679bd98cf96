//! Items: keys and JSON attributes.

use serde_json::{Map, Value};

use super::key::ItemKey;

/// Attribute names and values. Names are the stored ones; a false boolean is never stored.
pub type Attributes = Map<String, Value>;

/// One row of the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Where it is.
    pub key: ItemKey,
    /// What it holds beside its keys.
    pub attributes: Attributes,
}

/// Marks an item whose content was erased; nothing may be written to it any more.
pub const ERASED: &str = "erased";

impl Item {
    /// An item of which nothing is left but that it was erased.
    pub fn erased(key: ItemKey) -> Self {
        Self { key, attributes: [(ERASED.to_owned(), true.into())].into_iter().collect() }
    }

    /// A text attribute.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(Value::as_str)
    }

    /// Whether a boolean attribute is set. Absent means false.
    pub fn is(&self, name: &str) -> bool {
        self.attributes.get(name) == Some(&Value::Bool(true))
    }

    /// Whether the item was erased.
    pub fn is_erased(&self) -> bool {
        self.is(ERASED)
    }

    /// The item as one JSON object with its keys under their stored names.
    pub fn to_json(&self) -> Value {
        let mut object = self.attributes.clone();
        object.insert("itemId".into(), self.key.item_id.clone().into());
        object.insert("timestamp".into(), self.key.timestamp.clone().into());
        Value::Object(object)
    }
}
