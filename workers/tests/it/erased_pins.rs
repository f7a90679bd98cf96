//! Erasing the person who pinned a message of another person.

use std::sync::Arc;

use ports::archive::{Archive, ArchiveExt, ErasureFact, ErasureScope, ItemKey, Update};
use rules::{pin, project};
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use workers::eraser::{Eraser, EraserMode};

#[tokio::test]
async fn a_pin_stays_without_the_erased_person() {
    let archive = Arc::new(MemoryArchive::new());
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    archive.write(&Update::mark(ItemKey::public_mark(&team, &channel))).await.unwrap();
    let item =
        json!({ "created": 1_700_000_005, "created_by": "U1", "message": { "ts": "1700000000.000100" } });
    let (ts, listed) = pin::in_list(&item).unwrap();
    let updates = listed.updates(&team, &channel, &ts);
    for update in &updates {
        archive.write(update).await.unwrap();
    }
    let scope = ErasureScope::User(UserId::parse("U1").unwrap());
    let fact = ErasureFact { team: team.clone(), scope, until: Ts::parse("1800000000.000000").unwrap() };
    let files = MemoryFiles::new();
    for mode in [EraserMode::Plan, EraserMode::Act] {
        let eraser = Eraser::begin(&*archive, &files, vec![fact.clone()], mode).await.unwrap();
        for part in eraser.parts().await.unwrap() {
            eraser.run_part(&part).await.unwrap();
        }
        // Slack lists the pin again.
        for update in &updates {
            archive.write(update).await.unwrap();
        }
        let row = archive.get(&ItemKey::message(&team, &channel, &ts)).await.unwrap().unwrap();
        assert!(project::is_pinned(&row));
        let names_person = row.to_json().to_string().contains("U1");
        assert_eq!(names_person, mode == EraserMode::Plan);
    }
}
