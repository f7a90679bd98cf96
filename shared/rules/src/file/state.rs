//! What became of a file. Its version text orders states by how final they are, so that a register holding the
//! greatest one comes out the same whatever the order of attempts, and bytes that are held are never forgotten.

use super::cut;
use ports::files::FileKey;

/// An error is kept as far as this.
const MAX_ERROR_BYTES: usize = 300;

/// Why there are no bytes, where trying again by itself would not bring them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileVerdict {
    /// There was no token to ask with.
    Pending,
    /// Slack's plan hides it.
    HiddenByLimit,
    /// The app may not have it.
    AccessDenied,
    /// It is longer than what is kept.
    TooBig,
    /// Slack does not know it.
    NotFound,
    /// It was there once.
    Gone,
    /// It is kept somewhere else; no token goes there.
    External,
    /// Only its place is left.
    Tombstone,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// Why there are no bytes.
    Verdict(FileVerdict),
    /// It could not be fetched; the reason is for people.
    Failed(String),
    /// It is held, under this key.
    Stored(FileKey),
}

/// How final each kind of state is.
const FAILED: char = '1';
const STORED: char = '9';

impl FileVerdict {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::HiddenByLimit,
        Self::AccessDenied,
        Self::TooBig,
        Self::NotFound,
        Self::Gone,
        Self::External,
        Self::Tombstone,
    ];

    /// Its name, for readers and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::HiddenByLimit => "hidden_by_limit",
            Self::AccessDenied => "access_denied",
            Self::TooBig => "too_big",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::External => "external",
            Self::Tombstone => "tombstone",
        }
    }

    fn rank(self) -> char {
        match self {
            Self::Pending => '0',
            Self::HiddenByLimit => '2',
            Self::AccessDenied => '3',
            Self::TooBig => '4',
            Self::NotFound => '5',
            Self::Gone => '6',
            Self::External => '7',
            Self::Tombstone => '8',
        }
    }
}

impl FileState {
    /// A failure. Its reason may repeat text from outside.
    pub fn failed(reason: &str) -> Self {
        let line: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self::Failed(cut(line.trim(), MAX_ERROR_BYTES).to_owned())
    }

    /// The version as it is stored. Greater states are greater text.
    pub fn version(&self) -> String {
        match self {
            Self::Verdict(verdict) => format!("{}/{}", verdict.rank(), verdict.label()),
            Self::Failed(error) => format!("{FAILED}/failed/{error}"),
            Self::Stored(key) => format!("{STORED}/stored/{key}"),
        }
    }

    /// Reads a stored version. Earlier versions of this program stored a file's address, which is less text than its key.
    pub fn stored(version: &str) -> Option<Self> {
        let (_, state) = version.split_once('/')?;
        match state.split_once('/') {
            Some(("failed", error)) => Some(Self::Failed(error.to_owned())),
            Some(("stored", key)) => FileKey::stored(key).map(Self::Stored),
            Some(_) => None,
            None => FileVerdict::ALL.into_iter().find(|verdict| verdict.label() == state).map(Self::Verdict),
        }
    }

    /// The greater of both: what a register that got both holds.
    #[must_use]
    pub fn max(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.version() > self.version() => other,
            Some(_) | None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_ordered_by_how_final_they_are() {
        let verdict = FileState::Verdict;
        let ascending = [
            verdict(FileVerdict::Pending),
            FileState::failed("a"),
            FileState::failed("z/9"),
            verdict(FileVerdict::HiddenByLimit),
            verdict(FileVerdict::AccessDenied),
            verdict(FileVerdict::TooBig),
            verdict(FileVerdict::NotFound),
            verdict(FileVerdict::Gone),
            verdict(FileVerdict::External),
            verdict(FileVerdict::Tombstone),
            FileState::Stored(FileKey::parse("slack/T1/C1/1.000000/F1").unwrap()),
        ];
        assert!(ascending.windows(2).all(|pair| pair[0].version() < pair[1].version()));
        for state in &ascending {
            assert_eq!(FileState::stored(&state.version()).as_ref(), Some(state));
            assert_eq!(state.clone().max(Some(ascending[10].clone())), ascending[10]);
            assert_eq!(ascending[0].clone().max(Some(state.clone())), *state);
        }
        for nonsense in ["", "9", "9/", "9/new", "9/new/thing", "9/stored/", "9/stored/file:///etc/passwd"] {
            assert_eq!(FileState::stored(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn an_address_of_an_earlier_version_is_read_as_its_key_and_gives_way_to_it() {
        let key = FileKey::parse("slack/T1/C1/1.000000/F1").unwrap();
        let now = FileState::Stored(key.clone());
        for address in
            [format!("9/stored/file:///old%20slack/files/{key}"), format!("9/stored/s3://bucket/{key}")]
        {
            assert_eq!(FileState::stored(&address).as_ref(), Some(&now));
            assert!(address < now.version(), "a register takes the key");
        }
    }

    #[test]
    fn an_error_is_one_bounded_line() {
        let FileState::Failed(error) = FileState::failed(&format!("a\n\u{1b}[2J{}", "é".repeat(999))) else {
            panic!()
        };
        assert!(error.len() <= MAX_ERROR_BYTES && !error.contains(char::is_control), "{error:?}");
    }
}
