//! The fields that `--with-names` adds to messages in JSON.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError};
use reader::directory::{self, WorkspaceChannels, WorkspaceFacts};
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::names::DisplayNames;
use reader::permalink::message_permalink;
use reader::text::{self, MessageText};
use rules::message::rfc3339;
use rules::view::MessageView;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId};

/// Adds `user_id`, `user_name`, `channel_name`, `time` and `permalink` to the messages of a channel.
pub(super) struct MessageNames<'a> {
    archive: &'a dyn Archive,
    names: DisplayNames<'a>,
    /// The locations of the channel, the current one first.
    locations: Vec<ChannelOfTeam>,
    /// Read once, with the first messages.
    workspaces: Option<BTreeMap<TeamId, (WorkspaceChannels, WorkspaceFacts)>>,
}

impl<'a> MessageNames<'a> {
    pub(super) fn new(archive: &'a dyn Archive, channel: &JoinedChannel<'_>) -> Self {
        Self {
            archive,
            names: DisplayNames::for_teams(archive, channel.teams()),
            locations: channel.locations().to_vec(),
            workspaces: None,
        }
    }

    /// Returns the messages with these fields. The name of an author is their id if the archive has no name, and a field of
    /// which nothing is known is null.
    pub(super) async fn add(&mut self, messages: &[MessageView]) -> Result<Vec<Value>, ArchiveError> {
        let texts: Vec<MessageText> =
            messages.iter().map(|message| text::read(message, &TimeZone::UTC)).collect();
        self.names.learn_people(texts.iter().flat_map(author_ids)).await?;
        if self.workspaces.is_none() {
            let mut workspaces = BTreeMap::new();
            for ChannelOfTeam { team, .. } in &self.locations {
                let channels = directory::read(self.archive, team).await?;
                let facts = directory::read_workspace_facts(self.archive, team).await?;
                workspaces.insert(team.clone(), (channels, facts));
            }
            self.workspaces = Some(workspaces);
        }
        Ok(messages.iter().zip(&texts).map(|(message, text)| self.named(message, text)).collect())
    }

    fn named(&self, message: &MessageView, text: &MessageText) -> Value {
        let channel = message.channel().and_then(|id| ChannelId::parse(id).ok());
        let of_row = self.locations.iter().find(|location| Some(&location.channel) == channel.as_ref());
        let workspace = |location: &ChannelOfTeam| self.workspaces.as_ref()?.get(&location.team);
        let name = |location: &ChannelOfTeam| workspace(location)?.0.name(&location.channel);
        // That of the current location comes first: an earlier id may have an earlier name.
        let channel_name = self.locations.iter().find_map(name);
        let permalink = of_row.or(self.locations.first()).zip(message.written_at()).map(|(location, ts)| {
            let base_url = workspace(location).and_then(|(_, facts)| facts.base_url.as_deref());
            message_permalink(base_url, &location.channel, &ts, message.replies_to().as_ref())
        });
        let mut named = message.as_json().clone();
        named["user_id"] = json!(message.user());
        named["user_name"] = self.names.author(&text.author).into();
        named["channel_name"] = json!(channel_name);
        named["time"] = json!(message.written_at().as_ref().map(rfc3339));
        named["permalink"] = json!(permalink);
        named
    }
}

/// The ids of the author and of an app's bot.
fn author_ids(text: &MessageText) -> impl Iterator<Item = &str> {
    [&text.author.user, &text.author.bot].into_iter().filter_map(Option::as_deref)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{CliFixture, message_args, output, parsed};
    use crate::read::{FilesArgs, MessageArgs, MessagesArgs, ReadArgs, files, messages, revisions, thread};

    /// An archive with a person, an app, an author of whom only the id is known, and a file.
    async fn archive() -> CliFixture {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000000.000000", "general").await;
        fixture.person("T1", "U1", "Ana").await;
        fixture.post("T1", "C1", "1700000001.000000", "root").await;
        fixture.reply("T1", "C1", "1700000002.000100", "1700000001.000000", "reply").await;
        fixture.edit("T1", "C1", "1700000001.000000", "1700000003.000000", "another root").await;
        let app = json!({ "user": null, "subtype": "bot_message", "username": "deploys", "text": "done" });
        fixture.change("T1", "C1", "1700000004.000000", "1700000004.000000", app).await;
        let unknown = json!({ "user": "U9", "text": "who" });
        fixture.change("T1", "C1", "1700000005.000000", "1700000005.000000", unknown).await;
        let file = json!({ "id": "F1", "name": "plan.pdf", "mode": "external", "user": "U1" });
        fixture.share("T1", "C1", "1700000006.000000", &file).await;
        fixture
    }

    fn rows(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The rows, and the same with names.
    async fn both<A: Clone>(
        args: A,
        with: impl Fn(&mut A),
        print: impl AsyncFn(&A) -> String,
    ) -> (Vec<Value>, Vec<Value>) {
        let mut with_names = args.clone();
        with(&mut with_names);
        (rows(&print(&args).await), rows(&print(&with_names).await))
    }

    #[tokio::test]
    async fn rows_with_names_have_all_their_fields_and_those_of_people_channels_times_and_links() {
        let fixture = archive().await;
        let archive = fixture.archive();
        let all: MessagesArgs = parsed(&["C1", "--json", "--data", "unused"]).unwrap();
        let one: MessageArgs = message_args("C1", "1700000001.000000");
        let read = ReadArgs { backend: fixture.data(), ..one.read.clone() };
        let list = FilesArgs { channel: None, with_names: false, read };
        let printed = [
            both(
                all,
                |args| args.with_names = true,
                async |args| output(async |out| messages(archive, args, out).await).await.unwrap(),
            )
            .await,
            both(
                one.clone(),
                |args| args.with_names = true,
                async |args| output(async |out| thread(archive, args, out).await).await.unwrap(),
            )
            .await,
            both(
                one,
                |args| args.with_names = true,
                async |args| output(async |out| revisions(archive, args, out).await).await.unwrap(),
            )
            .await,
            both(
                list,
                |args| args.with_names = true,
                async |args| output(async |out| files(archive, args, out).await).await.unwrap(),
            )
            .await,
        ];
        for (plain, named) in &printed {
            assert!(!plain.is_empty() && plain.len() == named.len());
            for (plain, named) in plain.iter().zip(named) {
                for (field, value) in plain.as_object().unwrap() {
                    assert_eq!(&named[field], value, "{field}");
                }
                for field in ["user_id", "user_name", "time"] {
                    assert!(named.get(field).is_some(), "{field} is missing in {named}");
                }
                assert!(plain.get("user_name").is_none(), "{plain}");
            }
        }
        let link = |rest: &str| format!("https://slack.com/archives/C1/{rest}");
        let fields = |row: &Value| {
            ["user_id", "user_name", "channel_name", "time", "permalink"].map(|name| row[name].clone())
        };
        let [messages, _, revisions, files] = printed.map(|(_, named)| named);
        let reply = "p1700000002000100?thread_ts=1700000001.000000&cid=C1";
        for (row, user, name, time, rest) in [
            (&messages[0], json!("U1"), "Ana", "2023-11-14T22:13:21.000000Z", "p1700000001000000"),
            (&messages[1], json!("U1"), "Ana", "2023-11-14T22:13:22.000100Z", reply),
            (&messages[2], json!(null), "deploys", "2023-11-14T22:13:24.000000Z", "p1700000004000000"),
            (&messages[3], json!("U9"), "U9", "2023-11-14T22:13:25.000000Z", "p1700000005000000"),
            (&revisions[0], json!("U1"), "Ana", "2023-11-14T22:13:21.000000Z", "p1700000001000000"),
        ] {
            let expected = [user, json!(name), json!("general"), json!(time), json!(link(rest))];
            assert_eq!(fields(row), expected, "{row}");
        }
        let file = ["user_id", "user_name", "time"].map(|name| files[0][name].clone());
        assert_eq!(file, [json!("U1"), json!("Ana"), json!("2023-11-14T22:13:26.000000Z")]);
    }

    #[tokio::test]
    async fn a_message_under_an_earlier_id_has_the_name_of_its_channel() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "partners").await;
        fixture.post("T1", "C1", "1700000002.000000", "text").await;
        fixture.channel_id_changed("T1", "C1", "C2", "1700000003.000000").await;
        fixture.rename("T1", "C2", "1700000004.000000", "friends").await;
        let args: MessagesArgs = parsed(&["C2", "--json", "--with-names", "--data", "unused"]).unwrap();
        let printed = output(async |out| messages(fixture.archive(), &args, out).await).await.unwrap();
        let row = &rows(&printed)[0];
        assert_eq!((&row["channel_id"], &row["channel_name"]), (&json!("C1"), &json!("friends")), "{row}");
        let without_json = parsed::<MessagesArgs>(&["C2", "--with-names", "--data", "unused"]);
        assert!(without_json.unwrap_err().to_string().contains("--json"));
    }
}
