//! The convergence properties on DynamoDB; each step is a request, so with fewer cases.

use std::sync::Arc;

use async_trait::async_trait;
use aws::Aws;
use ports::archive::{Archive, Item, ItemKey};
use ports::queue::topology::TableRole;
use tests::harness::stack::Stack;

use super::TABLES_AND_BUCKET;
use crate::convergence::{ListableArchive, channels, messages};

const CASES: u32 = 40;

/// A table for one test case.
struct OwnTable {
    aws: Aws,
    archive: Arc<dyn Archive>,
    client: aws_sdk_dynamodb::Client,
}

async fn table() -> OwnTable {
    let stack = Stack::shared();
    let aws = stack.provisioned(TABLES_AND_BUCKET).await;
    OwnTable { archive: aws.archive(), aws, client: stack.dynamodb().await }
}

#[async_trait]
impl ListableArchive for OwnTable {
    fn archive(&self) -> Arc<dyn Archive> {
        Arc::clone(&self.archive)
    }

    /// The product never scans; this looks for rows in unexpected places.
    async fn items(&self) -> Vec<Item> {
        let table = self.aws.names().table(TableRole::Archive);
        let mut keys = Vec::new();
        let mut pages =
            self.client.scan().table_name(table).consistent_read(true).into_paginator().items().send();
        while let Some(row) = pages.next().await {
            let row = row.unwrap();
            let text = |name: &str| row[name].as_s().unwrap().clone();
            keys.push(ItemKey::new(text("itemId"), text("timestamp")));
        }
        let keys: Vec<&ItemKey> = keys.iter().collect();
        self.archive.get_all(&keys).await.unwrap().into_iter().flatten().collect()
    }
}

#[test]
fn any_order_duplication_and_crash_gives_the_same_rows_on_dynamodb() {
    messages::converge(CASES, table);
}

#[test]
fn any_order_duplication_and_crash_gives_the_same_channels_on_dynamodb() {
    channels::converge(CASES, table);
}
