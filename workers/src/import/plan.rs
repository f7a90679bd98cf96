//! The plan of an import, decided before anything is written.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ports::archive::{Archive, ArchiveError, ItemKey};
use reader::numbers::counted;
use rules::public_mark::MarkState;
use slack::ids::{ChannelId, FileId, TeamId, UserId};

use super::layout::{EntryIndex, ExportLayout, ExportSection};
use super::problem::{PathProblems, Problem, ProblemKind};
use super::roster::{FolderOwner, PrivateCounts, Roster};
use super::source::ExportEntries;
use super::splitting::ChannelDays;
use super::{ImportError, ImportOptions, ROWS};

/// The lists of an export.
pub(crate) struct PlanDraft {
    sections: Vec<(ExportSection, Roster)>,
    uploads: BTreeMap<FileId, EntryIndex>,
    /// Problems of names and lists.
    pub(crate) problems: Vec<Problem>,
    /// The time of the lists: the newest in them, else that of their files.
    pub(crate) listed_s: Option<i64>,
}

/// The parts of an export that are imported.
#[derive(Debug, Default)]
pub(crate) struct ImportPlan {
    /// The workspaces.
    pub(crate) sections: Vec<PlannedSection>,
    /// The bytes of files that the export contains.
    pub(crate) uploads: BTreeMap<FileId, EntryIndex>,
    /// Problems of its workspaces; problems of names and lists are in the draft.
    pub(crate) problems: Vec<Problem>,
}

/// A workspace's part of an export.
#[derive(Debug)]
pub(crate) struct PlannedSection {
    pub(crate) team: TeamId,
    /// The lists of its people.
    pub(crate) users: Vec<EntryIndex>,
    /// The list of its public channels.
    pub(crate) list: Option<EntryIndex>,
    pub(crate) people: Arc<HashSet<UserId>>,
    /// Its public channels, with their days in order.
    pub(crate) channels: BTreeMap<ChannelId, Vec<EntryIndex>>,
    /// The conversations that are not stored.
    pub(crate) private: PrivateCounts,
}

/// Reads names and lists. Times after `latest_s` are implausible.
pub(crate) fn read(source: &mut dyn ExportEntries, latest_s: i64) -> PlanDraft {
    let mut problems = Vec::new();
    let entries = source.entries();
    let mut layout = ExportLayout::from_names(entries.iter().map(|entry| entry.name.as_str()));
    layout.sort_days(|entry| entries[entry].name.as_str());
    let mut tricks = PathProblems::new("");
    for entry in &layout.unsafe_names {
        let detail = "its name leads out of the export";
        let problem = tricks.add(ProblemKind::UnknownFolder, detail);
        problems.extend(problem.map(|problem| Problem { path: entries[*entry].name.clone(), ..problem }));
    }
    problems.extend(tricks.rest());
    let uploads = std::mem::take(&mut layout.uploads);
    let is_organisation = layout.sections.len() > 1;
    let mut org_members = HashSet::new();
    let mut sections = Vec::new();
    // The section of the organisation, which has an empty name, is the first.
    for section in layout.sections {
        let mut roster = Roster::read(source, &section, latest_s, &mut problems);
        let is_root = section.name.is_empty();
        if section.named_team().is_none() {
            roster.ask_messages(source, &section, is_root && is_organisation, &org_members);
        }
        if is_root {
            org_members.clone_from(roster.members());
        }
        sections.push((section, roster));
    }
    let listed_s = sections.iter().filter_map(|(_, roster)| roster.newest_s).max();
    let of_files = || {
        let lists = sections.iter().flat_map(|(section, _)| section.users.iter().chain(&section.channels));
        let times = lists.filter_map(|entry| source.entries()[*entry].modified_s);
        times.filter(|seconds| (1..=latest_s).contains(seconds)).max()
    };
    PlanDraft { listed_s: listed_s.or_else(of_files), sections, uploads, problems }
}

impl PlanDraft {
    /// Decides which workspaces the export is from; `known` are the workspaces of the archive.
    ///
    /// # Errors
    /// [`ImportError`] if it is not an export, or if its workspace does not belong here.
    pub(crate) fn decide(self, options: &ImportOptions, known: &[TeamId]) -> Result<ImportPlan, ImportError> {
        if !self.sections.iter().any(|(section, _)| section.channels.is_some()) {
            return Err(ImportError::NotAnExport);
        }
        let Self { sections, uploads, .. } = self;
        let mut plan = ImportPlan { uploads, ..ImportPlan::default() };
        // The people that an organisation lists belong to each of its workspaces.
        let organisation = sections.iter().find(|(section, _)| section.name.is_empty());
        let (users, people) = organisation
            .map(|(section, roster)| (section.users.clone(), roster.users.clone()))
            .unwrap_or_default();
        let mut undecided = None;
        let is_organisation = sections.len() > 1;
        for (section, mut roster) in sections {
            let option_team = options.team.clone();
            let is_root = section.name.is_empty();
            let stated = roster.evidence.workspace().cloned();
            let team = if is_root {
                option_team.or(stated)
            } else {
                section.named_team().or(stated).or(option_team)
            };
            if !(is_root && is_organisation && options.team.is_none()) {
                // Only the channels of an organisation belong to several workspaces.
                roster.homes.clear();
            }
            let candidates = roster.evidence.candidates();
            let homeless = plan.add(team, section, roster, &users, &people);
            if let Some(problem) = homeless {
                undecided.get_or_insert(candidates);
                plan.problems.push(problem);
            }
        }
        if let Some(candidates) = undecided.filter(|_| plan.sections.is_empty()) {
            return Err(ImportError::NoTeam(candidates));
        }
        plan.check_workspaces(options, known)?;
        Ok(plan)
    }
}

impl ImportPlan {
    /// Adds a section of the export to the plan: each channel to the workspace in the roster's `homes`, else to `team`.
    /// Returns the problem if channels have neither.
    fn add(
        &mut self,
        team: Option<TeamId>,
        section: ExportSection,
        roster: Roster,
        users: &[EntryIndex],
        people: &HashSet<UserId>,
    ) -> Option<Problem> {
        let mut channels: BTreeMap<ChannelId, Vec<EntryIndex>> =
            roster.channels.iter().map(|channel| (channel.clone(), Vec::new())).collect();
        let mut private = roster.private;
        for (folder, days) in section.folders {
            let why = match roster.folder_named(&folder) {
                Some(FolderOwner::Public(channel)) if channels.contains_key(&channel) => {
                    // A channel may have one folder with its name and one with its ID.
                    channels.entry(channel).or_default().extend(days);
                    continue;
                }
                Some(FolderOwner::Private) => {
                    private.direct_messages += u64::from(!roster.lists(&folder));
                    continue;
                }
                Some(FolderOwner::Public(_) | FolderOwner::Ambiguous) => "two conversations have this name",
                None => "no channel in channels.json has this name",
            };
            let path = format!("{}{folder}/", section.name);
            let days_are = counted(days.len(), "day is", "days are");
            let detail = format!("{why}: {days_are} left out");
            let problem = Problem::new(ProblemKind::UnknownFolder, path, detail);
            self.problems.push(Problem { skipped: days.len() as u64, ..problem });
        }
        let mut everyone = roster.users;
        everyone.extend(people.iter().cloned());
        let everyone = Arc::new(everyone);
        let mut by_team: BTreeMap<TeamId, BTreeMap<ChannelId, Vec<EntryIndex>>> =
            team.iter().map(|team| (team.clone(), BTreeMap::new())).collect();
        let (mut homeless_channels, mut skipped) = (0, 0);
        for (channel, days) in channels {
            match roster.homes.get(&channel).or(team.as_ref()) {
                Some(home) => drop(by_team.entry(home.clone()).or_default().insert(channel, days)),
                None => {
                    homeless_channels += 1;
                    skipped += days.len() as u64;
                }
            }
        }
        for (team, channels) in by_team {
            self.sections.push(PlannedSection {
                team,
                users: if section.users.is_empty() { users.to_vec() } else { section.users.clone() },
                list: section.channels,
                people: Arc::clone(&everyone),
                channels,
                private: std::mem::take(&mut private),
            });
        }
        (homeless_channels > 0).then(|| {
            let channels = counted(homeless_channels, "channel does", "channels do");
            let detail = format!("{channels} not show which workspace it is from: set it with --team");
            let list = format!("{}channels.json", section.name);
            Problem { skipped, ..Problem::new(ProblemKind::UnknownFolder, list, detail) }
        })
    }

    /// Checks that its workspaces match the tokens, or the archive.
    fn check_workspaces(&self, options: &ImportOptions, known: &[TeamId]) -> Result<(), ImportError> {
        let listed = |teams: &[TeamId]| teams.iter().map(TeamId::as_str).collect::<Vec<_>>().join(", ");
        if let Some(tokens) = &options.tokens
            && let Some(other) = self.sections.iter().find(|section| !tokens.contains(&section.team))
        {
            return Err(ImportError::OtherToken { team: other.team.clone(), tokens: listed(tokens) });
        }
        let is_known = self.sections.iter().any(|section| known.contains(&section.team));
        match self.sections.first() {
            Some(other) if options.team.is_none() && !known.is_empty() && !is_known => {
                Err(ImportError::OtherArchive { team: other.team.clone(), known: listed(known) })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Skips the channels that a person has marked as not public.
    pub(crate) async fn skip_forgotten(&mut self, archive: &dyn Archive) -> Result<(), ArchiveError> {
        for section in &mut self.sections {
            let channels: Vec<ChannelId> = section.channels.keys().cloned().collect();
            for channels in channels.chunks(ROWS) {
                let keys: Vec<ItemKey> =
                    channels.iter().map(|channel| ItemKey::public_mark(&section.team, channel)).collect();
                let marks = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
                for (channel, mark) in channels.iter().zip(marks) {
                    if MarkState::from_row(mark.as_ref()) == MarkState::Forgotten {
                        section.channels.remove(channel);
                        section.private.channels += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// The days of all channels, in the order in which they are read.
    pub(crate) fn channel_days(&self) -> Vec<ChannelDays> {
        let of_section = |section: &PlannedSection| -> Vec<ChannelDays> {
            let (team, people) = (&section.team, &section.people);
            let days = |(channel, days): (&ChannelId, &Vec<EntryIndex>)| ChannelDays {
                team: team.clone(),
                channel: channel.clone(),
                days: days.clone(),
                people: Arc::clone(people),
            };
            section.channels.iter().map(days).collect()
        };
        self.sections.iter().flat_map(of_section).collect()
    }

    /// The number of conversations that are not stored.
    pub(crate) fn private(&self) -> PrivateCounts {
        let sum = |count: fn(&PrivateCounts) -> u64| {
            self.sections.iter().map(|section| count(&section.private)).sum()
        };
        PrivateCounts {
            channels: sum(|private| private.channels),
            direct_messages: sum(|private| private.direct_messages),
            group_messages: sum(|private| private.group_messages),
        }
    }
}

#[cfg(test)]
mod tests {
    use ports::clock::TimestampMs;
    use serde_json::{Value, json};

    use super::super::fixture::Entries;
    use super::*;

    const OPTIONS: ImportOptions = ImportOptions { team: None, tokens: None, now: TimestampMs(0) };

    const LATEST_S: i64 = 2_000_000_000;

    fn people(teams: &[&str]) -> Value {
        let person = |(n, team)| json!({ "id": format!("U{n}"), "team_id": team });
        teams.iter().enumerate().map(person).collect()
    }

    /// An organisation with people of the workspaces `of_all`, and one workspace with people of the
    /// workspaces `of_one`.
    fn organisation(of_all: &[&str], of_one: &[&str]) -> Entries {
        let channels = |id: &str| json!([{ "id": id, "name": "general" }]).to_string();
        Entries::new([
            ("org_users.json", people(of_all).to_string()),
            ("channels.json", channels("C0")),
            ("general/2024-01-02.json", "[]".to_owned()),
            ("general/2024-01-03.json", "[]".to_owned()),
            ("teams/one/users.json", people(of_one).to_string()),
            ("teams/one/channels.json", channels("C1")),
        ])
    }

    #[test]
    fn a_section_without_a_majority_is_a_problem_and_the_rest_is_imported() {
        let split = ["T1", "T2"];
        let plan = read(&mut organisation(&split, &["T1"]), LATEST_S).decide(&OPTIONS, &[]).unwrap();
        let teams: Vec<&str> = plan.sections.iter().map(|section| section.team.as_str()).collect();
        assert_eq!(teams, ["T1"]);
        let [problem] = &plan.problems[..] else { panic!("{:?}", plan.problems) };
        assert_eq!((problem.path.as_str(), problem.skipped), ("channels.json", 2));
        assert!(problem.detail.contains("--team"), "{problem:?}");

        let refused = read(&mut organisation(&split, &split), LATEST_S).decide(&OPTIONS, &[]).unwrap_err();
        let expected =
            "it does not show which workspace it is from (T1: 1 people; T2: 1 people): set it with --team";
        assert_eq!(refused.to_string(), expected);
        let options = ImportOptions { team: Some(TeamId::parse("T2").unwrap()), ..OPTIONS };
        let plan = read(&mut organisation(&split, &["T1"]), LATEST_S).decide(&options, &[]).unwrap();
        let teams: Vec<&str> = plan.sections.iter().map(|section| section.team.as_str()).collect();
        assert_eq!((teams, plan.problems.len()), (vec!["T2", "T1"], 0));
    }

    #[test]
    fn guests_who_outnumber_the_members_do_not_decide() {
        let guest = |id: &str| json!({ "id": id, "team_id": "T9999", "is_restricted": true });
        let member = |id: &str| json!({ "id": id, "team_id": "T0001" });
        let users = json!([member("U1"), member("U2"), guest("U3"), guest("U4"), guest("U5")]);
        let message = |user: &str, team: &str| json!({ "user": user, "team": team, "ts": "1.000000" });
        let of = |users: &Value, messages: Value| {
            let mut export = Entries::new([
                ("users.json", users.to_string()),
                ("channels.json", json!([{ "id": "C1", "name": "general" }]).to_string()),
                ("general/2024-01-02.json", messages.to_string()),
            ]);
            let plan = read(&mut export, LATEST_S).decide(&OPTIONS, &[]);
            plan.map(|plan| plan.sections[0].team.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(of(&users, json!([])).as_deref(), Ok("T0001"));
        // Guests write more than members.
        let messages = json!([message("U3", "T9999"), message("U4", "T9999"), message("U1", "T0001")]);
        assert_eq!(of(&users, messages).as_deref(), Ok("T0001"));
        let without_members = json!([guest("U3"), guest("U4")]);
        let refused = of(&without_members, json!([message("U3", "T9999")])).unwrap_err();
        assert!(refused.contains("--team") && !refused.contains('\n'), "{refused}");
        let refused = of(&users, json!([message("U1", "T0002")])).unwrap_err();
        assert!(refused.contains("(T0001: 2 people; T0002: 1 messages): set it with --team"), "{refused}");
    }

    #[test]
    fn a_channel_of_an_organisation_belongs_to_the_workspace_of_its_first_message() {
        let day = |team: &str| json!([{ "user": "U9", "team": "T9" }, { "user": "U0", "team": team }, { "user": "U1", "team": "T1" }]);
        let channels = ["C1", "C2", "C3", "C4"].map(|id| json!({ "id": id, "name": id }));
        let export = || {
            Entries::new([
                ("org_users.json", people(&["T1", "T1"]).to_string()),
                ("channels.json", json!(channels).to_string()),
                ("C1/2024-01-02.json", day("T1").to_string()),
                ("C2/2024-01-03.json", day("T1").to_string()),
                ("C2/2024-01-02.json", day("T2").to_string()),
                ("C3/2024-01-02.json", day("E1").to_string()),
                ("teams/two/users.json", people(&["T2"]).to_string()),
                ("teams/two/channels.json", json!([{ "id": "C5", "name": "general" }]).to_string()),
            ])
        };
        let planned = |options: &ImportOptions| {
            let plan = read(&mut export(), LATEST_S).decide(options, &[]).unwrap();
            assert!(plan.problems.is_empty(), "{:?}", plan.problems);
            let channels = |section: &PlannedSection| -> Vec<String> {
                section.channels.keys().map(|channel| format!("{} {channel}", section.team)).collect()
            };
            plan.sections.iter().flat_map(channels).collect::<Vec<_>>()
        };
        // C3 and C4 name none, and belong to the workspace of most messages and people.
        assert_eq!(planned(&OPTIONS), ["T1 C1", "T1 C3", "T1 C4", "T2 C2", "T2 C5"]);
        let options = ImportOptions { team: Some(TeamId::parse("T3").unwrap()), ..OPTIONS };
        assert_eq!(planned(&options), ["T3 C1", "T3 C2", "T3 C3", "T3 C4", "T2 C5"]);
    }

    #[test]
    fn the_id_in_a_folders_name_decides_before_the_majority() {
        let mut export = Entries::new([
            ("teams/T1/users.json", people(&["T2", "T2"]).to_string()),
            ("teams/T1/channels.json", json!([{ "id": "C1", "name": "general" }]).to_string()),
        ]);
        let plan = read(&mut export, LATEST_S).decide(&OPTIONS, &[]).unwrap();
        assert_eq!(plan.sections[0].team.as_str(), "T1");
    }
}
