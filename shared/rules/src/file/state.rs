//! The state of a file. Its version text orders states by how final they are, so that a register with the
//! greatest state does not depend on the order of attempts, and a stored file stays stored.

use super::cut;
use ports::files::FileKey;

/// The maximum size of a stored error.
const MAX_ERROR_BYTES: usize = 300;

/// Why a file is not stored if another automatic attempt would not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileVerdict {
    /// There was no token for the request.
    Pending,
    /// Slack's plan hides it.
    HiddenByLimit,
    /// The app has no access to it.
    AccessDenied,
    /// It is larger than the size limit.
    TooBig,
    /// Slack does not know it.
    NotFound,
    /// It existed earlier.
    Gone,
    /// It is stored outside Slack; no token is sent there.
    External,
    /// Slack has only its tombstone.
    Tombstone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// It is not stored, for this reason.
    Verdict(FileVerdict),
    /// The download failed; the reason is for operators.
    Failed(String),
    /// It is stored under this key.
    Stored(FileKey),
}

/// How final each kind of state is.
const FAILED: char = '1';
const STORED: char = '9';

impl FileVerdict {
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

    /// The verdict's name, for readers and metrics.
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

    /// The stored version. The text of a greater state is greater.
    pub fn version(&self) -> String {
        match self {
            Self::Verdict(verdict) => format!("{}/{}", verdict.rank(), verdict.label()),
            Self::Failed(error) => format!("{FAILED}/failed/{error}"),
            Self::Stored(key) => format!("{STORED}/stored/{key}"),
        }
    }

    /// Reads a stored version. Earlier versions of this program stored a file's address, which sorts before
    /// its key.
    pub fn stored(version: &str) -> Option<Self> {
        let (_, state) = version.split_once('/')?;
        match state.split_once('/') {
            Some(("failed", error)) => Some(Self::Failed(error.to_owned())),
            Some(("stored", key)) => FileKey::from_stored(key).map(Self::Stored),
            Some(_) => None,
            None => FileVerdict::ALL.into_iter().find(|verdict| verdict.label() == state).map(Self::Verdict),
        }
    }

    /// The greater of both, which is the value of a register that received both.
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
    fn an_address_of_an_earlier_version_is_read_as_its_key_and_is_replaced_by_it() {
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
