//! Tables, protected from deletion, with their index, their expiry and their backups.

use serde_json::{Map, Value, json};

use super::{Resources, parameters, reference, tags};
use crate::names::Names;
use crate::resources::{key_attributes, keys};
use ports::queue::topology::{TABLES, TableRole, TableSpec};

/// The logical id of a table in the template.
pub(super) fn id(role: TableRole) -> &'static str {
    match role {
        TableRole::Archive => "ArchiveTable",
        TableRole::Existence => "ExistenceTable",
        TableRole::Claims => "ClaimsTable",
    }
}

pub(super) fn resources(names: &Names) -> Resources {
    let table = |spec: &TableSpec| {
        let resource = json!({
            "Type": "AWS::DynamoDB::Table",
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": properties(names, spec),
        });
        (id(spec.role).to_owned(), resource)
    };
    TABLES.iter().map(table).collect()
}

fn properties(names: &Names, spec: &TableSpec) -> Map<String, Value> {
    let definitions: Vec<Value> = key_attributes(spec)
        .into_iter()
        .map(|name| json!({ "AttributeName": name, "AttributeType": "S" }))
        .collect();
    let mut properties = Map::new();
    let mut set = |name: &str, value: Value| drop(properties.insert(name.to_owned(), value));
    set("TableName", names.table(spec.role).into());
    set("BillingMode", "PAY_PER_REQUEST".into());
    set("DeletionProtectionEnabled", true.into());
    set("AttributeDefinitions", definitions.into());
    set("KeySchema", schema(spec.partition_key, spec.sort_key));
    set("Tags", tags(names));
    let encryption = |key| json!({ "SSEEnabled": true, "SSEType": "KMS", "KMSMasterKeyId": key });
    let own_key = encryption(reference(parameters::KMS_KEY_ARN));
    set("SSESpecification", parameters::with_own_key(own_key, parameters::no_value()));
    if spec.role == TableRole::Archive {
        set("TableClass", reference(parameters::TABLE_CLASS));
    }
    if let Some(index) = &spec.index {
        set(
            "GlobalSecondaryIndexes",
            json!([{
                "IndexName": index.name,
                "KeySchema": schema(index.partition_key, Some(index.sort_key)),
                "Projection": { "ProjectionType": "KEYS_ONLY" },
            }]),
        );
    }
    if let Some(attribute) = spec.ttl {
        set("TimeToLiveSpecification", json!({ "AttributeName": attribute, "Enabled": true }));
    }
    if spec.point_in_time_recovery {
        set("PointInTimeRecoverySpecification", json!({ "PointInTimeRecoveryEnabled": true }));
    }
    properties
}

fn schema(partition: &str, sort: Option<&str>) -> Value {
    let kinds = ["HASH", "RANGE"];
    let key = |(name, kind)| json!({ "AttributeName": name, "KeyType": kind });
    keys(partition, sort).into_iter().zip(kinds).map(key).collect()
}
