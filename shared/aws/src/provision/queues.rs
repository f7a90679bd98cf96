//! Queues. A queue refers to its dead-letter queue, which exists before it.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use super::deadline::PollDeadline;
use super::{ProvisionError, Provisioner, Resource, TAG, code};
use aws_resources::names::settings;
use aws_resources::resources::{dead_letter_attributes, queue_attributes};
use ports::queue::QueueRef;
use s3::fault::CallSubject;

type SqsAttributes = HashMap<QueueAttributeName, String>;
/// The attributes of a queue and their values; the template sets the same.
type QueueSettings = Vec<(QueueAttributeName, String)>;

/// The settings of a queue that differ; `None` if it is missing.
pub(super) async fn differing(
    provisioner: &Provisioner<'_>,
    queue: QueueRef,
) -> Result<Option<Vec<String>>, ProvisionError> {
    let Some((url, shown)) = find(provisioner, queue).await? else { return Ok(None) };
    let tags = provisioner.sqs.list_queue_tags().queue_url(&url).send().await;
    let explain = |error| ProvisionError::Failed(subject(provisioner, queue).explain(&error));
    let tags = tags.map_err(explain)?.tags.unwrap_or_default();
    let tag = tags.get(TAG).map(String::as_str);
    provisioner.check_tag(Resource::Queue(queue), tag, settings::PREFIX)?;
    // The dead letters are in the account of the queue.
    let account = arn(&shown).rsplit_once(':').unwrap_or_default().0;
    let dead_letters = provisioner.aws.names().queue(QueueRef::dead_letters(queue.name));
    Ok(Some(differing_from(&expected(queue, &format!("{account}:{dead_letters}")), &shown)))
}

/// Creates a queue; false if another run has created it meanwhile with other settings.
pub(super) async fn create(provisioner: &Provisioner<'_>, queue: QueueRef) -> Result<bool, ProvisionError> {
    let dead_letters = match queue.dead_letters {
        true => String::new(),
        false => arn_of_new(provisioner, QueueRef::dead_letters(queue.name)).await?,
    };
    let mut request = provisioner
        .sqs
        .create_queue()
        .queue_name(provisioner.aws.names().queue(queue))
        .tags(TAG, provisioner.owner())
        .attributes(QueueAttributeName::FifoQueue, "true");
    for (name, value) in expected(queue, &dead_letters) {
        request = request.attributes(name, value);
    }
    match request.send().await {
        Ok(_) => Ok(true),
        Err(error) if matches!(code(&error), Some("QueueNameExists" | "QueueAlreadyExists")) => Ok(false),
        Err(error) => Err(ProvisionError::Failed(subject(provisioner, queue).explain(&error))),
    }
}

fn subject(provisioner: &Provisioner<'_>, queue: QueueRef) -> CallSubject {
    provisioner.aws.queue_subject(&provisioner.aws.names().queue(queue))
}

fn arn(shown: &SqsAttributes) -> &str {
    shown.get(&QueueAttributeName::QueueArn).map_or("", String::as_str)
}

/// The settings of a queue, with the ARN of its dead-letter queue.
fn expected(queue: QueueRef, dead_letters: &str) -> QueueSettings {
    let attributes = match queue.dead_letters {
        true => dead_letter_attributes(queue.name.spec()),
        false => queue_attributes(queue.name.spec(), dead_letters),
    };
    attributes.into_iter().map(|(name, value)| (QueueAttributeName::from(name), value)).collect()
}

/// The settings that differ. A setting that is not shown differs as well: a queue without a redrive policy
/// does not show one.
fn differing_from(expected: &QueueSettings, shown: &SqsAttributes) -> Vec<String> {
    // The operator's own key is a stronger choice than that of SQS, and excludes it.
    let has_key = shown.get(&QueueAttributeName::KmsMasterKeyId).is_some_and(|key| !key.is_empty());
    let is_correct = |(name, value): &&(QueueAttributeName, String)| {
        (*name == QueueAttributeName::SqsManagedSseEnabled && has_key)
            || shown.get(name).is_some_and(|shown| {
                shown == value
                    || (*name == QueueAttributeName::RedrivePolicy && redrive(shown) == redrive(value))
            })
    };
    expected.iter().filter(|setting| !is_correct(setting)).map(|(name, _)| name.as_str().to_owned()).collect()
}

/// The target of dead letters and the maximum receive count. SQS returns the count as a number or as text,
/// and the members in any order.
fn redrive(policy: &str) -> Option<(String, u64)> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    let count = &policy["maxReceiveCount"];
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    Some((policy["deadLetterTargetArn"].as_str()?.to_owned(), count))
}

/// The URL and the attributes of a queue; `None` if it is missing.
async fn find(
    provisioner: &Provisioner<'_>,
    queue: QueueRef,
) -> Result<Option<(String, SqsAttributes)>, ProvisionError> {
    let is_missing = |code| matches!(code, Some("NonExistentQueue" | "QueueDoesNotExist"));
    let subject = subject(provisioner, queue);
    let name = provisioner.aws.names().queue(queue);
    let url = match provisioner.sqs.get_queue_url().queue_name(&name).send().await {
        Ok(found) => found.queue_url.unwrap_or_default(),
        Err(error) if is_missing(code(&error)) => return Ok(None),
        Err(error) => return Err(ProvisionError::Failed(subject.explain(&error))),
    };
    let request = provisioner.sqs.get_queue_attributes().queue_url(&url);
    match request.attribute_names(QueueAttributeName::All).send().await {
        Ok(found) => Ok(Some((url, found.attributes.unwrap_or_default()))),
        Err(error) if is_missing(code(&error)) => Ok(None),
        Err(error) => Err(ProvisionError::Failed(subject.explain(&error))),
    }
}

/// The ARN of a queue that may be new: SQS may not know it everywhere yet.
async fn arn_of_new(provisioner: &Provisioner<'_>, queue: QueueRef) -> Result<String, ProvisionError> {
    let mut deadline = PollDeadline::after_minutes(1);
    loop {
        if let Some((_, shown)) = find(provisioner, queue).await? {
            return Ok(arn(&shown).to_owned());
        }
        if !deadline.wait().await {
            let name = provisioner.aws.names().queue(queue);
            return Err(ProvisionError::Failed(format!("queue {name} was there and is gone: run it again")));
        }
    }
}

#[cfg(test)]
mod tests {
    use ports::queue::QueueName;

    use super::*;

    const ARN: &str = "arn:aws:sqs:eu-central-1:1:annalist-events-dlq.fifo";

    fn shown(settings: &QueueSettings) -> SqsAttributes {
        settings.iter().cloned().collect()
    }

    #[test]
    fn a_redrive_policy_is_compared_by_its_meaning() {
        let expected = expected(QueueName::Events.into(), ARN);
        let with = |policy: String| {
            let mut shown = shown(&expected);
            shown.insert(QueueAttributeName::RedrivePolicy, policy);
            differing_from(&expected, &shown)
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
        let expected = expected(QueueRef::dead_letters(QueueName::Events), "");
        let mut shown = shown(&expected);
        shown.insert(QueueAttributeName::SqsManagedSseEnabled, "false".to_owned());
        assert_eq!(differing_from(&expected, &shown), ["SqsManagedSseEnabled"]);
        shown.insert(QueueAttributeName::KmsMasterKeyId, "alias/mine".to_owned());
        assert!(differing_from(&expected, &shown).is_empty());
    }

    #[test]
    fn a_dead_letter_queue_has_no_delay() {
        let delay = |settings: QueueSettings| shown(&settings)[&QueueAttributeName::DelaySeconds].clone();
        assert_eq!(delay(expected(QueueName::Stats.into(), ARN)), "90");
        assert_eq!(delay(expected(QueueRef::dead_letters(QueueName::Stats), "")), "0");
    }
}
