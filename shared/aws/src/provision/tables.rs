//! Provisions tables: on demand, protected from deletion, with their index, their expiry and their backups.

use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::types::{
    BillingMode, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndex, GlobalSecondaryIndexUpdate,
    IndexStatus, PointInTimeRecoverySpecification, PointInTimeRecoveryStatus, Projection, ProjectionType,
    ScalarAttributeType, TableDescription, TableStatus, Tag, TimeToLiveSpecification, TimeToLiveStatus,
};

use super::deadline::PollDeadline;
use super::keys::{definitions, key_names, schema};
use super::{ProvisionError, ProvisionStep, Provisioner, ResourceChange, TAG, build_failed, code, step};
use aws_resources::names::settings;
use aws_resources::resources::{key_attributes, keys};
use ports::queue::topology::{IndexSpec, TableRole, TableSpec};
use s3::fault::CallSubject;

/// Long enough for a table, and for an index over a small table.
const WAIT_MINUTES: u64 = 5;

/// A table of this installation, with the settings that differ.
pub(super) struct FoundTable {
    differing: Vec<Setting>,
}

/// A setting that can be changed on an existing table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    Billing,
    Index,
    Expiry,
    Recovery,
    Protection,
}

impl Setting {
    /// AWS's name of the setting.
    fn label(self) -> &'static str {
        match self {
            Self::Billing => "BillingMode",
            Self::Protection => "DeletionProtectionEnabled",
            Self::Index => "GlobalSecondaryIndexes",
            Self::Expiry => "TimeToLive",
            Self::Recovery => "PointInTimeRecovery",
        }
    }
}

/// Provisions one table.
struct TableProvisioner<'a> {
    provisioner: &'a Provisioner<'a>,
    spec: &'static TableSpec,
    name: &'a str,
    subject: CallSubject,
}

/// Reads a table of the topology and compares it; `None` if it is missing.
pub(super) async fn inspect(
    provisioner: &Provisioner<'_>,
    spec: &'static TableSpec,
) -> Result<Option<FoundTable>, ProvisionError> {
    TableProvisioner::new(provisioner, spec).inspect().await
}

/// The planned step.
pub(super) fn planned(
    provisioner: &Provisioner<'_>,
    spec: &TableSpec,
    table: Option<&FoundTable>,
) -> ProvisionStep {
    let change = table.map_or(ResourceChange::Create, FoundTable::change);
    step(resource(provisioner.aws.names().table(spec.role)), change)
}

/// Creates a table or updates its settings.
pub(super) async fn apply(
    provisioner: &Provisioner<'_>,
    spec: &'static TableSpec,
    table: Option<FoundTable>,
) -> Result<ProvisionStep, ProvisionError> {
    let this = TableProvisioner::new(provisioner, spec);
    let (table, is_new) = match table {
        Some(table) => (table, false),
        None => {
            let is_new = this.create().await?;
            let description = this.wait_until_usable().await?;
            // If another run has created it meanwhile, it is inspected like any other.
            let table = if is_new { Some(this.compare(&description).await?) } else { this.inspect().await? };
            let gone = || this.failed(format!("{} was there and is gone: run it again", resource(this.name)));
            (table.ok_or_else(gone)?, is_new)
        }
    };
    for setting in &table.differing {
        this.set(*setting).await?;
    }
    Ok(step(resource(this.name), if is_new { ResourceChange::Create } else { table.change() }))
}

impl FoundTable {
    fn change(&self) -> ResourceChange {
        ResourceChange::from_settings(
            self.differing.iter().map(|setting| setting.label().to_owned()).collect(),
        )
    }
}

fn resource(name: &str) -> String {
    format!("table {name}")
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

    async fn inspect(&self) -> Result<Option<FoundTable>, ProvisionError> {
        let Some(mut description) = self.describe().await? else { return Ok(None) };
        self.check_owner(&description).await?;
        self.check_keys(&description)?;
        if description.table_status() == Some(&TableStatus::Creating) {
            // Another run is creating it; it does not show its settings until it is usable.
            description = self.wait_until_usable().await?;
        }
        Ok(Some(self.compare(&description).await?))
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
        self.provisioner.check_tag(&resource(self.name), owner, variable(self.spec.role))
    }

    /// Checks the keys, which can only be set when a table or an index is created.
    fn check_keys(&self, description: &TableDescription) -> Result<(), ProvisionError> {
        let unusable = |why: String, remedy: String| {
            Err(ProvisionError::Unusable { resource: resource(self.name), why, remedy })
        };
        let (expected, found) =
            (keys(self.spec.partition_key, self.spec.sort_key), key_names(description.key_schema()));
        let types = key_attributes(self.spec);
        let other_type = description.attribute_definitions().iter().find(|defined| {
            types.contains(&defined.attribute_name()) && *defined.attribute_type() != ScalarAttributeType::S
        });
        if found != expected || other_type.is_some() {
            let wrong = other_type.map_or_else(
                || format!("its keys are {}, not {}", found.join(" and "), expected.join(" and ")),
                |defined| format!("its key {} is not a string", defined.attribute_name()),
            );
            return unusable(wrong, format!("set {} to another name", variable(self.spec.role)));
        }
        let Some(index) = &self.spec.index else { return Ok(()) };
        let found = description
            .global_secondary_indexes()
            .iter()
            .find(|found| found.index_name() == Some(index.name));
        let Some(found) = found else { return Ok(()) };
        let only_keys =
            found.projection().and_then(Projection::projection_type) == Some(&ProjectionType::KeysOnly);
        if key_names(found.key_schema()) != keys(index.partition_key, Some(index.sort_key)) || !only_keys {
            return unusable(
                format!("its index {} has other keys or contains more than the keys", index.name),
                "delete the index, wait until it is gone, and run this again".to_owned(),
            );
        }
        Ok(())
    }

    /// Compares the table with the expected settings.
    async fn compare(&self, description: &TableDescription) -> Result<FoundTable, ProvisionError> {
        let mut differing = Vec::new();
        let billing = description.billing_mode_summary().and_then(|summary| summary.billing_mode());
        if billing != Some(&BillingMode::PayPerRequest) {
            differing.push(Setting::Billing);
        }
        let has = |index: &IndexSpec| {
            description.global_secondary_indexes().iter().any(|found| found.index_name() == Some(index.name))
        };
        if self.spec.index.as_ref().is_some_and(|index| !has(index)) {
            differing.push(Setting::Index);
        }
        if self.expiry().await?.as_deref() != self.spec.ttl {
            differing.push(Setting::Expiry);
        }
        // A longer recovery period that the operator has set does no harm.
        if self.spec.point_in_time_recovery && !self.is_recoverable().await? {
            differing.push(Setting::Recovery);
        }
        // Last: some DynamoDB resets it with each change of the table that does not name it. A store that does
        // not support protection does not show it.
        if description.deletion_protection_enabled() == Some(false) {
            differing.push(Setting::Protection);
        }
        Ok(FoundTable { differing })
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
                    resource(self.name)
                )));
            }
        }
    }

    /// Changes one setting. DynamoDB accepts one change at a time, and only while the table is active.
    async fn set(&self, setting: Setting) -> Result<(), ProvisionError> {
        self.wait_until_usable().await?;
        match setting {
            Setting::Billing => {
                let update = self.client().update_table().table_name(self.name);
                let result = update.billing_mode(BillingMode::PayPerRequest).send().await;
                result.map_err(|error| self.failed(self.subject.explain(&error)))?;
            }
            Setting::Protection => {
                let update = self.client().update_table().table_name(self.name);
                let result = update.deletion_protection_enabled(true).send().await;
                result.map_err(|error| self.failed(self.subject.explain(&error)))?;
            }
            Setting::Index => self.add_index().await?,
            Setting::Expiry => self.set_expiry().await?,
            Setting::Recovery => self.set_recovery().await?,
        }
        self.wait_until_usable().await.map(drop)
    }

    async fn add_index(&self) -> Result<(), ProvisionError> {
        let Some(index) = &self.spec.index else { return Ok(()) };
        let create = CreateGlobalSecondaryIndexAction::builder()
            .index_name(index.name)
            .set_key_schema(Some(schema(index.partition_key, Some(index.sort_key))?))
            .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build());
        let create = create.build().map_err(build_failed)?;
        let update = self
            .client()
            .update_table()
            .table_name(self.name)
            .set_attribute_definitions(Some(definitions(self.spec)?))
            .global_secondary_index_updates(GlobalSecondaryIndexUpdate::builder().create(create).build());
        update.send().await.map_err(|error| self.failed(self.subject.explain(&error)))?;
        Ok(())
    }

    /// Turns expiry on or off: a table that is kept forever must not lose rows.
    async fn set_expiry(&self) -> Result<(), ProvisionError> {
        let attribute = match self.spec.ttl {
            Some(attribute) => Some(attribute.to_owned()),
            None => self.expiry().await?,
        };
        let Some(attribute) = attribute else { return Ok(()) };
        let expiry =
            TimeToLiveSpecification::builder().enabled(self.spec.ttl.is_some()).attribute_name(attribute);
        let update = self.client().update_time_to_live().table_name(self.name);
        let update = update.time_to_live_specification(expiry.build().map_err(build_failed)?).send().await;
        update.map_err(|error| self.failed(self.subject.explain(&error)))?;
        Ok(())
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
