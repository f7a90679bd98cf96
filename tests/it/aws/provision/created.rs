//! Resources that are created, and settings that differ.

use super::*;

#[tokio::test]
async fn the_first_run_creates_everything_and_the_second_changes_nothing() {
    let fixture = ProvisionFixture::new().await;
    let all = |change: ResourceChange| -> Vec<ProvisionStep> {
        let step = |resource| ProvisionStep { resource, change: change.clone() };
        everything(fixture.names()).into_iter().map(step).collect()
    };
    assert_eq!(steps(&fixture.aws, Parts::ALL).await, all(ResourceChange::Create));
    assert_eq!(steps(&fixture.aws, Parts::ALL).await, all(ResourceChange::Keep));
    assert_eq!(run(&fixture.aws, Parts::ALL, true).await, (all(ResourceChange::Keep), Ok(())));
}

#[tokio::test]
async fn a_dry_run_prints_the_steps_of_a_run_and_changes_nothing() {
    let fixture = ProvisionFixture::new().await;
    let planned = run(&fixture.aws, Parts::ALL, true).await;
    assert_eq!(fixture.resources().await, Vec::<String>::new());
    assert_eq!(planned.0, steps(&fixture.aws, Parts::ALL).await);

    let dead_letters = fixture.url(QueueRef::dead_letters(QueueName::Events)).await;
    fixture.sqs.delete_queue().queue_url(dead_letters).send().await.unwrap();
    let planned = run(&fixture.aws, Parts::ALL, true).await;
    assert_eq!(planned.0, steps(&fixture.aws, Parts::ALL).await);
    let changed: Vec<&ProvisionStep> =
        planned.0.iter().filter(|step| step.change != ResourceChange::Keep).collect();
    let events = fixture.names().queue(QueueRef::dead_letters(QueueName::Events));
    assert!(changed.len() == 1 && changed[0].to_string() == format!("queue {events}"), "{changed:?}");
}

#[tokio::test]
async fn queues_match_the_topology() {
    let fixture = ProvisionFixture::new().await;
    steps(&fixture.aws, Parts { tables: false, bucket: false, ..Parts::ALL }).await;
    for spec in &QUEUES {
        let dead_letters = fixture.attributes(QueueRef::dead_letters(spec.name)).await;
        let queue = fixture.attributes(spec.name.into()).await;
        let expected = [
            (Attribute::FifoQueue, "true".to_owned()),
            (Attribute::ContentBasedDeduplication, "false".to_owned()),
            (Attribute::DeduplicationScope, "messageGroup".to_owned()),
            (Attribute::FifoThroughputLimit, "perMessageGroupId".to_owned()),
            (Attribute::MaximumMessageSize, "1048576".to_owned()),
            (Attribute::MessageRetentionPeriod, "1209600".to_owned()),
            (Attribute::SqsManagedSseEnabled, "true".to_owned()),
            (Attribute::VisibilityTimeout, spec.visibility_timeout().as_secs().to_string()),
        ];
        for (name, value) in expected {
            assert_eq!(queue[&name], value, "{spec:?}");
            assert_eq!(dead_letters[&name], value, "dead letters of {spec:?}");
        }
        assert_eq!(queue[&Attribute::DelaySeconds], spec.delay.as_secs().to_string());
        assert_eq!(dead_letters[&Attribute::DelaySeconds], "0");
        let policy: Value = serde_json::from_str(&queue[&Attribute::RedrivePolicy]).unwrap();
        assert_eq!(
            policy,
            json!({
                "deadLetterTargetArn": dead_letters[&Attribute::QueueArn],
                "maxReceiveCount": MAX_RECEIVE_COUNT,
            })
        );
        assert!(!dead_letters.contains_key(&Attribute::RedrivePolicy));
        let tags = fixture.sqs.list_queue_tags().queue_url(fixture.url(spec.name.into()).await).send().await;
        assert_eq!(tags.unwrap().tags.unwrap()[TAG], fixture.names().prefix());
    }
}

#[tokio::test]
async fn tables_match_the_topology() {
    let fixture = ProvisionFixture::new().await;
    steps(&fixture.aws, TABLES_ONLY).await;
    for spec in &TABLES {
        let name = fixture.names().table(spec.role);
        let table = fixture.dynamodb.describe_table().table_name(name).send().await.unwrap().table.unwrap();
        let keys = |schema: &[KeySchemaElement]| -> Vec<(String, KeyType)> {
            schema.iter().map(|key| (key.attribute_name.clone(), key.key_type.clone())).collect()
        };
        let mut expected = vec![(spec.partition_key.to_owned(), KeyType::Hash)];
        expected.extend(spec.sort_key.map(|key| (key.to_owned(), KeyType::Range)));
        assert_eq!(keys(table.key_schema()), expected);
        assert_eq!(table.billing_mode_summary().unwrap().billing_mode(), Some(&BillingMode::PayPerRequest));
        let indexes = table.global_secondary_indexes();
        assert_eq!(indexes.len(), usize::from(spec.index.is_some()));
        for (found, index) in indexes.iter().zip(&spec.index) {
            assert_eq!(found.index_name(), Some(index.name));
            let expected = [
                (index.partition_key.to_owned(), KeyType::Hash),
                (index.sort_key.to_owned(), KeyType::Range),
            ];
            assert_eq!(keys(found.key_schema()), expected);
            assert_eq!(found.projection().unwrap().projection_type(), Some(&ProjectionType::KeysOnly));
        }
        let expiry = fixture.dynamodb.describe_time_to_live().table_name(name).send().await.unwrap();
        let expiry = expiry.time_to_live_description.unwrap();
        let is_on = expiry.time_to_live_status() == Some(&TimeToLiveStatus::Enabled);
        assert_eq!(expiry.attribute_name().filter(|_| is_on), spec.ttl);
        let backups = fixture.dynamodb.describe_continuous_backups().table_name(name).send().await.unwrap();
        let backups = backups.continuous_backups_description.unwrap();
        let recovery = backups.point_in_time_recovery_description().unwrap().point_in_time_recovery_status();
        assert_eq!(recovery == Some(&PointInTimeRecoveryStatus::Enabled), spec.point_in_time_recovery);
        let tags =
            fixture.dynamodb.list_tags_of_resource().resource_arn(table.table_arn().unwrap()).send().await;
        let tags = tags.unwrap().tags.unwrap();
        assert!(tags.iter().any(|tag| tag.key() == TAG && tag.value() == fixture.names().prefix()));
    }
}

#[tokio::test]
async fn the_bucket_is_encrypted_private_and_aborts_old_uploads() {
    let fixture = ProvisionFixture::new().await;
    steps(&fixture.aws, BUCKET_ONLY).await;
    let bucket = fixture.names().bucket();
    let location = fixture.s3.get_bucket_location().bucket(bucket).send().await.unwrap();
    assert_eq!(location.location_constraint().unwrap().as_str(), REGION);
    let found = fixture.s3.get_bucket_encryption().bucket(bucket).send().await.unwrap();
    let rule = found.server_side_encryption_configuration().unwrap().rules()[0].clone();
    let default = rule.apply_server_side_encryption_by_default.unwrap();
    assert_eq!(default.sse_algorithm, ServerSideEncryption::Aes256);
    let found = fixture.s3.get_public_access_block().bucket(bucket).send().await.unwrap();
    let block = found.public_access_block_configuration.unwrap();
    let all = [
        block.block_public_acls,
        block.ignore_public_acls,
        block.block_public_policy,
        block.restrict_public_buckets,
    ];
    assert_eq!(all, [Some(true); 4]);
    let found = fixture.s3.get_bucket_lifecycle_configuration().bucket(bucket).send().await.unwrap();
    let rule = &found.rules()[0];
    assert_eq!(rule.abort_incomplete_multipart_upload().unwrap().days_after_initiation, Some(1));
    assert_eq!(*rule.status(), ExpirationStatus::Enabled);
    // Archived objects never expire.
    assert!(found.rules().len() == 1 && rule.expiration().is_none());
    let tags = fixture.s3.get_bucket_tagging().bucket(bucket).send().await.unwrap();
    assert!(tags.tag_set().iter().any(|tag| tag.key() == TAG && tag.value() == fixture.names().prefix()));
}

/// The statements of the bucket's policy.
async fn statements(fixture: &ProvisionFixture) -> Vec<Value> {
    let found = fixture.s3.get_bucket_policy().bucket(fixture.names().bucket()).send().await.unwrap();
    let policy: Value = serde_json::from_str(&found.policy.unwrap()).unwrap();
    policy["Statement"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_bucket_requires_tls_and_tables_have_deletion_protection() {
    let fixture = ProvisionFixture::new().await;
    let bucket = fixture.names().bucket();
    steps(&fixture.aws, Parts { queues: &[], ..Parts::ALL }).await;
    let ours = json!({
        "Sid": "AnnalistTlsOnly", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": [format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{bucket}/*")],
        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
    });
    assert_eq!(statements(&fixture).await, std::slice::from_ref(&ours));
    for spec in &TABLES {
        let name = fixture.names().table(spec.role);
        let table = fixture.dynamodb.describe_table().table_name(name).send().await.unwrap().table.unwrap();
        assert_eq!(table.deletion_protection_enabled(), Some(true), "{name}");
    }
}

#[tokio::test]
async fn settings_that_differ_are_named_and_stay() {
    let fixture = ProvisionFixture::new().await;
    steps(&fixture.aws, Parts { queues: ONE_QUEUE.queues, ..Parts::ALL }).await;
    let (queue, dead_letters) = (QueueName::Stats.into(), QueueRef::dead_letters(QueueName::Stats));
    for (name, value) in [
        (Attribute::VisibilityTimeout, "31"),
        (Attribute::DelaySeconds, "0"),
        (Attribute::MessageRetentionPeriod, "345600"),
        (Attribute::MaximumMessageSize, "262144"),
        (Attribute::DeduplicationScope, "queue"),
        (Attribute::FifoThroughputLimit, "perQueue"),
        (Attribute::ContentBasedDeduplication, "true"),
        (Attribute::RedrivePolicy, ""),
    ] {
        fixture.set_attribute(queue, name, value).await;
    }
    fixture.set_attribute(dead_letters, Attribute::MessageRetentionPeriod, "345600").await;
    let archive = fixture.names().table(TableRole::Archive);
    let update = fixture.dynamodb.update_table().table_name(archive).deletion_protection_enabled(false);
    update.send().await.unwrap();
    let bucket = fixture.names().bucket();
    fixture.s3.delete_bucket_policy().bucket(bucket).send().await.unwrap();
    fixture.s3.delete_public_access_block().bucket(bucket).send().await.unwrap();
    fixture.s3.delete_bucket_lifecycle().bucket(bucket).send().await.unwrap();
    let [of_queue, of_dead_letters] = [queue, dead_letters].map(|queue| fixture.names().queue(queue));
    let expected = [
        format!("queue {of_dead_letters} (MessageRetentionPeriod)"),
        format!(
            "queue {of_queue} (VisibilityTimeout, DelaySeconds, MessageRetentionPeriod, MaximumMessageSize, \
             ContentBasedDeduplication, DeduplicationScope, FifoThroughputLimit, RedrivePolicy)"
        ),
        format!("table {archive} (DeletionProtectionEnabled)"),
        format!("bucket {bucket} (PublicAccessBlock, Policy, LifecycleConfiguration)"),
    ];
    for _ in 0..2 {
        assert_eq!(changes(&fixture.aws, Parts { queues: ONE_QUEUE.queues, ..Parts::ALL }).await, expected);
    }
}

#[tokio::test]
async fn a_table_with_other_keys_index_or_expiry_differs() {
    let fixture = ProvisionFixture::new().await;
    let owner = fixture.names().prefix();
    let (text, number) = (ScalarAttributeType::S, ScalarAttributeType::N);
    let [archive, existence, claims] =
        [TableRole::Archive, TableRole::Existence, TableRole::Claims].map(|role| fixture.names().table(role));
    fixture.make_table(archive, &[("itemId", text.clone()), ("timestamp", number)], Some(owner)).await;
    fixture.make_table(existence, &[("cache_key", text.clone())], Some(owner)).await;
    fixture.make_table(claims, &[("key", text)], Some(owner)).await;
    // The archive's table must not expire rows.
    let expiry = TimeToLiveSpecification::builder().enabled(true).attribute_name("ttl").build().unwrap();
    let update = fixture.dynamodb.update_time_to_live().table_name(archive);
    update.time_to_live_specification(expiry).send().await.unwrap();
    let every = "GlobalSecondaryIndexes, TimeToLive, PointInTimeRecovery, DeletionProtectionEnabled";
    assert_eq!(
        changes(&fixture.aws, TABLES_ONLY).await,
        [
            format!("table {archive} (KeySchema, {every})"),
            format!("table {existence} (TimeToLive, DeletionProtectionEnabled)"),
            format!("table {claims} (KeySchema, TimeToLive, DeletionProtectionEnabled)"),
        ]
    );
}

#[tokio::test]
async fn what_the_operator_added_to_a_bucket_does_not_differ() {
    let fixture = ProvisionFixture::new().await;
    let bucket = fixture.names().bucket();
    steps(&fixture.aws, BUCKET_ONLY).await;
    let theirs = LifecycleRule::builder()
        .id("theirs")
        .status(ExpirationStatus::Enabled)
        .filter(LifecycleRuleFilter::builder().prefix("exports/").build())
        .expiration(LifecycleExpiration::builder().days(30).build())
        .build()
        .unwrap();
    let found = fixture.s3.get_bucket_lifecycle_configuration().bucket(bucket).send().await.unwrap();
    let rules = [found.rules(), &[theirs]].concat();
    let lifecycle = BucketLifecycleConfiguration::builder().set_rules(Some(rules)).build().unwrap();
    let put = fixture.s3.put_bucket_lifecycle_configuration().bucket(bucket);
    put.lifecycle_configuration(lifecycle).send().await.unwrap();
    let mut statements = statements(&fixture).await;
    statements.push(json!({
        "Sid": "theirs", "Effect": "Allow", "Principal": { "AWS": "arn:aws:iam::000000000000:root" },
        "Action": "s3:GetObject", "Resource": format!("arn:aws:s3:::{bucket}/exports/*"),
    }));
    let policy = json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
    fixture.s3.put_bucket_policy().bucket(bucket).policy(policy).send().await.unwrap();
    assert_eq!(changes(&fixture.aws, BUCKET_ONLY).await, Vec::<String>::new());
}
