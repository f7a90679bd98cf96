//! Items: keys and JSON attributes.

use serde_json::{Map, Value};

use super::key::ItemKey;

/// Attribute names and values. Names are the stored ones; a false boolean is never stored.
pub type Attributes = Map<String, Value>;

/// Attributes with these texts.
pub fn text_attributes<const N: usize>(texts: [(&str, &str); N]) -> Attributes {
    texts.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
}

/// One row of the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its primary key.
    pub key: ItemKey,
    /// Its attributes, without its keys.
    pub attributes: Attributes,
}

/// Marks an item whose content was erased; it rejects all writes.
pub const ERASED: &str = "erased";

/// Marks an erased item that a retention rule has removed.
pub const EXPIRED: &str = "expired";

/// Marks an erased item whose content was never stored, because its author had opted out.
pub const WITHHELD: &str = "withheld";

impl Item {
    /// An erased item: its key and the mark.
    pub fn erased(key: ItemKey) -> Self {
        Self { key, attributes: [(ERASED.to_owned(), true.into())].into_iter().collect() }
    }

    /// An erased item that a retention rule has removed.
    pub fn expired(key: ItemKey) -> Self {
        let mut item = Self::erased(key);
        item.attributes.insert(EXPIRED.to_owned(), true.into());
        item
    }

    /// A text attribute.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(Value::as_str)
    }

    /// Whether a boolean attribute is set. A missing attribute is false.
    pub fn has_flag(&self, name: &str) -> bool {
        self.attributes.get(name) == Some(&Value::Bool(true))
    }

    pub fn is_erased(&self) -> bool {
        self.has_flag(ERASED)
    }

    /// The item as one JSON object with its keys under their stored names.
    pub fn to_json(&self) -> Value {
        let mut object = self.attributes.clone();
        object.insert("itemId".into(), self.key.item_id.clone().into());
        object.insert("timestamp".into(), self.key.timestamp.clone().into());
        Value::Object(object)
    }
}
