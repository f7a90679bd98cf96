//! Pages: their size, and the cursors that lead from one page to the next.

use serde_json::{Value, json};

use crate::answer::refused;

/// The paging of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paging {
    /// Maximum number of entries per page, even if the caller asks for more.
    pub(crate) max_entries: usize,
    /// Lifetime of a cursor.
    pub(crate) cursor_life_ms: Option<i64>,
    pub(crate) now_ms: i64,
}

impl Paging {
    /// Returns a cursor for the page after `position`. It is opaque and must be escaped in a form.
    pub(crate) fn cursor(&self, position: i64) -> String {
        format!("next:{position}:{}==", self.now_ms)
    }

    /// Returns the position of a cursor; `None` for an empty cursor, which means the first page.
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

    /// Returns one page of a list.
    pub(crate) fn list(&self, name: &str, all: &[Value], cursor: &str) -> Value {
        let from = match self.position(cursor) {
            Ok(from) => usize::try_from(from.unwrap_or(0)).unwrap_or(usize::MAX).min(all.len()),
            Err(refused) => return refused,
        };
        let end = all.len().min(from.saturating_add(self.max_entries));
        let next = if end < all.len() { self.cursor(i64::try_from(end).unwrap_or(0)) } else { String::new() };
        json!({ "ok": true, name: &all[from..end], "response_metadata": { "next_cursor": next } })
    }
}
