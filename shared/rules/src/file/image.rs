//! Avatars and custom emoji, which are stored so that readers need no network. Slack serves them publicly,
//! without a token.
//!
//! Every picture that a row has had is one attribute, `image#{hash of its URL}`; the row's content names the
//! current one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Malformed, checked_name, read_job};
use ports::archive::{Attributes, Item, ItemKey, Update, text_attributes};
use ports::files::FileKey;
use ports::files::key::image_hash;
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::envelope;
use slack::ids::{TeamId, UserId};

pub(super) const IMAGE: &str = "image#";

/// Sizes of an avatar, the most useful first: large enough for a page, small enough to store many.
const SIZES: [&str; 6] = ["image_192", "image_512", "image_72", "image_1024", "image_original", "image_48"];

/// A longer URL is not one of Slack's.
const MAX_URL_BYTES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageOwner {
    User(UserId),
    /// A custom emoji, by its name.
    Emoji(String),
}

/// A picture to be downloaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageJob {
    pub team: TeamId,
    #[serde(flatten)]
    pub owner: ImageOwner,
    pub url: String,
}

/// The job that follows an update of a directory row, if the update has a picture.
pub fn job(update: &Update) -> Option<Outgoing> {
    image_job(&update.set_if_absent, &update.set).map(|job| job.outgoing())
}

/// The job for the picture that a directory row names, if it is not stored.
pub fn job_for_missing(row: &Item) -> Option<Outgoing> {
    let job = image_job(&row.attributes, &row.attributes)?;
    let is_stored = row.attributes.contains_key(&format!("{IMAGE}{}", image_hash(&job.url)));
    (!is_stored).then(|| job.outgoing())
}

fn image_job(identity: &Attributes, content: &Attributes) -> Option<ImageJob> {
    let identity = |name: &str| identity.get(name).and_then(Value::as_str);
    let url = current_url(identity("type")?, content)?;
    let team = TeamId::parse(identity("team_id")?).ok()?;
    let owner = match identity("type")? {
        "user" => ImageOwner::User(UserId::parse(identity("user_id")?).ok()?),
        _ => ImageOwner::Emoji(identity("name")?.to_owned()),
    };
    Some(ImageJob { team, owner, url })
}

fn avatar_url(user: &Value) -> Option<&str> {
    let profile = user.get("profile")?;
    SIZES.iter().find_map(|size| profile.get(size).and_then(Value::as_str).and_then(picture_url))
}

fn picture_url(text: &str) -> Option<&str> {
    let is_url = text.starts_with("https://") || text.starts_with("http://");
    Some(text).filter(|text| is_url && text.len() <= MAX_URL_BYTES)
}

/// The URL of the picture that a row's content names.
fn current_url(kind: &str, content: &Attributes) -> Option<String> {
    let text = |name: &str| content.get(name).and_then(Value::as_str);
    match kind {
        "user" => {
            let user = envelope::parse_value(text("raw_event")?).ok()?;
            avatar_url(&user).map(str::to_owned)
        }
        "emoji" => picture_url(text("value")?).map(str::to_owned),
        _ => None,
    }
}

/// The key of the current picture of a person or an emoji, if it is stored.
pub fn picture(row: &Item) -> Option<FileKey> {
    let row = &row.attributes;
    // Checked first: most rows of a workspace without a token have no picture, and a user object is expensive
    // to parse.
    if !row.keys().any(|name| is_register(name)) {
        return None;
    }
    let url = current_url(row.get("type")?.as_str()?, row)?;
    FileKey::from_stored(row.get(&format!("{IMAGE}{}", image_hash(&url)))?.as_str()?)
}

/// The keys of the pictures that are stored for a row.
pub fn stored_keys(row: &Item) -> impl Iterator<Item = FileKey> {
    let stored = row.attributes.iter().filter(|(name, _)| is_register(name));
    stored.filter_map(|(_, key)| FileKey::from_stored(key.as_str()?))
}

/// The keys of the pictures that are stored for a directory row, and of the one that it names, which may be
/// downloading at the moment. For the row of an earlier profile, the picture that it names.
pub fn keys(row: &Item) -> BTreeSet<FileKey> {
    let kind = row.text("type").map(|kind| if kind == "profile" { "user" } else { kind });
    let team = row.text("team_id").and_then(|team| TeamId::parse(team).ok());
    let url = kind.and_then(|kind| current_url(kind, &row.attributes));
    stored_keys(row).chain(team.zip(url).map(|(team, url)| FileKey::image(&team, &url))).collect()
}

/// Whether an attribute of a row is a picture.
pub(crate) fn is_register(name: &str) -> bool {
    name.starts_with(IMAGE)
}

impl ImageJob {
    /// The job as a message.
    pub fn outgoing(&self) -> Outgoing {
        let Self { team, owner, url } = self;
        let hash = image_hash(url);
        let (kind, owner) = match owner {
            ImageOwner::User(user) => ("avatar", user.as_str()),
            ImageOwner::Emoji(name) => ("emoji", name.as_str()),
        };
        Outgoing {
            queue: QueueName::Files,
            // A hash, because names of emoji contain characters that a message group must not contain.
            group: GroupId::from_parts(&[team.as_str(), &hash]),
            dedup: DedupId::from_parts(&[kind, team.as_str(), owner, &hash].map(str::as_bytes)),
            body: encode_job("image", self),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if the owner or the address is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        let job: Self = read_job("image", raw)?;
        if let ImageOwner::Emoji(name) = &job.owner {
            checked_name(name, "emoji's name")?;
        }
        Ok(job)
    }

    /// The key of the owner's row.
    pub fn key(&self) -> ItemKey {
        match &self.owner {
            ImageOwner::User(user) => ItemKey::user(&self.team, user),
            ImageOwner::Emoji(name) => ItemKey::emoji(&self.team, name),
        }
    }

    /// The update that records the picture as stored under `key`.
    pub fn stored(&self, key: &FileKey) -> Update {
        let (kind, id, value) = match &self.owner {
            ImageOwner::User(user) => ("user", "user_id", user.as_str()),
            ImageOwner::Emoji(name) => ("emoji", "name", name.as_str()),
        };
        let image = format!("{IMAGE}{}", image_hash(&self.url));
        let texts = [("type", kind), ("team_id", self.team.as_str()), (id, value), (&image, key.as_str())];
        Update { set_if_absent: text_attributes(texts), ..Update::new(self.key()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::with_event;
    use crate::{Change, project};
    use ports::archive::Item;
    use ports::queue::job::{Job, Payload};

    #[test]
    fn half_a_character_in_a_profile_does_not_hide_its_picture() {
        let raw = r#"{"id":"U1","profile":{"title":"\ud83d","image_512":"https://a.test/1.png"}}"#;
        let content = [("raw_event".to_owned(), raw.into())].into_iter().collect();
        assert_eq!(current_url("user", &content).as_deref(), Some("https://a.test/1.png"));
    }

    fn updates(event: Value) -> Vec<Update> {
        let changes = with_event(event, |event| event.changes()).unwrap();
        let update = |change| match change {
            Change::Register(update) => update,
            Change::Content(_) => panic!("not a directory row"),
        };
        changes.into_iter().map(update).collect()
    }

    fn images(event: Value) -> Vec<ImageJob> {
        let sends = updates(event).into_iter().filter_map(|update| job(&update));
        sends.map(|send| decoded(&send.body)).collect()
    }

    fn decoded(body: &str) -> ImageJob {
        let Payload::Image(raw) = Job::decode(body).unwrap().payload else { panic!("{body}") };
        ImageJob::decode(raw).unwrap()
    }

    fn user(profile: Value) -> Value {
        json!({ "type": "user_change", "event_ts": "1.000000", "user": { "id": "U1", "name": "ana", "profile": profile } })
    }

    fn emoji(name: &str, value: &str) -> Value {
        json!({ "type": "emoji_changed", "subtype": "add", "name": name, "value": value, "event_ts": "1.000000" })
    }

    #[test]
    fn a_user_with_an_avatar_and_an_emoji_with_a_picture_make_jobs() {
        let jobs = images(user(json!({ "image_72": "https://a/72", "image_192": "https://a/192" })));
        assert_eq!(jobs[0].url, "https://a/192");
        assert_eq!(
            images(user(json!({ "image_192": 7, "image_72": "https://a/72" })))[0].url,
            "https://a/72"
        );
        let jobs = images(emoji("grüße 🎉", "https://emoji.slack-edge.com/x.gif"));
        assert_eq!(jobs[0].owner, ImageOwner::Emoji("grüße 🎉".into()));
        let send = jobs[0].outgoing();
        assert!(send.group.as_str().is_ascii() && send.group.as_str().len() < 128, "{}", send.group);
        for nothing in [
            user(json!(null)),
            user(json!({ "image_192": "data:image/png;base64,AAAA" })),
            user(json!({ "image_192": format!("https://{}", "x".repeat(5_000)) })),
            emoji("a", "alias:b"),
            emoji("a", ""),
        ] {
            assert_eq!(images(nothing.clone()), [], "{nothing}");
        }
    }

    #[test]
    fn readers_see_the_current_picture_only() {
        let mut attributes: Option<Attributes> = None;
        let mut write =
            |update: &Update| attributes = update.apply(attributes.as_ref()).or(attributes.take());
        for (number, clock) in [(1, "1.000000"), (2, "2.000000")] {
            let mut event = user(json!({ "image_192": format!("https://a/{number}") }));
            event["event_ts"] = clock.into();
            updates(event.clone()).iter().for_each(&mut write);
            write(&images(event)[0].stored(&FileKey::parse(&format!("slack/T1/images/{number}")).unwrap()));
        }
        let key = ItemKey::new("user#T1", "U1");
        let row = project::directory(&Item { key, attributes: attributes.unwrap() });
        assert_eq!(row["image_file"], "slack/T1/images/2");
        assert!(!row.as_object().unwrap().keys().any(|name| name.contains('#')), "{row}");
    }
}
