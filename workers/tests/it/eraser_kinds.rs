//! The eraser visits every kind of row that can be erased.

use std::sync::Arc;

use ports::archive::rows::{ErasedWith, ROWS, RowKind};
use ports::archive::{Archive, ArchiveExt, ErasureFact, ErasureScope, ItemKey, Update, text_attributes};
use ports::queue::QueueName;
use rules::waiting::WaitState;
use slack::ids::{ChannelId, TeamId, Ts, UserGroupId, UserId};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use testkit::memory::watched::WatchedArchive;
use workers::eraser::EraserMode;

use super::eraser::erase;

/// A row of this kind, of the user U1 and the channel C1.
fn row(kind: &RowKind) -> Update {
    let ids = [
        ("{team}", "T1"),
        ("{channel}", "C1"),
        ("{user}", "U1"),
        ("{group}", "S1"),
        ("{ts}", "1700000000.000100"),
        ("{day}", "2023-11-14"),
        ("{queue}", "events"),
        ("{file}", "F1"),
        ("{number}", "0"),
    ];
    let key = [kind.partition, kind.sort]
        .map(|pattern| ids.iter().fold(pattern.to_owned(), |text, (name, id)| text.replace(name, id)));
    let [partition, sort] = key.map(|text| text.replace(['{', '}'], ""));
    let set_if_absent = text_attributes([("user", "U1"), ("user_id", "U1"), ("text", "secret")]);
    Update { set_if_absent, ..Update::new(ItemKey::new(partition, sort)) }
}

#[tokio::test]
async fn the_eraser_visits_every_kind_that_facts_cover() {
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    let until = Ts::parse("1800000000.000000").unwrap();
    let scopes = [ErasureScope::User(UserId::parse("U1").unwrap()), ErasureScope::Channel(channel.clone())];
    for (is_user, scope) in [true, false].into_iter().zip(scopes) {
        let archive = Arc::new(MemoryArchive::new());
        archive.write(&Update::mark(ItemKey::public_mark(&team, &channel))).await.unwrap();
        let group = UserGroupId::parse("S1").unwrap();
        archive.write(&Update::mark(ItemKey::user_group(&team, &group))).await.unwrap();
        let rows: Vec<Update> = ROWS.iter().filter(|kind| kind.is_covered()).map(row).collect();
        for row in &rows {
            archive.write(row).await.unwrap();
        }
        let fact = ErasureFact { team: team.clone(), scope, until: until.clone() };
        erase(&*archive, &MemoryFiles::new(), &[fact], EraserMode::Act).await.unwrap();
        for (kind, row) in ROWS.iter().filter(|kind| kind.is_covered()).zip(&rows) {
            let is_due = match kind.erased {
                ErasedWith::Message => true,
                ErasedWith::ChannelBefore | ErasedWith::ChannelDay | ErasedWith::Channel => !is_user,
                ErasedWith::User | ErasedWith::BotUser => is_user,
                ErasedWith::Eraser(_) | ErasedWith::Nothing => false,
            };
            let stored = archive.get(&row.key).await.unwrap().unwrap();
            assert_eq!(stored.is_erased(), is_due, "{:?}", row.key);
        }
    }
}

#[tokio::test]
async fn the_eraser_reads_every_kind_that_it_erases_without_a_fact_about_the_row() {
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    let archive = Arc::new(MemoryArchive::new());
    archive.write(&Update::mark(ItemKey::public_mark(&team, &channel))).await.unwrap();
    let erased_alone = || ROWS.iter().filter(|kind| matches!(kind.erased, ErasedWith::Eraser(_)));
    // A workspace's waiting jobs are found through their state.
    let mut waiting = WaitState::new(QueueName::Events, &team);
    waiting.renew_wake();
    archive.write(&waiting.update().unwrap()).await.unwrap();
    for kind in erased_alone() {
        archive.write(&row(kind)).await.unwrap();
    }
    let watched = WatchedArchive::new(archive);
    let until = Ts::parse("1800000000.000000").unwrap();
    let fact = ErasureFact { team, scope: ErasureScope::Channel(channel), until };
    erase(&watched, &MemoryFiles::new(), &[fact], EraserMode::Act).await.unwrap();
    let read = watched.read();
    let missed: Vec<ItemKey> =
        erased_alone().map(|kind| row(kind).key).filter(|key| !read.contains(&key.item_id)).collect();
    assert_eq!(missed, []);
}
