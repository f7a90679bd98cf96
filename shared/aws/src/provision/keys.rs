//! The keys of tables and their indexes, as DynamoDB wants and shows them.

use aws_sdk_dynamodb::types::{AttributeDefinition, KeySchemaElement, KeyType, ScalarAttributeType};

use super::{ProvisionError, unbuilt};
use aws_template::resources::{key_attributes, keys};
use ports::queue::topology::TableSpec;

/// The partition's attribute first, however they are listed.
pub(super) fn key_names(schema: &[KeySchemaElement]) -> Vec<&str> {
    let of = |kind: KeyType| schema.iter().filter(move |key| *key.key_type() == kind);
    of(KeyType::Hash).chain(of(KeyType::Range)).map(KeySchemaElement::attribute_name).collect()
}

pub(super) fn schema(partition: &str, sort: Option<&str>) -> Result<Vec<KeySchemaElement>, ProvisionError> {
    let kinds = [KeyType::Hash, KeyType::Range];
    let keys = keys(partition, sort).into_iter().zip(kinds);
    keys.map(|(name, kind)| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().map_err(unbuilt)
    })
    .collect()
}

pub(super) fn definitions(spec: &TableSpec) -> Result<Vec<AttributeDefinition>, ProvisionError> {
    let define = |name| {
        let definition = AttributeDefinition::builder().attribute_name(name);
        definition.attribute_type(ScalarAttributeType::S).build().map_err(unbuilt)
    };
    key_attributes(spec).into_iter().map(define).collect()
}
