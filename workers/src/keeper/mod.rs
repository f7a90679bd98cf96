//! Keeps an archive as its owner wants it: retention removes what has expired.

mod retention;

pub use retention::{ExpiredChannel, RetentionPlan, read_rules};
