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
    /// How many entries of the previous page each page repeats, because entries were added meanwhile.
    pub(crate) repeated_entries: usize,
    /// Whether the first entry of each page but the first is skipped, because an entry before it was removed
    /// meanwhile. The next listing shows it.
    pub(crate) skips_entries: bool,
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
        let start = from.saturating_sub(self.repeated_entries);
        let start = if self.skips_entries && from > 0 { end.min(from + 1) } else { start };
        let next = if end < all.len() { self.cursor(i64::try_from(end).unwrap_or(0)) } else { String::new() };
        json!({ "ok": true, name: &all[start..end], "response_metadata": { "next_cursor": next } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_repeats_or_skips_entries_if_it_changes_between_two_pages() {
        let all: Vec<Value> = (0..6).map(Value::from).collect();
        let paging = |repeated_entries, skips_entries| Paging {
            max_entries: 2,
            cursor_life_ms: None,
            now_ms: 0,
            repeated_entries,
            skips_entries,
        };
        for (paging, expected) in [
            (paging(0, false), json!([2, 3])),
            (paging(1, false), json!([1, 2, 3])),
            (paging(9, false), json!([0, 1, 2, 3])),
            (paging(0, true), json!([3])),
        ] {
            let first = paging.list("entries", &all, "");
            assert_eq!(first["entries"], json!([0, 1]));
            let cursor = first["response_metadata"]["next_cursor"].as_str().unwrap();
            assert_eq!(paging.list("entries", &all, cursor)["entries"], expected);
        }
    }
}
