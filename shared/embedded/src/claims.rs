//! The claims port on the `claims` table. Every call is one operation of the writer's transaction.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use super::writer::{Transaction, WriteError, WriterThread};
use ports::archive::erasure::ErasureScope;
use ports::claims::state::ttl_s;
use ports::claims::{
    Claim, ClaimAnswer, ClaimKey, ClaimMode, ClaimOwner, ClaimState, ClaimStatus, Claims, ClaimsError,
};
use ports::lease::MAX_LEASE;

/// Number of expired rows that each claim removes: more than one, so that removal keeps up with insertion,
/// and few, so that no transaction has to wait for thousands.
const SWEPT_AT_ONCE: i64 = 8;

/// The claims in an open data folder.
pub(super) struct EmbeddedClaims {
    writer: Arc<WriterThread>,
    process: i64,
}

impl EmbeddedClaims {
    pub(super) fn new(writer: Arc<WriterThread>, process: i64) -> Self {
        Self { writer, process }
    }

    /// Runs `change` on the claim's row.
    ///
    /// # Errors
    /// [`ClaimsError::NotOwner`] if it returns false.
    async fn change<F>(&self, claim: &Claim, mut change: F) -> Result<(), ClaimsError>
    where
        F: FnMut(&Transaction<'_>, &Claim) -> rusqlite::Result<bool> + Send + 'static,
    {
        let claim = claim.clone();
        let changed = self.writer.run(move |transaction| change(transaction, &claim)).await;
        if changed.map_err(unavailable)? { Ok(()) } else { Err(ClaimsError::NotOwner) }
    }
}

#[async_trait]
impl Claims for EmbeddedClaims {
    async fn claim(&self, claim: &Claim, take: ClaimMode) -> Result<ClaimAnswer, ClaimsError> {
        let (claim, process) = (claim.clone(), self.process);
        let work = move |transaction: &Transaction<'_>| {
            let Transaction { connection, now, .. } = transaction;
            sweep(connection, now.seconds())?;
            let state = read(connection, &claim.key)?;
            let answer = state.map_or(ClaimAnswer::Claimed, |row| row.answer_to(&claim, take, *now));
            if answer == ClaimAnswer::Claimed {
                put(transaction, &claim, process)?;
            }
            Ok(answer)
        };
        self.writer.run(work).await.map_err(unavailable)
    }

    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.change(claim, |transaction, claim| {
            let ClaimState { owner, lease_until_s, ttl_s, .. } =
                ClaimState::in_progress(claim, transaction.now);
            let sql = "UPDATE claims SET lease_until = ?3, ttl = ?4
                       WHERE event_key = ?1 AND lambda_instance_id = ?2 AND status = 'in_progress'";
            let values = params![claim.key.as_str(), owner.as_str(), lease_until_s, ttl_s];
            Ok(transaction.connection.prepare_cached(sql)?.execute(values)? == 1)
        })
        .await
    }

    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.change(claim, |transaction, claim| {
            let now = transaction.now;
            let sql = "UPDATE claims SET status = 'completed', lease_until = 0, processed_at = ?3, ttl = ?4
                       WHERE event_key = ?1 AND lambda_instance_id = ?2";
            let values = params![claim.key.as_str(), claim.owner.as_str(), now.seconds(), ttl_s(claim, now)];
            Ok(transaction.connection.prepare_cached(sql)?.execute(values)? == 1)
        })
        .await
    }

    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.change(claim, |transaction, claim| {
            let Some(state) = read(transaction.connection, &claim.key)? else { return Ok(true) };
            if !state.is_worked_on_by(&claim.owner) {
                return Ok(false);
            }
            let sql = "DELETE FROM claims WHERE event_key = ?1";
            transaction.connection.prepare_cached(sql)?.execute([claim.key.as_str()])?;
            Ok(true)
        })
        .await
    }

    async fn ready(&self) -> Result<(), ClaimsError> {
        self.writer.run(|_| Ok(())).await.map_err(unavailable)
    }
}

/// Removes the claims about erased data, except those that a process currently holds: another process could
/// take them.
pub(super) async fn remove_claims(writer: &WriterThread, scope: ErasureScope) -> Result<(), ClaimsError> {
    let removed = writer.run(move |Transaction { connection, now, .. }| {
        let (about, id, ts) = match &scope {
            ErasureScope::User(user) => ("user_id", user.as_str(), None),
            ErasureScope::Channel(channel) => ("channel_id", channel.as_str(), None),
            ErasureScope::Message(channel, ts) => ("channel_id", channel.as_str(), Some(ts.as_str())),
        };
        // The key of every claim about a message contains its timestamp.
        let sql = format!(
            "DELETE FROM claims WHERE {about} = ?1 AND (lease_until <= ?2 OR lease_until > ?4)
                 AND (?3 IS NULL OR instr(event_key, '_' || ?3) > 0)"
        );
        connection.execute(&sql, params![id, now.seconds(), ts, now.plus(MAX_LEASE).seconds()])?;
        Ok(())
    });
    removed.await.map_err(unavailable)
}

fn unavailable(error: WriteError) -> ClaimsError {
    ClaimsError::Unavailable(error.0)
}

fn read(connection: &Connection, key: &ClaimKey) -> rusqlite::Result<Option<ClaimState>> {
    let sql = "SELECT status, lambda_instance_id, lease_until, ttl FROM claims WHERE event_key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let state = statement.query_row([key.as_str()], |row| {
        let label = row.get_ref(0)?.as_str()?;
        let unknown = || {
            let what = format!("a claim is {label:?}, which this version does not know");
            rusqlite::Error::FromSqlConversionFailure(0, Type::Text, what.into())
        };
        Ok(ClaimState {
            status: ClaimStatus::from_label(label).ok_or_else(unknown)?,
            owner: ClaimOwner::from_stored(row.get_ref(1)?.as_str()?),
            lease_until_s: row.get(2)?,
            ttl_s: row.get(3)?,
        })
    });
    state.optional()
}

fn put(transaction: &Transaction<'_>, claim: &Claim, process: i64) -> rusqlite::Result<()> {
    let ClaimState { status, owner, lease_until_s, ttl_s } = ClaimState::in_progress(claim, transaction.now);
    let about = &claim.about;
    let sql = "INSERT INTO claims (event_key, status, lambda_instance_id, lease_until, processed_at, ttl,
                   file_id, channel_id, user_id, process) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
               ON CONFLICT (event_key) DO UPDATE SET (status, lambda_instance_id, lease_until, processed_at, ttl,
                   file_id, channel_id, user_id, process) = (excluded.status, excluded.lambda_instance_id,
                   excluded.lease_until, excluded.processed_at, excluded.ttl, excluded.file_id, excluded.channel_id,
                   excluded.user_id, excluded.process)";
    transaction.connection.prepare_cached(sql)?.execute(params![
        claim.key.as_str(),
        status.label(),
        owner.as_str(),
        lease_until_s,
        transaction.now.seconds(),
        ttl_s,
        about.file_id.as_ref().map(|id| id.as_str()),
        about.channel_id.as_ref().map(|id| id.as_str()),
        about.user_id.as_ref().map(|id| id.as_str()),
        process,
    ])?;
    Ok(())
}

/// Removes some of the expired rows.
fn sweep(connection: &Connection, now_s: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM claims WHERE event_key IN
                   (SELECT event_key FROM claims WHERE ttl <= ?1 ORDER BY ttl LIMIT ?2)";
    connection.prepare_cached(sql)?.execute([now_s, SWEPT_AT_ONCE])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{DATABASE_FILE, Database};
    use ports::claims::ClaimContext;
    use ports::clock::{ManualClock, TimestampMs};
    use slack::ids::{ChannelId, FileId, Ts, UserId};

    const START: TimestampMs = TimestampMs(1_700_000_000_000);

    fn claim(event: u32, number: u64) -> Claim {
        Claim {
            key: ClaimKey::for_file(
                &FileId::parse(&format!("F{event}")).unwrap(),
                &Ts::parse("1.000000").unwrap(),
            ),
            owner: ClaimOwner::new("one", number),
            about: ClaimContext {
                file_id: FileId::parse("F01").ok(),
                channel_id: ChannelId::parse("C01").ok(),
                user_id: UserId::parse("U01").ok(),
            },
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(3600),
        }
    }

    fn rows(data: &std::path::Path) -> Vec<String> {
        let connection = Connection::open(data.join(DATABASE_FILE)).unwrap();
        let sql = "SELECT concat_ws(' ', event_key, status, lambda_instance_id, lease_until, processed_at, ttl, file_id,
                   channel_id, user_id) FROM claims ORDER BY event_key";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>();
        rows.unwrap()
    }

    #[tokio::test]
    async fn a_row_has_the_columns_of_the_table_on_aws() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let database = Database::open(folder.path(), clock.clone()).unwrap();
        let claims = database.claims();
        claims.claim(&claim(1, 7), ClaimMode::IfFree).await.unwrap();
        let begun = "F1_1.000000 in_progress one/7 1700000030 1700000000 1700003600 F01 C01 U01";
        assert_eq!(rows(folder.path()), [begun]);
        clock.advance(Duration::from_secs(5));
        claims.complete(&claim(1, 7)).await.unwrap();
        let completed = "F1_1.000000 completed one/7 0 1700000005 1700003605 F01 C01 U01";
        assert_eq!(rows(folder.path()), [completed]);
    }

    #[tokio::test]
    async fn expired_rows_are_removed_in_bounded_steps() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let database = Database::open(folder.path(), clock.clone()).unwrap();
        let claims = database.claims();
        for event in 0..20 {
            claims.claim(&claim(event, 1), ClaimMode::IfFree).await.unwrap();
        }
        assert_eq!(rows(folder.path()).len(), 20);
        clock.advance(Duration::from_secs(3600));
        for (event, left) in [(100, 13), (101, 6), (102, 3), (103, 4)] {
            claims.claim(&claim(event, 1), ClaimMode::IfFree).await.unwrap();
            assert_eq!(rows(folder.path()).len(), left);
        }
    }

    #[tokio::test]
    async fn claims_about_erased_data_are_removed_unless_they_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let database = Database::open(folder.path(), clock.clone()).unwrap();
        let claims = database.claims();
        let file = |file: &str, ts: &str, channel: &str, user: &str| {
            let (file, ts) = (FileId::parse(file).unwrap(), Ts::parse(ts).unwrap());
            let (channel_id, user_id) = (ChannelId::parse(channel).ok(), UserId::parse(user).ok());
            let about = ClaimContext { file_id: Some(file.clone()), channel_id, user_id };
            Claim { key: ClaimKey::for_file(&file, &ts), about, ..claim(1, 1) }
        };
        for done in [
            file("F1", "1.000000", "C1", "U1"),
            file("F2", "1.000000", "C2", "U2"),
            file("F3", "2.000000", "C2", "U2"),
            file("F4", "3.000000", "C3", "U2"),
        ] {
            claims.claim(&done, ClaimMode::IfFree).await.unwrap();
            claims.complete(&done).await.unwrap();
        }
        claims.claim(&file("F5", "3.000000", "C1", "U1"), ClaimMode::IfFree).await.unwrap();
        // No process holds a claim of a clock that was further ahead than any lease.
        let ahead = Duration::from_secs(1_200);
        clock.advance(ahead);
        claims.claim(&file("F6", "4.000000", "C1", "U1"), ClaimMode::IfFree).await.unwrap();
        clock.set_back(ahead);
        let left = || -> Vec<String> {
            rows(folder.path()).iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect()
        };
        let channel = |id: &str| ChannelId::parse(id).unwrap();
        for (scope, expected) in [
            (ErasureScope::User(UserId::parse("U1").unwrap()), &["F2_1", "F3_2", "F4_3", "F5_3"][..]),
            (ErasureScope::Message(channel("C2"), Ts::parse("1.000000").unwrap()), &["F3_2", "F4_3", "F5_3"]),
            (ErasureScope::Channel(channel("C3")), &["F3_2", "F5_3"]),
        ] {
            database.remove_claims(scope).await.unwrap();
            let expected: Vec<String> = expected.iter().map(|key| format!("{key}.000000")).collect();
            assert_eq!(left(), expected);
        }
        clock.advance(Duration::from_secs(31));
        database.remove_claims(ErasureScope::User(UserId::parse("U1").unwrap())).await.unwrap();
        assert_eq!(left(), ["F3_2.000000"], "the lease of the other claim has expired");
    }

    #[tokio::test]
    async fn the_claims_of_a_process_are_free_after_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let [ends, stays] = [(); 2].map(|()| Database::open(folder.path(), clock.clone()).unwrap());
        ends.claims().claim(&claim(1, 1), ClaimMode::IfFree).await.unwrap();
        ends.claims().claim(&claim(2, 1), ClaimMode::IfFree).await.unwrap();
        ends.claims().complete(&claim(2, 1)).await.unwrap();
        stays.claims().claim(&claim(3, 2), ClaimMode::IfFree).await.unwrap();
        let claims = stays.claims();
        let held = ClaimAnswer::HeldUntil(START.plus(Duration::from_secs(30)));
        assert_eq!(claims.claim(&claim(1, 2), ClaimMode::IfFree).await.unwrap(), held);
        ends.close().await;
        assert_eq!(claims.claim(&claim(1, 2), ClaimMode::IfFree).await.unwrap(), ClaimAnswer::Claimed);
        assert_eq!(claims.claim(&claim(2, 2), ClaimMode::IfFree).await.unwrap(), ClaimAnswer::Completed);
        assert_eq!(claims.claim(&claim(3, 3), ClaimMode::IfFree).await.unwrap(), held);
    }
}
