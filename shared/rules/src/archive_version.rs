//! The version of an archive: `meta#archive` / `version`.

use ports::archive::{Guard, Item, ItemKey, Update, text_attributes};

/// The format that this version writes. It rises only if an older version would do harm to what it writes: damage it,
/// or show what must not be shown. A further kind of row or attribute is no reason.
pub const FORMAT: u32 = 1;

/// The register: it only grows. Six digits, so that formats compare as text.
const REGISTER: &str = "format";
const BY: &str = "by";

/// What the row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveVersion {
    pub format: u32,
    /// The version of Annalist that wrote it first.
    pub by: String,
}

impl ArchiveVersion {
    pub fn from_row(row: &Item) -> Option<Self> {
        let format = row.text(REGISTER)?.parse().ok()?;
        Some(Self { format, by: row.text(BY).unwrap_or_default().to_owned() })
    }

    /// Raises the format of an archive.
    pub fn update(&self) -> Update {
        let guard = Guard::Greater { register: REGISTER.into(), version: format!("{:06}", self.format) };
        Update { guard, set: text_attributes([(BY, &self.by)]), ..Update::new(ItemKey::archive_version()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_only_rises() {
        let version = |format, by: &str| ArchiveVersion { format, by: by.to_owned() };
        let mut row = None;
        for (format, by, expected) in
            [(9, "0.9.0", (9, "0.9.0")), (8, "0.8.0", (9, "0.9.0")), (10, "1.0.0", (10, "1.0.0"))]
        {
            let update = version(format, by).update();
            row = update.apply(row.as_ref()).or(row);
            let item = Item { key: update.key.clone(), attributes: row.clone().unwrap() };
            assert_eq!(ArchiveVersion::from_row(&item), Some(version(expected.0, expected.1)));
        }
    }
}
