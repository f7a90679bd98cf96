//! Provisions queues, each after its dead-letter queue, because the queue refers to that.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use super::deadline::PollDeadline;
use super::{ProvisionError, ProvisionStep, Provisioner, ResourceChange, TAG, code, step};
use aws_resources::names::settings;
use aws_resources::resources::{dead_letter_attributes, queue_attributes};
use ports::queue::topology::QueueSpec;
use ports::queue::{QueueName, QueueRef};
use s3::fault::CallSubject;

/// A queue and its dead-letter queue, if they exist.
pub(super) struct QueuePair {
    name: QueueName,
    dead_letters: Option<Existing>,
    queue: Option<Existing>,
}

type SqsAttributes = HashMap<QueueAttributeName, String>;
/// The attributes to set and their values; the template sets the same.
type QueueSettings = Vec<(QueueAttributeName, String)>;

struct Existing {
    url: String,
    attributes: SqsAttributes,
}

/// Reads a queue of the topology and its dead-letter queue.
pub(super) async fn inspect(
    provisioner: &Provisioner<'_>,
    name: QueueName,
) -> Result<QueuePair, ProvisionError> {
    let dead_letters = find_queue(provisioner, QueueRef::dead_letters(name)).await?;
    let queue = find_queue(provisioner, name.into()).await?;
    Ok(QueuePair { name, dead_letters, queue })
}

impl QueuePair {
    pub(super) fn planned(&self, provisioner: &Provisioner<'_>) -> Vec<ProvisionStep> {
        let spec = self.name.spec();
        let dead_letters = QueueRef::dead_letters(self.name);
        // A missing dead-letter queue will be created in the account of the queue.
        let arn_parts = self.queue.as_ref().and_then(Existing::arn).and_then(|arn| arn.rsplit_once(':'));
        let arn = match &self.dead_letters {
            Some(existing) => existing.arn().map(str::to_owned),
            None => arn_parts
                .map(|(account, _)| format!("{account}:{}", provisioner.aws.names().queue(dead_letters))),
        };
        let planned = |queue, existing: &Option<Existing>, expected: QueueSettings| {
            let change = existing.as_ref().map_or(ResourceChange::Create, |existing| {
                ResourceChange::from_settings(labels(&differing(&expected, &existing.attributes)))
            });
            step(resource(&provisioner.aws.names().queue(queue)), change)
        };
        vec![
            planned(dead_letters, &self.dead_letters, dead_letter_settings(spec)),
            planned(self.name.into(), &self.queue, queue_settings(spec, arn.as_deref().unwrap_or_default())),
        ]
    }

    pub(super) async fn apply(
        self,
        provisioner: &Provisioner<'_>,
        steps: &mut Vec<ProvisionStep>,
    ) -> Result<(), ProvisionError> {
        let spec = self.name.spec();
        let known = self.dead_letters.as_ref().and_then(Existing::arn).map(str::to_owned);
        let dead_letters = QueueRef::dead_letters(self.name);
        let (done, url) =
            create_or_update(provisioner, dead_letters, self.dead_letters, dead_letter_settings(spec))
                .await?;
        steps.push(done);
        let arn = match known {
            Some(arn) => arn,
            None => arn_of_new(provisioner, dead_letters, &url).await?,
        };
        let (done, _) =
            create_or_update(provisioner, self.name.into(), self.queue, queue_settings(spec, &arn)).await?;
        steps.push(done);
        Ok(())
    }
}

impl Existing {
    fn arn(&self) -> Option<&str> {
        self.attributes.get(&QueueAttributeName::QueueArn).map(String::as_str)
    }
}

/// The settings of a queue, with the ARN of its dead-letter queue.
fn queue_settings(spec: &QueueSpec, dead_letters: &str) -> QueueSettings {
    named(queue_attributes(spec, dead_letters))
}

fn dead_letter_settings(spec: &QueueSpec) -> QueueSettings {
    named(dead_letter_attributes(spec))
}

fn named(attributes: Vec<(&'static str, String)>) -> QueueSettings {
    attributes.into_iter().map(|(name, value)| (QueueAttributeName::from(name), value)).collect()
}

/// The settings that differ. A setting that is not shown differs as well: a queue without a redrive policy
/// does not show one.
fn differing(expected: &QueueSettings, shown: &SqsAttributes) -> QueueSettings {
    // The operator's own key is a stronger choice than that of SQS, and excludes it.
    let has_key = shown.get(&QueueAttributeName::KmsMasterKeyId).is_some_and(|key| !key.is_empty());
    let is_correct = |(name, value): &&(QueueAttributeName, String)| {
        (*name == QueueAttributeName::SqsManagedSseEnabled && has_key)
            || shown.get(name).is_some_and(|shown| {
                shown == value
                    || (*name == QueueAttributeName::RedrivePolicy && redrive(shown) == redrive(value))
            })
    };
    expected.iter().filter(|setting| !is_correct(setting)).cloned().collect()
}

/// The target of dead letters and the maximum receive count. SQS returns the count as a number or as text,
/// and the members in any order.
fn redrive(policy: &str) -> Option<(String, u64)> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    let count = &policy["maxReceiveCount"];
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    Some((policy["deadLetterTargetArn"].as_str()?.to_owned(), count))
}

fn labels(settings: &QueueSettings) -> Vec<String> {
    settings.iter().map(|(name, _)| name.as_str().to_owned()).collect()
}

fn resource(name: &str) -> String {
    format!("queue {name}")
}

/// Reads a queue of this installation; `None` if it is missing.
async fn find_queue(
    provisioner: &Provisioner<'_>,
    queue: QueueRef,
) -> Result<Option<Existing>, ProvisionError> {
    let name = provisioner.aws.names().queue(queue);
    let subject = provisioner.aws.queue_subject(&name);
    let failed = |line| ProvisionError::Failed(line);
    let url = match provisioner.sqs.get_queue_url().queue_name(&name).send().await {
        Ok(found) => found.queue_url.unwrap_or_default(),
        Err(error) if is_missing(code(&error)) => return Ok(None),
        Err(error) => return Err(failed(subject.explain(&error))),
    };
    let tags = provisioner.sqs.list_queue_tags().queue_url(&url).send().await;
    let tags = tags.map_err(|error| failed(subject.explain(&error)))?.tags.unwrap_or_default();
    provisioner.check_tag(&resource(&name), tags.get(TAG).map(String::as_str), settings::PREFIX)?;
    let attributes = attributes(provisioner, &subject, &url).await?;
    Ok(Some(Existing { url, attributes }))
}

fn is_missing(code: Option<&str>) -> bool {
    matches!(code, Some("NonExistentQueue" | "QueueDoesNotExist"))
}

async fn attributes(
    provisioner: &Provisioner<'_>,
    subject: &CallSubject,
    url: &str,
) -> Result<SqsAttributes, ProvisionError> {
    let request = provisioner.sqs.get_queue_attributes().queue_url(url);
    match request.attribute_names(QueueAttributeName::All).send().await {
        Ok(found) => Ok(found.attributes.unwrap_or_default()),
        Err(error) => Err(ProvisionError::Failed(subject.explain(&error))),
    }
}

/// Creates a queue or updates its settings. Returns the step and the queue's URL.
async fn create_or_update(
    provisioner: &Provisioner<'_>,
    queue: QueueRef,
    existing: Option<Existing>,
    expected: QueueSettings,
) -> Result<(ProvisionStep, String), ProvisionError> {
    let name = provisioner.aws.names().queue(queue);
    let subject = provisioner.aws.queue_subject(&name);
    let existing = match existing {
        Some(existing) => existing,
        None => {
            if let Some(url) = create(provisioner, &subject, &name, &expected).await? {
                return Ok((step(resource(&name), ResourceChange::Create), url));
            }
            find_queue(provisioner, queue).await?.ok_or_else(|| {
                ProvisionError::Failed(format!("{} was there and is gone: run it again", resource(&name)))
            })?
        }
    };
    let changed = update(provisioner, &subject, &existing, &expected).await?;
    Ok((step(resource(&name), ResourceChange::from_settings(changed)), existing.url))
}

/// Creates a queue and returns its URL; `None` if another run has created it meanwhile with other settings.
async fn create(
    provisioner: &Provisioner<'_>,
    subject: &CallSubject,
    name: &str,
    expected: &QueueSettings,
) -> Result<Option<String>, ProvisionError> {
    let mut request = provisioner
        .sqs
        .create_queue()
        .queue_name(name)
        .tags(TAG, provisioner.owner())
        .attributes(QueueAttributeName::FifoQueue, "true");
    for (name, value) in expected {
        request = request.attributes(name.clone(), value);
    }
    match request.send().await {
        Ok(created) => Ok(Some(created.queue_url.unwrap_or_default())),
        Err(error) if matches!(code(&error), Some("QueueNameExists" | "QueueAlreadyExists")) => Ok(None),
        Err(error) => Err(ProvisionError::Failed(subject.explain(&error))),
    }
}

/// Updates the settings that differ, and returns those that changed. A setting that is not shown even after
/// the update is not supported by an emulator: it does not count as a change, otherwise every run would
/// report one.
async fn update(
    provisioner: &Provisioner<'_>,
    subject: &CallSubject,
    existing: &Existing,
    expected: &QueueSettings,
) -> Result<Vec<String>, ProvisionError> {
    let mut differing = differing(expected, &existing.attributes);
    if differing.is_empty() {
        return Ok(Vec::new());
    }
    let request = provisioner.sqs.set_queue_attributes().queue_url(&existing.url);
    let request = request.set_attributes(Some(differing.iter().cloned().collect()));
    request.send().await.map_err(|error| ProvisionError::Failed(subject.explain(&error)))?;
    if differing.iter().any(|(name, _)| !existing.attributes.contains_key(name)) {
        let shown = attributes(provisioner, subject, &existing.url).await?;
        differing.retain(|(name, _)| existing.attributes.contains_key(name) || shown.contains_key(name));
    }
    Ok(labels(&differing))
}

/// Returns the ARN of a new queue. SQS may not know the queue everywhere yet.
async fn arn_of_new(
    provisioner: &Provisioner<'_>,
    queue: QueueRef,
    url: &str,
) -> Result<String, ProvisionError> {
    let subject = provisioner.aws.queue_subject(&provisioner.aws.names().queue(queue));
    let mut deadline = PollDeadline::after_minutes(1);
    loop {
        let request = provisioner.sqs.get_queue_attributes().queue_url(url);
        match request.attribute_names(QueueAttributeName::QueueArn).send().await {
            Ok(found) => {
                let arn = found.attributes.and_then(|mut shown| shown.remove(&QueueAttributeName::QueueArn));
                return arn.ok_or_else(|| {
                    ProvisionError::Failed(format!("SQS did not return the ARN of {url}: run it again"))
                });
            }
            Err(error) if is_missing(code(&error)) && deadline.wait().await => {}
            Err(error) => return Err(ProvisionError::Failed(subject.explain(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:sqs:eu-central-1:1:annalist-events-dlq.fifo";

    fn shown(settings: &QueueSettings) -> SqsAttributes {
        settings.iter().cloned().collect()
    }

    #[test]
    fn a_redrive_policy_is_compared_by_its_meaning() {
        let expected = queue_settings(QueueName::Events.spec(), ARN);
        let with = |policy: String| {
            let mut shown = shown(&expected);
            shown.insert(QueueAttributeName::RedrivePolicy, policy);
            labels(&differing(&expected, &shown))
        };
        for same in [
            format!(r#"{{"maxReceiveCount":1000,"deadLetterTargetArn":"{ARN}"}}"#),
            format!(r#"{{ "deadLetterTargetArn" : "{ARN}", "maxReceiveCount" : "1000" }}"#),
        ] {
            assert_eq!(with(same), Vec::<String>::new());
        }
        for other in [
            format!(r#"{{"deadLetterTargetArn":"{ARN}x","maxReceiveCount":1000}}"#),
            format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":999}}"#),
            format!(r#"{{"deadLetterTargetArn":"{ARN}"}}"#),
            "nonsense".to_owned(),
            String::new(),
        ] {
            assert_eq!(with(other), ["RedrivePolicy"]);
        }
    }

    #[test]
    fn the_operators_own_key_is_kept() {
        let expected = dead_letter_settings(QueueName::Events.spec());
        let mut shown = shown(&expected);
        shown.insert(QueueAttributeName::SqsManagedSseEnabled, "false".to_owned());
        assert_eq!(labels(&differing(&expected, &shown)), ["SqsManagedSseEnabled"]);
        shown.insert(QueueAttributeName::KmsMasterKeyId, "alias/mine".to_owned());
        assert!(differing(&expected, &shown).is_empty());
    }

    #[test]
    fn a_dead_letter_queue_has_no_delay() {
        let delay = |settings: QueueSettings| shown(&settings)[&QueueAttributeName::DelaySeconds].clone();
        assert_eq!(delay(queue_settings(QueueName::Stats.spec(), ARN)), "90");
        assert_eq!(delay(dead_letter_settings(QueueName::Stats.spec())), "0");
    }
}
