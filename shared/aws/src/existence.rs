//! The existence port on DynamoDB: its table and its attributes.
//!
//! Unprocessed keys of a response are not requested again: a missing row only costs a request to Slack.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, PutRequest, WriteRequest};

use super::Aws;
use super::policy;
use aws_resources::names::settings;
use ports::existence::{CacheKey, Existence, ExistenceError, Verified};
use ports::queue::topology::{EXISTENCE_TABLE, TableRole};
use s3::fault::CallSubject;

const CACHE_KEY: &str = EXISTENCE_TABLE.partition_key;
/// The expiry time of a row, in Unix seconds.
const TTL: &str = "ttl";
/// When Slack was asked, in Unix seconds.
const VERIFIED_AT: &str = "verified_at";

/// Maximum number of keys of BatchGetItem.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html>
const READ_AT_ONCE: usize = 100;
/// Maximum number of rows of BatchWriteItem.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html>
const WRITTEN_AT_ONCE: usize = 25;

type ExistenceRow = HashMap<String, AttributeValue>;

/// The cache's table.
pub(super) struct DynamoExistence {
    client: Client,
    name: String,
    subject: CallSubject,
}

impl DynamoExistence {
    pub(super) fn new(aws: &Aws) -> Self {
        let name = aws.names().table(TableRole::Existence).to_owned();
        let subject = aws.table_subject(&name, settings::EXISTENCE_TABLE);
        Self { client: policy::dynamodb(&aws.sdk, policy::CACHE), name, subject }
    }

    async fn read(&self, keys: Vec<ExistenceRow>) -> Result<Vec<ExistenceRow>, ExistenceError> {
        let keys = KeysAndAttributes::builder().set_keys(Some(keys)).build();
        let keys = keys.map_err(|error| ExistenceError::Unavailable(error.to_string()))?;
        let get = self.client.batch_get_item().request_items(&self.name, keys);
        let answer = get.send().await;
        let answer = answer.map_err(|error| ExistenceError::Unavailable(self.subject.explain(&error)))?;
        Ok(answer.responses.unwrap_or_default().into_values().flatten().collect())
    }

    async fn write(&self, rows: Vec<WriteRequest>) -> Result<(), ExistenceError> {
        let put = self.client.batch_write_item().request_items(&self.name, rows);
        let answer = put.send().await;
        answer.map_err(|error| ExistenceError::Unavailable(self.subject.explain(&error)))?;
        Ok(())
    }
}

fn key(key: &CacheKey) -> ExistenceRow {
    [(CACHE_KEY.to_owned(), AttributeValue::S(key.as_str().to_owned()))].into()
}

fn number(row: &ExistenceRow, name: &str) -> Option<i64> {
    row.get(name)?.as_n().ok()?.parse().ok()
}

fn put_request((cache_key, row): &(CacheKey, Verified)) -> Result<WriteRequest, ExistenceError> {
    let mut item = key(cache_key);
    item.insert(TTL.to_owned(), AttributeValue::N(row.ttl_s.to_string()));
    if let Some(verified_at_s) = row.verified_at_s {
        item.insert(VERIFIED_AT.to_owned(), AttributeValue::N(verified_at_s.to_string()));
    }
    let put = PutRequest::builder().set_item(Some(item)).build();
    let put = put.map_err(|error| ExistenceError::Unavailable(error.to_string()))?;
    Ok(WriteRequest::builder().put_request(put).build())
}

#[async_trait]
impl Existence for DynamoExistence {
    async fn look_up(&self, keys: &[CacheKey]) -> Result<Vec<Option<Verified>>, ExistenceError> {
        // DynamoDB rejects a batch with a duplicate key.
        let mut distinct: Vec<&CacheKey> = keys.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut found: HashMap<String, Verified> = HashMap::new();
        for batch in distinct.chunks(READ_AT_ONCE) {
            for row in self.read(batch.iter().map(|cache_key| key(cache_key)).collect()).await? {
                let name = row.get(CACHE_KEY).and_then(|name| name.as_s().ok()).cloned();
                if let (Some(name), Some(ttl_s)) = (name, number(&row, TTL)) {
                    found.insert(name, Verified { ttl_s, verified_at_s: number(&row, VERIFIED_AT) });
                }
            }
        }
        Ok(keys.iter().map(|key| found.get(key.as_str()).copied()).collect())
    }

    async fn remember(&self, rows: &[(CacheKey, Verified)]) -> Result<(), ExistenceError> {
        // The last row of a key wins, and a batch may contain each key only once.
        let mut last: HashMap<&CacheKey, &(CacheKey, Verified)> = HashMap::new();
        last.extend(rows.iter().map(|row| (&row.0, row)));
        let puts = last.into_values().map(put_request).collect::<Result<Vec<_>, _>>()?;
        for batch in puts.chunks(WRITTEN_AT_ONCE) {
            self.write(batch.to_vec()).await?;
        }
        Ok(())
    }

    async fn ready(&self) -> Result<(), ExistenceError> {
        let unused_key = [(CACHE_KEY.to_owned(), AttributeValue::S("ready".to_owned()))].into();
        self.read(vec![unused_key]).await.map(drop)
    }
}
