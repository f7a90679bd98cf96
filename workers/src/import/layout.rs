//! Determines what each entry of an export is, from its name. A name is never used as a path.
//!
//! * A plain export has lists of people and conversations, and one folder per conversation, with a file for
//!   each day.
//! * An export of an Enterprise organisation has `org_users.json`, and the same lists and folders for each
//!   workspace, below `teams/`.
//! * Some programs on Windows write `\` between the parts of every name. It is read as `/` if no name has a
//!   `/`.
//! * Slackdump adds the bytes of files: below `__uploads/{file}/`, or in its standard format as
//!   `attachments/{file}-{name}` in the folder of the conversation.
//!
//! <https://slack.com/help/articles/220556107-How-to-read-Slack-data-exports>,
//! <https://github.com/rusq/slackdump/blob/master/doc/usage-export.md>

use std::collections::BTreeMap;

use slack::ids::{FileId, TeamId};

/// The folder of an organisation's workspaces.
const TEAMS: &str = "teams";

/// Slackdump's folder for the bytes of files, and the folder it uses inside a conversation in its standard
/// format.
const UPLOADS: &str = "__uploads";
const ATTACHMENTS: &str = "attachments";

/// Folders that are not conversations: slackdump and macOS add them.
const OTHER_FOLDERS: [&str; 3] = [UPLOADS, "__avatars", "__MACOSX"];

/// The index of an entry in the export.
pub(crate) type EntryIndex = usize;

/// A workspace's part of an export.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportSection {
    /// The prefix of its entries' names: empty, or `teams/{name}/`.
    pub(crate) name: String,
    /// `users.json`, or `org_users.json`.
    pub(crate) users: Vec<EntryIndex>,
    /// `channels.json`.
    pub(crate) channels: Option<EntryIndex>,
    /// `groups.json`.
    pub(crate) groups: Option<EntryIndex>,
    /// `dms.json`.
    pub(crate) direct_messages: Option<EntryIndex>,
    /// `mpims.json`.
    pub(crate) group_messages: Option<EntryIndex>,
    /// The days of each folder, in order.
    pub(crate) folders: BTreeMap<String, Vec<EntryIndex>>,
}

impl ExportSection {
    /// The workspace, if the section's folder is named by its ID, as in an export of Annalist. Slack names
    /// the folder by the workspace's address, in lower case.
    pub(crate) fn named_team(&self) -> Option<TeamId> {
        TeamId::parse(self.name.strip_prefix("teams/")?.strip_suffix('/')?).ok()
    }

    /// Whether the section is part of an export.
    fn is_export(&self) -> bool {
        self.channels.is_some() || self.groups.is_some() || !self.users.is_empty()
    }
}

/// The parts of an export.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportLayout {
    /// The workspaces.
    pub(crate) sections: Vec<ExportSection>,
    /// The bytes of files.
    pub(crate) uploads: BTreeMap<FileId, EntryIndex>,
    /// Entries whose names lead out of the export.
    pub(crate) unsafe_names: Vec<EntryIndex>,
}

impl ExportLayout {
    /// Classifies all entries by their names, in their order.
    pub(crate) fn from_names<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Self {
        let separator = separator(names.clone());
        let prefix = prefix(names.clone(), separator);
        let mut sections: BTreeMap<String, ExportSection> = BTreeMap::new();
        let mut layout = Self::default();
        for (index, name) in names.enumerate() {
            let Some(parts) = parts(name, separator) else {
                layout.unsafe_names.push(index);
                continue;
            };
            let parts = match &prefix {
                Some(prefix) if parts.first() == Some(prefix) => &parts[1..],
                Some(_) => continue,
                None => &parts[..],
            };
            let (section, parts) = match parts {
                [TEAMS, team, rest @ ..]
                    if rest.len() > 1 || rest.first().is_some_and(|file| is_json(file)) =>
                {
                    (format!("{TEAMS}/{team}/"), rest)
                }
                rest => (String::new(), rest),
            };
            if let Some(file) = upload(parts) {
                layout.uploads.entry(file).or_insert(index);
                continue;
            }
            match parts {
                [list] => sections.entry(section).or_default().list(list, index),
                [folder, day] if is_conversation(folder) && is_day(day) => {
                    let folders = &mut sections.entry(section).or_default().folders;
                    folders.entry((*folder).to_owned()).or_default().push(index);
                }
                _ => {}
            }
        }
        layout.sections =
            sections.into_iter().map(|(name, section)| ExportSection { name, ..section }).collect();
        layout.sections.retain(|section| section.is_export() || !section.folders.is_empty());
        layout
    }

    /// Sorts the days of each folder by their names, which are dates.
    pub(crate) fn sort_days<'n>(&mut self, name: impl Fn(EntryIndex) -> &'n str) {
        let folders = self.sections.iter_mut().flat_map(|section| section.folders.values_mut());
        folders.for_each(|days| days.sort_by(|left, right| name(*left).cmp(name(*right))));
    }
}

impl ExportSection {
    fn list(&mut self, name: &str, index: EntryIndex) {
        match name {
            "users.json" | "org_users.json" => self.users.push(index),
            "channels.json" => self.channels = self.channels.or(Some(index)),
            "groups.json" => self.groups = self.groups.or(Some(index)),
            "dms.json" => self.direct_messages = self.direct_messages.or(Some(index)),
            "mpims.json" => self.group_messages = self.group_messages.or(Some(index)),
            _ => {}
        }
    }
}

/// The single top folder, if an export was unpacked and zipped again with it.
fn prefix<'n>(names: impl Iterator<Item = &'n str> + Clone, separator: char) -> Option<&'n str> {
    const LIST: &str = "channels.json";
    let mut names = names.filter_map(|name| parts(name, separator));
    if names.clone().any(|parts| parts == [LIST]) {
        return None;
    }
    let folder = |parts: Vec<&'n str>| match parts[..] {
        [folder, LIST] if folder != TEAMS && !OTHER_FOLDERS.contains(&folder) => Some(folder),
        _ => None,
    };
    let found = names.find_map(folder)?;
    names.find_map(folder).is_none().then_some(found)
}

/// The character between the parts of all names: `/`, or `\` in a zip that was made on Windows, such as by
/// PowerShell 5. In a zip with both, a `\` may be part of a name, or lead somewhere else.
fn separator<'n>(names: impl Iterator<Item = &'n str> + Clone) -> char {
    let occurs = |separator: char| names.clone().any(|name| name.contains(separator));
    if occurs('\\') && !occurs('/') { '\\' } else { '/' }
}

/// The parts of a name, without `.`, with which some programs start every name; `None` if the name leads out
/// of its folder in any way.
fn parts(name: &str, separator: char) -> Option<Vec<&str>> {
    let name = name.strip_suffix(separator).unwrap_or(name);
    let is_plain = |part: &&str| !part.is_empty() && *part != ".." && !part.contains(['\\', '\0']);
    let parts: Vec<&str> = name.split(separator).filter(|part| *part != ".").collect();
    parts.iter().all(is_plain).then_some(parts)
}

/// The ID of the file whose bytes an entry contains.
fn upload(parts: &[&str]) -> Option<FileId> {
    let file = match parts {
        [UPLOADS, file, _] => file,
        [folder, ATTACHMENTS, name] if is_conversation(folder) => name.split_once('-')?.0,
        _ => return None,
    };
    FileId::parse(file).ok()
}

/// Whether a folder may be a conversation. A folder with a colon contains the comments on a file:
/// `FC:{file}:{title}`.
fn is_conversation(folder: &str) -> bool {
    !OTHER_FOLDERS.contains(&folder) && !folder.contains(':')
}

fn is_json(file: &str) -> bool {
    file.ends_with(".json")
}

/// Whether a name is like `2024-01-02.json`.
fn is_day(file: &str) -> bool {
    let Some(date) = file.strip_suffix(".json") else { return false };
    date.len() == 10
        && date.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(names: &[&str]) -> ExportLayout {
        let mut layout = ExportLayout::from_names(names.iter().copied());
        layout.sort_days(|index| names[index]);
        layout
    }

    #[test]
    fn a_plain_export_has_lists_and_folders_of_days() {
        let names = [
            "users.json",
            "channels.json",
            "groups.json",
            "dms.json",
            "mpims.json",
            "integration_logs.json",
            "general/",
            "general/2024-01-03.json",
            "general/2024-01-02.json",
            "general/canvas_in_the_conversation.json",
            "FC:F1:Plan/2024-01-02.json",
            "D1/2024-01-02.json",
            "__uploads/F1/a.png",
            "__uploads/../a.png",
            "general/attachments/F2-b-c.png",
            "D1/attachments/F1-a.png",
            "general/attachments/b.png",
            "general/attachments/../F3-a.png",
            "general/attachments/F4-\\..\\a.png",
            "__MACOSX/attachments/F5-a.png",
            "general/attachments/more/F6-a.png",
            "general/attachments/-a.png",
            "__MACOSX/general/._2024-01-02.json",
        ];
        let layout = layout(&names);
        let [section] = &layout.sections[..] else { panic!("{layout:?}") };
        assert_eq!((section.users.clone(), section.channels), (vec![0], Some(1)));
        assert_eq!(
            (section.groups, section.direct_messages, section.group_messages),
            (Some(2), Some(3), Some(4))
        );
        let folders: Vec<(&str, &[usize])> =
            section.folders.iter().map(|(name, days)| (name.as_str(), &days[..])).collect();
        assert_eq!(folders, [("D1", &[11][..]), ("general", &[8, 7][..])]);
        let uploads: Vec<(&str, usize)> =
            layout.uploads.iter().map(|(file, entry)| (file.as_str(), *entry)).collect();
        assert_eq!(uploads, [("F1", 12), ("F2", 14)]);
        assert_eq!(layout.unsafe_names, [13, 17, 18]);
    }

    #[test]
    fn an_organisation_has_a_section_for_each_workspace() {
        let layout = layout(&[
            "org_users.json",
            "channels.json",
            "shared/2024-01-02.json",
            "teams/one/users.json",
            "teams/one/channels.json",
            "teams/one/general/2024-01-02.json",
            "teams/two/channels.json",
            "teams/2024-01-02.json",
        ]);
        let names: Vec<&str> = layout.sections.iter().map(|section| section.name.as_str()).collect();
        assert_eq!(names, ["", "teams/one/", "teams/two/"]);
        let folders = |at: usize| layout.sections[at].folders.keys().cloned().collect::<Vec<_>>();
        assert_eq!((folders(0), folders(1)), (vec!["shared".into(), "teams".into()], vec!["general".into()]));
    }

    #[test]
    fn an_export_that_was_zipped_with_its_folder_is_found() {
        let layout = layout(&[
            "Acme export/users.json",
            "Acme export/channels.json",
            "Acme export/general/2024-01-02.json",
            "__MACOSX/channels.json",
        ]);
        assert_eq!(layout.sections[0].folders.keys().collect::<Vec<_>>(), ["general"]);
        assert!(self::layout(&["a/b.txt", "photo.jpg"]).sections.is_empty());
    }

    #[test]
    fn a_leading_dot_and_slash_are_ignored() {
        let names = ["users.json", "channels.json", "general/", "general/2024-01-02.json"];
        for prefix in ["", "Acme export/"] {
            let dotted = names.map(|name| format!("./{prefix}{name}"));
            let dotted: Vec<&str> = std::iter::once("./").chain(dotted.iter().map(String::as_str)).collect();
            assert_eq!(layout(&dotted), layout(&[&["photo.jpg"], &names[..]].concat()), "{dotted:?}");
        }
    }

    #[test]
    fn a_zip_made_on_windows_is_read_like_any_other() {
        let names = [
            "users.json",
            "channels.json",
            "general/",
            "general/2024-01-02.json",
            "teams/one/channels.json",
            "teams/one/general/2024-01-02.json",
            "__uploads/F1/a.png",
            "general/attachments/F2-b.png",
        ];
        let windows = names.map(|name| name.replace('/', "\\"));
        assert_eq!(layout(&windows.each_ref().map(String::as_str)), layout(&names));
        let hostile = [
            "channels.json",
            "..\\users.json",
            "general\\..\\..\\x\\2024-01-02.json",
            "\\\\host\\users.json",
            "general\\\\2024-01-02.json",
            ".\\..\\users.json",
        ];
        let hostile = layout(&hostile);
        assert_eq!(hostile.unsafe_names, [1, 2, 3, 4, 5]);
        assert!(hostile.sections[0].users.is_empty() && hostile.sections[0].folders.is_empty());
        // With both separators, a name with a backslash is refused.
        let mixed = layout(&["channels.json", "general/2024-01-02.json", "general\\2024-01-03.json"]);
        assert_eq!((mixed.unsafe_names, &mixed.sections[0].folders["general"][..]), (vec![2], &[1][..]));
    }

    #[test]
    fn names_that_lead_elsewhere_are_neither_lists_nor_days() {
        let names = [
            "../channels.json",
            "/etc/passwd",
            "general/../../x/2024-01-02.json",
            "general\\2024-01-02.json",
            "general//2024-01-02.json",
            "./../users.json",
            ".//users.json",
            "C:\\users.json",
            "C:/2024-01-02.json",
            "",
        ];
        let layout = layout(&names);
        assert_eq!(layout.unsafe_names, [0, 1, 2, 3, 4, 5, 6, 7, 9]);
        assert!(layout.sections.is_empty());
    }
}
