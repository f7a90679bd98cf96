//! Names of folders and files for channels. A channel may have any name, and two channels may have the same
//! one.

use std::collections::HashSet;

use slack::ids::ChannelId;

/// Slack limits names to 80 characters. File systems limit them to 255 bytes, which must leave space for a
/// suffix.
const MAX_CHARS: usize = 80;
const MAX_BYTES: usize = 200;

/// Names with a special meaning in an export or on some file systems.
const TAKEN: [&str; 6] = ["teams", "index", "con", "prn", "aux", "nul"];

/// Assigns unique names.
#[derive(Debug, Default)]
pub(crate) struct FolderNames {
    given: HashSet<(String, String)>,
}

impl FolderNames {
    /// Returns the channel's own name if it is safe and no earlier channel within the same folder has it; otherwise the name with
    /// the id appended.
    pub(crate) fn assign(&mut self, within: &str, name: Option<&str>, channel: &ChannelId) -> String {
        let safe = name.map(safe).unwrap_or_default();
        let mut given = match name {
            Some(name) if safe == name && !is_special(name) => safe.clone(),
            Some(_) | None if safe.is_empty() => channel.to_string(),
            Some(_) | None => format!("{safe}-{channel}"),
        };
        // Some file systems ignore case.
        while !self.given.insert((within.to_owned(), given.to_lowercase())) {
            given = format!("{given}-{channel}");
        }
        given
    }
}

/// Whether a safe name has a special meaning.
fn is_special(name: &str) -> bool {
    let lowercase = name.to_lowercase();
    let stem = lowercase.split('.').next().unwrap_or_default();
    TAKEN.contains(&stem) || name.starts_with("__") || name.starts_with("mpdm-")
}

/// Replaces everything but letters and digits of any script, `-`, `_` and `.`. The result names no other
/// folder and no hidden file, and has no invisible characters.
fn safe(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = name.trim_start_matches('.').chars().take(MAX_CHARS).map(plain).collect();
    let name = &name[..name.floor_char_boundary(MAX_BYTES)];
    name.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(names: &[(&str, &str)]) -> Vec<String> {
        let mut folders = FolderNames::default();
        let give = |(name, id): &(&str, &str)| {
            let name = (!name.is_empty()).then_some(*name);
            folders.assign("T1", name, &ChannelId::parse(id).unwrap())
        };
        names.iter().map(give).collect()
    }

    #[test]
    fn a_channel_keeps_its_name_and_a_duplicate_name_gets_the_channel_id() {
        let names =
            given(&[("general", "C1"), ("general", "C2"), ("General", "C3"), ("会議", "C4"), ("", "C5")]);
        assert_eq!(names, ["general", "general-C2", "General-C3", "会議", "C5"]);
        let names = given(&[("a-C2", "C1"), ("a", "C3"), ("a", "C2")]);
        assert_eq!(names, ["a-C2", "a", "a-C2-C2"]);
    }

    #[test]
    fn a_folder_name_is_no_path_not_hidden_and_not_too_long() {
        for (name, expected) in [
            ("..", "C1"),
            (".", "C1"),
            ("../../etc/passwd", "_.._etc_passwd-C1"),
            ("a/b", "a_b-C1"),
            ("a\\b", "a_b-C1"),
            ("a:b", "a_b-C1"),
            ("a\u{202e}b\0c\nd", "a_b_c_d-C1"),
            (".hidden", "hidden-C1"),
            ("teams", "teams-C1"),
            ("CON.x", "CON.x-C1"),
            ("__uploads", "__uploads-C1"),
            ("dot.", "dot-C1"),
        ] {
            assert_eq!(given(&[(name, "C1")]), [expected], "{name:?}");
        }
        for long in ["x".repeat(10_000), "会".repeat(10_000)] {
            let names = given(&[(&long, "C1"), (&long, "C2")]);
            assert!(names[0] != names[1] && names.iter().all(|name| name.len() < 240), "{names:?}");
        }
    }
}
