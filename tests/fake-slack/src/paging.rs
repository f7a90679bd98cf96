//! Pages: how large they are, and the cursors that lead from one to the next.

use serde_json::{Value, json};

use crate::answer::refused;

/// How this call is paged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paging {
    /// Entries of a page at most, whatever is asked for.
    pub(crate) most: usize,
    /// How long a cursor leads anywhere.
    pub(crate) cursor_life_ms: Option<i64>,
    pub(crate) now_ms: i64,
}

impl Paging {
    /// A cursor for the page that begins behind `position`. It is opaque, and has to be escaped in a form.
    pub(crate) fn cursor(&self, position: i64) -> String {
        format!("next:{position}:{}==", self.now_ms)
    }

    /// Where the page of a cursor begins; without a cursor, at the beginning.
    pub(crate) fn position(&self, cursor: &str) -> Result<Option<i64>, Value> {
        if cursor.is_empty() {
            return Ok(None);
        }
        let read = || {
            let (position, issued_ms) = cursor.strip_prefix("next:")?.strip_suffix("==")?.split_once(':')?;
            Some((position.parse().ok()?, issued_ms.parse::<i64>().ok()?))
        };
        let (position, issued_ms) = read().ok_or_else(|| refused("invalid_cursor"))?;
        let expired = self.cursor_life_ms.is_some_and(|life_ms| self.now_ms - issued_ms > life_ms);
        if expired { Err(refused("invalid_cursor")) } else { Ok(Some(position)) }
    }

    /// One page of a list.
    pub(crate) fn list(&self, name: &str, all: &[Value], cursor: &str) -> Value {
        let from = match self.position(cursor) {
            Ok(from) => usize::try_from(from.unwrap_or(0)).unwrap_or(usize::MAX).min(all.len()),
            Err(refused) => return refused,
        };
        let end = all.len().min(from.saturating_add(self.most));
        let next = if end < all.len() { self.cursor(i64::try_from(end).unwrap_or(0)) } else { String::new() };
        json!({ "ok": true, name: &all[from..end], "response_metadata": { "next_cursor": next } })
    }
}
