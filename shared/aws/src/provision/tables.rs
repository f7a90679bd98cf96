//! Tables: on demand, protected from deletion, with their index, their expiry and their backups.

use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, IndexStatus, KeySchemaElement, KeyType,
    PointInTimeRecoverySpecification, PointInTimeRecoveryStatus, Projection, ProjectionType,
    ScalarAttributeType, TableDescription, TableStatus, Tag, TimeToLiveSpecification, TimeToLiveStatus,
};

use super::deadline::PollDeadline;
use super::{ProvisionError, Provisioner, Resource, TAG, build_failed, code};
use aws_resources::names::settings;
use aws_resources::resources::{key_attributes, keys};
use ports::queue::topology::{IndexSpec, TableRole, TableSpec};
use s3::fault::CallSubject;

/// Long enough for a table, and for an index over a small table.
const WAIT_MINUTES: u64 = 5;

/// Provisions one table.
struct TableProvisioner<'a> {
    provisioner: &'a Provisioner<'a>,
    spec: &'static TableSpec,
    name: &'a str,
    subject: CallSubject,
}

/// The settings of a table that differ; `None` if it is missing.
pub(super) async fn differing(
    provisioner: &Provisioner<'_>,
    spec: &'static TableSpec,
) -> Result<Option<Vec<String>>, ProvisionError> {
    let this = TableProvisioner::new(provisioner, spec);
    let Some(mut description) = this.describe().await? else { return Ok(None) };
    this.check_owner(&description).await?;
    if description.table_status() == Some(&TableStatus::Creating) {
        // Another run is creating it; it does not show its settings until it is usable.
        description = this.wait_until_usable().await?;
    }
    this.compare(&description).await.map(Some)
}

/// Creates a table; false if another run has created it meanwhile.
pub(super) async fn create(
    provisioner: &Provisioner<'_>,
    spec: &'static TableSpec,
) -> Result<bool, ProvisionError> {
    let this = TableProvisioner::new(provisioner, spec);
    let is_new = this.create().await?;
    this.wait_until_usable().await?;
    if is_new {
        this.set_expiry().await?;
        if spec.point_in_time_recovery {
            this.set_recovery().await?;
        }
    }
    Ok(is_new)
}

/// The variable that names a table.
fn variable(role: TableRole) -> &'static str {
    match role {
        TableRole::Archive => settings::TABLE,
        TableRole::Existence => settings::EXISTENCE_TABLE,
        TableRole::Claims => settings::CLAIMS_TABLE,
    }
}

impl<'a> TableProvisioner<'a> {
    fn new(provisioner: &'a Provisioner<'a>, spec: &'static TableSpec) -> Self {
        let name = provisioner.aws.names().table(spec.role);
        let subject = provisioner.aws.table_subject(name, variable(spec.role));
        Self { provisioner, spec, name, subject }
    }

    fn client(&self) -> &aws_sdk_dynamodb::Client {
        &self.provisioner.dynamodb
    }

    fn failed(&self, line: String) -> ProvisionError {
        ProvisionError::Failed(line)
    }

    async fn describe(&self) -> Result<Option<TableDescription>, ProvisionError> {
        match self.client().describe_table().table_name(self.name).send().await {
            Ok(found) => Ok(found.table),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(DescribeTableError::is_resource_not_found_exception) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.failed(self.subject.explain(&error))),
        }
    }

    async fn check_owner(&self, description: &TableDescription) -> Result<(), ProvisionError> {
        let arn = description.table_arn().unwrap_or_default();
        let mut page: Option<String> = None;
        let mut owner = None;
        loop {
            let request = self.client().list_tags_of_resource().resource_arn(arn).set_next_token(page);
            let found = request.send().await.map_err(|error| self.failed(self.subject.explain(&error)))?;
            owner = owner.or(found.tags.unwrap_or_default().into_iter().find(|tag| tag.key() == TAG));
            page = found.next_token;
            if owner.is_some() || page.is_none() {
                break;
            }
        }
        let owner = owner.as_ref().map(Tag::value);
        self.provisioner.check_tag(Resource::Table(self.spec), owner, variable(self.spec.role))
    }

    /// The settings that differ, with AWS's names.
    async fn compare(&self, description: &TableDescription) -> Result<Vec<String>, ProvisionError> {
        let spec = self.spec;
        let billing = description.billing_mode_summary().and_then(|summary| summary.billing_mode());
        let of_keys = key_attributes(spec);
        let mut defined = description.attribute_definitions().iter();
        let are_strings = defined.all(|defined| {
            !of_keys.contains(&defined.attribute_name())
                || *defined.attribute_type() == ScalarAttributeType::S
        });
        let has_keys = key_names(description.key_schema()) == keys(spec.partition_key, spec.sort_key);
        let has = |index: &IndexSpec| {
            description.global_secondary_indexes().iter().any(|found| {
                let projected = found.projection().and_then(Projection::projection_type);
                found.index_name() == Some(index.name)
                    && key_names(found.key_schema()) == keys(index.partition_key, Some(index.sort_key))
                    && projected == Some(&ProjectionType::KeysOnly)
            })
        };
        let settings = [
            ("KeySchema", has_keys && are_strings),
            ("BillingMode", billing == Some(&BillingMode::PayPerRequest)),
            ("GlobalSecondaryIndexes", spec.index.as_ref().is_none_or(has)),
            ("TimeToLive", self.expiry().await?.as_deref() == spec.ttl),
            // A longer recovery period that the operator has set does no harm.
            ("PointInTimeRecovery", !spec.point_in_time_recovery || self.is_recoverable().await?),
            // A store that does not support protection does not show it.
            ("DeletionProtectionEnabled", description.deletion_protection_enabled() != Some(false)),
        ];
        Ok(settings.into_iter().filter(|(_, agrees)| !agrees).map(|(name, _)| name.to_owned()).collect())
    }

    /// The attribute by which rows currently expire.
    async fn expiry(&self) -> Result<Option<String>, ProvisionError> {
        let response = self.client().describe_time_to_live().table_name(self.name).send().await;
        let found = response.map_err(|error| self.failed(self.subject.explain(&error)))?;
        let Some(found) = found.time_to_live_description else { return Ok(None) };
        let is_on = matches!(
            found.time_to_live_status(),
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        );
        Ok(found.attribute_name.filter(|_| is_on))
    }

    async fn is_recoverable(&self) -> Result<bool, ProvisionError> {
        let response = self.client().describe_continuous_backups().table_name(self.name).send().await;
        let found = response.map_err(|error| self.failed(self.subject.explain(&error)))?;
        let status = found
            .continuous_backups_description()
            .and_then(|found| found.point_in_time_recovery_description());
        let status = status.and_then(|found| found.point_in_time_recovery_status());
        Ok(status == Some(&PointInTimeRecoveryStatus::Enabled))
    }

    /// Creates the table; false if another run has created it meanwhile.
    async fn create(&self) -> Result<bool, ProvisionError> {
        let mut request = self
            .client()
            .create_table()
            .table_name(self.name)
            .billing_mode(BillingMode::PayPerRequest)
            .deletion_protection_enabled(true)
            .set_key_schema(Some(schema(self.spec.partition_key, self.spec.sort_key)?))
            .set_attribute_definitions(Some(definitions(self.spec)?))
            .tags(Tag::builder().key(TAG).value(self.provisioner.owner()).build().map_err(build_failed)?);
        if let Some(index) = &self.spec.index {
            let index = GlobalSecondaryIndex::builder()
                .index_name(index.name)
                .set_key_schema(Some(schema(index.partition_key, Some(index.sort_key))?))
                .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build());
            request = request.global_secondary_indexes(index.build().map_err(build_failed)?);
        }
        match request.send().await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some("ResourceInUseException") => Ok(false),
            Err(error) => Err(self.failed(self.subject.explain(&error))),
        }
    }

    /// Waits until the table and all its indexes are active.
    async fn wait_until_usable(&self) -> Result<TableDescription, ProvisionError> {
        let mut deadline = PollDeadline::after_minutes(WAIT_MINUTES);
        loop {
            // Right after its creation, the table may not be known everywhere yet.
            if let Some(description) = self.describe().await?
                && is_usable(&description)
            {
                return Ok(description);
            }
            if !deadline.wait().await {
                return Err(self.failed(format!(
                    "{} is not ready after {WAIT_MINUTES} minutes: check it in the AWS console, and run this again",
                    Resource::Table(self.spec).name(self.provisioner.aws)
                )));
            }
        }
    }

    /// Sets the attribute by which rows expire.
    async fn set_expiry(&self) -> Result<(), ProvisionError> {
        let Some(attribute) = self.spec.ttl else { return Ok(()) };
        let expiry = TimeToLiveSpecification::builder().enabled(true).attribute_name(attribute);
        let update = self.client().update_time_to_live().table_name(self.name);
        let update = update.time_to_live_specification(expiry.build().map_err(build_failed)?).send().await;
        update.map(drop).map_err(|error| self.failed(self.subject.explain(&error)))
    }

    async fn set_recovery(&self) -> Result<(), ProvisionError> {
        let recovery = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true);
        let recovery = recovery.build().map_err(build_failed)?;
        let mut deadline = PollDeadline::after_minutes(WAIT_MINUTES);
        loop {
            let update = self.client().update_continuous_backups().table_name(self.name);
            match update.point_in_time_recovery_specification(recovery.clone()).send().await {
                Ok(_) => return Ok(()),
                // A new table supports backups only some time after it becomes active.
                Err(error)
                    if code(&error) == Some("ContinuousBackupsUnavailableException")
                        && deadline.wait().await => {}
                Err(error) => return Err(self.failed(self.subject.explain(&error))),
            }
        }
    }
}

fn is_usable(description: &TableDescription) -> bool {
    let indexes = description.global_secondary_indexes();
    description.table_status() == Some(&TableStatus::Active)
        && indexes.iter().all(|index| index.index_status() == Some(&IndexStatus::Active))
}

/// The key attributes, the partition key first regardless of the order in `schema`.
fn key_names(schema: &[KeySchemaElement]) -> Vec<&str> {
    let of_kind = |kind: KeyType| schema.iter().filter(move |key| *key.key_type() == kind);
    of_kind(KeyType::Hash).chain(of_kind(KeyType::Range)).map(KeySchemaElement::attribute_name).collect()
}

fn schema(partition: &str, sort: Option<&str>) -> Result<Vec<KeySchemaElement>, ProvisionError> {
    let kinds = [KeyType::Hash, KeyType::Range];
    let keys = keys(partition, sort).into_iter().zip(kinds);
    keys.map(|(name, kind)| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().map_err(build_failed)
    })
    .collect()
}

fn definitions(spec: &TableSpec) -> Result<Vec<AttributeDefinition>, ProvisionError> {
    let define = |name| {
        let definition = AttributeDefinition::builder().attribute_name(name);
        definition.attribute_type(ScalarAttributeType::S).build().map_err(build_failed)
    };
    key_attributes(spec).into_iter().map(define).collect()
}
