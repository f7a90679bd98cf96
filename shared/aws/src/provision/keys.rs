//! The keys of tables and their indexes, in DynamoDB's types.

use aws_sdk_dynamodb::types::{AttributeDefinition, KeySchemaElement, KeyType, ScalarAttributeType};

use super::{ProvisionError, build_failed};
use aws_resources::resources::{key_attributes, keys};
use ports::queue::topology::TableSpec;

/// The key attributes, the partition key first regardless of the order in `schema`.
pub(super) fn key_names(schema: &[KeySchemaElement]) -> Vec<&str> {
    let of_kind = |kind: KeyType| schema.iter().filter(move |key| *key.key_type() == kind);
    of_kind(KeyType::Hash).chain(of_kind(KeyType::Range)).map(KeySchemaElement::attribute_name).collect()
}

pub(super) fn schema(partition: &str, sort: Option<&str>) -> Result<Vec<KeySchemaElement>, ProvisionError> {
    let kinds = [KeyType::Hash, KeyType::Range];
    let keys = keys(partition, sort).into_iter().zip(kinds);
    keys.map(|(name, kind)| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().map_err(build_failed)
    })
    .collect()
}

pub(super) fn definitions(spec: &TableSpec) -> Result<Vec<AttributeDefinition>, ProvisionError> {
    let define = |name| {
        let definition = AttributeDefinition::builder().attribute_name(name);
        definition.attribute_type(ScalarAttributeType::S).build().map_err(build_failed)
    };
    key_attributes(spec).into_iter().map(define).collect()
}
