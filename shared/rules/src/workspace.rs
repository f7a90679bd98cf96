//! The name of a workspace, and its address, to which permalinks lead.
//!
//! <https://docs.slack.dev/reference/events/team_rename>,
//! <https://docs.slack.dev/reference/events/team_domain_change>

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::version::{VERSION, clock_version};
use super::{Change, Malformed, SlackEvent, checked_name};
use ports::archive::{Guard, ItemKey, Update, text_attributes};
use slack::catalogue::TeamChange;
use slack::envelope::{self, text_or_none};
use slack::ids::{TeamId, Ts};

/// The attribute with the name or the address.
pub const VALUE: &str = "value";

/// The domains of Slack's workspaces.
const DOMAINS: [&str; 2] = [".slack.com", ".slack-gov.com"];

/// The longest host name.
const MAX_HOST_BYTES: usize = 253;

#[derive(Default, Deserialize)]
struct ChangedTeam<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    url: Option<Cow<'a, str>>,
}

/// The change that a new name or a new address makes. Each has its own register.
pub(super) fn changes(event: &SlackEvent<'_>, change: TeamChange) -> Result<Vec<Change>, Malformed> {
    let ChangedTeam { name, url } = envelope::object_or_default(event.raw);
    let (team, clock) = (&event.team, event.clock());
    let update = match change {
        TeamChange::Name => {
            let name = name.ok_or(Malformed::Missing { event: "team_rename", field: "name" })?;
            name_update(team, &name, &clock)?
        }
        TeamChange::Domain => {
            let missing = Malformed::Missing { event: "team_domain_change", field: "url" };
            address_update(team, url.as_deref().and_then(address).ok_or(missing)?.as_str(), &clock)
        }
    };
    Ok(vec![Change::Register(update)])
}

/// The register of a workspace's name.
///
/// # Errors
/// [`Malformed`] if it is empty or too long, or contains control characters.
pub fn name_update(team: &TeamId, name: &str, clock: &Ts) -> Result<Update, Malformed> {
    Ok(update(ItemKey::workspace_name(team), team, checked_name(name, "workspace's name")?, clock))
}

/// The register of a workspace's address, as [`address`] returns it.
pub fn address_update(team: &TeamId, address: &str, clock: &Ts) -> Update {
    update(ItemKey::workspace_address(team), team, address, clock)
}

fn update(key: ItemKey, team: &TeamId, value: &str, clock: &Ts) -> Update {
    Update {
        guard: Guard::Greater { register: VERSION.into(), version: clock_version(clock, value) },
        set: [(VALUE.to_owned(), value.into())].into_iter().collect(),
        set_if_absent: text_attributes([("type", "workspace"), ("team_id", team.as_str())]),
        ..Update::new(key)
    }
}

/// The register of a workspace's address as the link of one of its files shows it; `None` for a file of
/// another workspace, which shared channels have. Slack's exports name the address nowhere else.
pub(crate) fn address_from_file(team: &TeamId, file: &Value, clock: &Ts) -> Option<Update> {
    let text = |name: &str| file.get(name).and_then(Value::as_str);
    // The address of its content has both ids: https://files.slack.com/files-pri/T024BE7LD-F0RDC39U1/report.pdf
    let ids = format!("{team}-{}", text("id")?);
    let is_uploaded_here = text("url_private")?.split('/').any(|part| part == ids);
    // https://acme.slack.com/files/U061F7AUR/F0RDC39U1/report.pdf
    let (host, _) = text("permalink")?.split_once("/files/")?;
    is_uploaded_here.then_some(address_update(team, &address(host)?, clock))
}

/// The address of a workspace, such as `https://acme.slack.com/`, from the URL in Slack's event. `None` if
/// the URL leads outside Slack, because users follow it.
pub fn address(url: &str) -> Option<String> {
    let host = url.strip_prefix("https://")?;
    let host = host.strip_suffix('/').unwrap_or(host);
    let label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_plain)
    };
    let is_slacks = host.len() <= MAX_HOST_BYTES
        && host.split('.').all(label)
        && DOMAINS.iter().any(|domain| host.ends_with(domain));
    is_slacks.then(|| format!("https://{host}/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use slack::envelope::Envelope;

    fn changed(event: &str) -> Result<Update, Malformed> {
        let body = format!(r#"{{"team_id":"T1","event_time":1700000000,"event":{event}}}"#);
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        match SlackEvent::read(&envelope).unwrap().changes()?.remove(0) {
            Change::Register(update) => Ok(update),
            Change::Content(content) => panic!("{content:?}"),
        }
    }

    #[test]
    fn a_name_and_an_address_are_registers_by_clock() {
        let name = changed(r#"{"type":"team_rename","name":"New Name Inc."}"#).unwrap();
        assert_eq!(name.key, ItemKey::new("meta#T1#workspace", "name"));
        assert_eq!(name.set[VALUE], "New Name Inc.");
        let address = |ts: u32, url: &str| {
            changed(&format!(
                r#"{{"type":"team_domain_change","url":"{url}","domain":"a","event_ts":"{ts}.000000"}}"#
            ))
        };
        let (first, second) =
            (address(1, "https://a.slack.com").unwrap(), address(2, "https://b.slack.com/").unwrap());
        assert_eq!(first.key, ItemKey::new("meta#T1#workspace", "address"));
        for order in [[&first, &second], [&second, &first]] {
            let mut row = None;
            for update in order {
                row = update.apply(row.as_ref()).or(row);
            }
            assert_eq!(row.unwrap()[VALUE], "https://b.slack.com/");
        }
        assert!(address(3, "https://evil.example").is_err());
        for odd in [
            r#"{"type":"team_rename"}"#,
            r#"{"type":"team_rename","name":""}"#,
            r#"{"type":"team_domain_change"}"#,
        ] {
            assert!(changed(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_file_shows_the_address_of_the_workspace_that_it_was_uploaded_to() {
        let (team, ts) = (TeamId::parse("T1").unwrap(), Ts::parse("1700000000.000100").unwrap());
        let shown = |content: &str, permalink: &str| {
            let file = json!({ "id": "F1", "url_private": content, "permalink": permalink });
            Some(address_from_file(&team, &file, &ts)?.set[VALUE].clone())
        };
        let content = "https://files.slack.com/files-pri/T1-F1/a.png";
        let link = "https://acme.slack.com/files/U1/F1/a.png";
        assert_eq!(shown(content, link), Some(json!("https://acme.slack.com/")));
        for (content, link) in [
            // A file of another workspace, in a shared channel.
            ("https://files.slack.com/files-pri/T2-F1/a.png", link),
            ("https://files.slack.com/files-pri/T11-F1/a.png", link),
            // A file in another service.
            ("https://docs.example/d/1", link),
            (content, "https://evil.example/files/U1/F1/a.png"),
            (content, "https://acme.slack.com/archives/C1"),
        ] {
            assert_eq!(shown(content, link), None, "{content} {link}");
        }
        assert_eq!(address_from_file(&team, &json!({ "id": "F1" }), &ts), None);
    }

    #[test]
    fn an_address_leads_to_slack_and_nowhere_else() {
        for (url, expected) in [
            ("https://acme.slack.com", "https://acme.slack.com/"),
            ("https://acme.slack.com/", "https://acme.slack.com/"),
            ("https://a-1.enterprise.slack.com/", "https://a-1.enterprise.slack.com/"),
            ("https://acme.slack-gov.com/", "https://acme.slack-gov.com/"),
        ] {
            assert_eq!(address(url).as_deref(), Some(expected));
        }
        for url in [
            "",
            "http://acme.slack.com/",
            "https://acme.slack.com.evil.example/",
            "https://evilslack.com/",
            "https://.slack.com/",
            "https://evil.example/.slack.com",
            "https://evil.example#.slack.com",
            "https://evil@acme.slack.com/",
            "https://acme.slack.com:8443/",
            "https://acme.slack.com/x",
            "https://\u{202e}acme.slack.com/",
        ] {
            assert_eq!(address(url), None, "{url}");
        }
    }
}
