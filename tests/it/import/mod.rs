//! `annalist import` on the real binary, and imports, live events and other imports in any order.

mod bad_input;
pub(crate) mod export;
mod figures;
mod of_root;
pub(crate) mod overlapping;
mod valid;

use std::path::Path;

use serde_json::Value;
use tests::harness::command::{CommandOutput, annalist_with};

/// The output of an import with `--json`.
pub(crate) struct Imported {
    /// The problems: kind, path, detail.
    pub(crate) problems: Vec<(String, String, String)>,
    /// The last line, with the sums.
    pub(crate) sum: Value,
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

/// Runs `annalist import` with `--json`, further arguments and variables.
pub(crate) async fn import_with(
    zip: &Path,
    data: &Path,
    args: &[&str],
    variables: &[(&str, &str)],
) -> Imported {
    let all = [&["import", zip.to_str().unwrap(), "--data", data.to_str().unwrap(), "--json"], args].concat();
    let CommandOutput { code, stdout, stderr, .. } = annalist_with(&all, variables).await;
    let mut lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = lines.pop().unwrap_or_default();
    let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let problems = lines.iter().map(|line| (text(line, "problem"), text(line, "path"), text(line, "detail")));
    Imported { problems: problems.collect(), sum, code, stderr }
}

/// Runs `annalist import` with `--json`.
pub(crate) async fn import(zip: &Path, data: &Path) -> Imported {
    import_with(zip, data, &[], &[]).await
}

impl Imported {
    /// A count of the last line.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.sum[name].as_u64().unwrap_or_else(|| panic!("{name} in {}: {}", self.sum, self.stderr))
    }

    /// The kinds of the problems, in order.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.problems.iter().map(|(kind, _, _)| kind.as_str()).collect()
    }
}

/// Every row of a data folder.
pub(crate) fn rows(data: &Path) -> Vec<(String, String, String)> {
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    let mut rows =
        database.prepare("SELECT item_id, timestamp, attributes FROM items ORDER BY 1, 2").unwrap();
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}
