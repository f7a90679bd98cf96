//! The eraser visits every kind of row that facts of erasures cover.

use std::sync::Arc;

use ports::archive::rows::{ErasedWith, ROWS, RowKind};
use ports::archive::{Archive, ArchiveExt, ErasureFact, ErasureScope, ItemKey, Update, text_attributes};
use slack::ids::{ChannelId, TeamId, Ts, UserGroupId, UserId};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
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
