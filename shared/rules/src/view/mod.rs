//! Rows as readers see them, with a name for each attribute that a reader uses. A view is the JSON object that
//! `--json` prints: attributes without a name here stay in it.

mod channel;
mod file;
mod message;
mod person;

pub use channel::ChannelView;
pub use file::{FileVersionView, FileView};
pub use message::{
    MessageView, file_id, file_id_text, file_mimetype, file_owner, file_size, is_file_deleted,
};
pub use person::PersonView;

use serde_json::Value;

/// Defines a view: the JSON object of a row.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(serde_json::Value);

        impl $name {
            /// The row with all its attributes.
            pub fn as_json(&self) -> &serde_json::Value {
                &self.0
            }

            /// The row with all its attributes, to change what is shown of it.
            pub fn json_mut(&mut self) -> &mut serde_json::Value {
                &mut self.0
            }

            /// The row with all its attributes.
            pub fn into_json(self) -> serde_json::Value {
                self.0
            }
        }

        impl From<serde_json::Value> for $name {
            fn from(row: serde_json::Value) -> Self {
                Self(row)
            }
        }
    };
}
use view;

/// The elements of a list; empty for anything else.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
