//! People by the names that a proxy or a provider gives. Nothing is guessed from a name: a file says who it is.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use ports::reread::Reread;
use slack::ids::{TeamId, UserId};

/// A person as a setting names them: `U0123ABCD`, or `T0123ABCD/U0123ABCD` with several workspaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPerson {
    /// The workspace, if it is given.
    pub team: Option<TeamId>,
    pub user: UserId,
}

/// A text that names no person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a person is written as U0123ABCD, or T0123ABCD/U0123ABCD with several workspaces")]
pub struct InvalidPerson;

impl FromStr for NamedPerson {
    type Err = InvalidPerson;

    fn from_str(text: &str) -> Result<Self, InvalidPerson> {
        let (team, user) = match text.trim().split_once('/') {
            Some((team, user)) => (Some(TeamId::parse(team).map_err(|_| InvalidPerson)?), user),
            None => (None, text.trim()),
        };
        Ok(Self { team, user: UserId::parse(user).map_err(|_| InvalidPerson)? })
    }
}

impl NamedPerson {
    /// Whether this names a person of this workspace.
    pub fn is(&self, team: &TeamId, user: &UserId) -> bool {
        self.user == *user && self.team.as_ref().is_none_or(|named| named == team)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeopleTable(BTreeMap<String, NamedPerson>);

impl PeopleTable {
    /// Reads a JSON object from names to people.
    ///
    /// # Errors
    /// What is wrong with it, without any of its names.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names: BTreeMap<String, String> = serde_json::from_str(text)
            .map_err(|_| r#"it is not a JSON object such as {"ana@example.org": "U0123ABCD"}"#.to_owned())?;
        let mut people = BTreeMap::new();
        for (place, (name, person)) in names.into_iter().enumerate() {
            let person =
                person.parse().map_err(|error| format!("its entry {} is wrong: {error}", place + 1))?;
            people.insert(name, person);
        }
        Ok(Self(people))
    }

    pub fn find(&self, name: &str) -> Option<&NamedPerson> {
        self.0.get(name)
    }
}

/// Which people may read, and as whom.
#[derive(Clone, Default)]
pub struct PeopleSettings {
    /// The people by the names that a proxy or a provider gives.
    pub table: Option<Arc<Reread<PeopleTable>>>,
    /// People who see everything.
    pub admins: Vec<NamedPerson>,
    /// Whether guests may read; they then see every public channel.
    pub are_guests_admitted: bool,
}

impl PeopleSettings {
    /// The person with this name. The file is read again if it may have changed.
    pub(crate) async fn find(&self, name: &str) -> Option<NamedPerson> {
        self.table.as_ref()?.fresh().await.find(name).cloned()
    }

    /// Whether a person sees everything.
    pub(crate) fn is_admin(&self, team: &TeamId, user: &UserId) -> bool {
        self.admins.iter().any(|admin| admin.is(team, user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_people_is_an_object_of_ids() {
        let table = PeopleTable::parse(r#"{"ana@example.org": "U1A", "bo": " T1/U2 "}"#).unwrap();
        let found =
            |name: &str| table.find(name).map(|person| (person.team.is_some(), person.user.to_string()));
        assert_eq!(found("ana@example.org"), Some((false, "U1A".to_owned())));
        assert_eq!(found("bo"), Some((true, "U2".to_owned())));
        assert_eq!([found("Ana@example.org"), found("")], [None, None]);
        assert_eq!(PeopleTable::parse("{}"), Ok(PeopleTable::default()));
        for text in [
            "",
            "null",
            "[]",
            r#"["U1"]"#,
            r#"{"ana": 5}"#,
            r#"{"ana": null}"#,
            r#"{"ana": ["U1"]}"#,
            r#"{"ana": "u1"}"#,
            r#"{"ana": ""}"#,
            r#"{"ana": "T1/"}"#,
            r#"{"ana": "/U1"}"#,
            r#"{"ana": "T1/U1/U2"}"#,
            r#"{"ana": "U1""#,
        ] {
            let error = PeopleTable::parse(text).unwrap_err();
            assert!(
                !error.contains("ana\"") || text.is_empty() || error.contains("such as"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn an_administrator_is_named_with_or_without_a_workspace() {
        let people = PeopleSettings {
            admins: vec!["U1".parse().unwrap(), "T2/U2".parse().unwrap()],
            ..PeopleSettings::default()
        };
        let [t1, t2] = ["T1", "T2"].map(|team| TeamId::parse(team).unwrap());
        let [ana, bo] = ["U1", "U2"].map(|user| UserId::parse(user).unwrap());
        for (team, user, expected) in
            [(&t1, &ana, true), (&t2, &ana, true), (&t1, &bo, false), (&t2, &bo, true)]
        {
            assert_eq!(people.is_admin(team, user), expected, "{team} {user}");
        }
    }
}
