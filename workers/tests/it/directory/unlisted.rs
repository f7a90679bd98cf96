//! Kept channels that Slack's list of public channels lacks.

use ports::archive::ArchiveExt;
use reader::joined::ChannelOfTeam;
use rules::visibility::VisibilityEvidence;
use slack::ids::Ts;
use testkit::fake_slack::FakeWorkspace;

use super::fixture::{DirectoryFixture, TOKEN, id, team, ts};

#[tokio::test]
async fn a_kept_channel_that_the_list_lacks_is_asked_about_until_it_is_known_to_be_private() {
    let mut workspace = FakeWorkspace::with_size("T1", 5, 0);
    workspace.channels[4]["is_archived"] = true.into();
    let fixture = DirectoryFixture::new(workspace).await;
    fixture.sync().await;
    assert_eq!(fixture.slack.call_count("conversations.info"), 0);
    let visibility = async |channel: &str| {
        let location = ChannelOfTeam { team: team("T1"), channel: id(channel) };
        location.newest(&*fixture.archive).await.unwrap().unwrap().as_json()["visibility"].clone()
    };

    // A private time that the list ends.
    let before = VisibilityEvidence::change(&team("T1"), &id("C00004"), true, &Ts::parse(&ts(-10)).unwrap());
    let row = fixture.archive.item(&before.key());
    fixture.archive.write(&before.update(row.as_ref()).unwrap()).await.unwrap();
    assert_eq!(visibility("C00004").await, "private");

    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.convert("C00000", true);
        workspace.channels.retain(|channel| channel["id"] != "C00001");
        let unlisted = workspace.channels.iter().position(|channel| channel["id"] == "C00002").unwrap();
        let unlisted = workspace.channels.remove(unlisted);
        workspace.unlisted_channels.push(unlisted);
        workspace
            .channels
            .iter_mut()
            .for_each(|channel| channel["is_private"] = (channel["id"] == "C00003").into());
    });
    for (syncs, asked) in [(1, 3), (2, 4)] {
        fixture.sync().await;
        assert_eq!(fixture.slack.call_count("conversations.info"), asked, "after {syncs} syncs");
        for (channel, expected) in [
            ("C00000", "private"),
            ("C00001", "private"),
            ("C00002", "public"),
            ("C00003", "private"),
            ("C00004", "public"),
        ] {
            assert_eq!(visibility(channel).await, expected, "{channel}");
        }
    }
}
