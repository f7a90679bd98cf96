//! The bucket's policy: it denies requests without TLS. Other statements are left alone.

use serde_json::Value;

use super::bucket::{failed, name};
use super::{ProvisionError, Provisioner, code};
use aws_resources::resources::{LANGUAGE, STATEMENT, tls_only};

/// The bucket's new policy; `None` if the policy already has our statement.
pub(super) async fn policy(provisioner: &Provisioner<'_>) -> Result<Option<String>, ProvisionError> {
    let found = match provisioner.s3.get_bucket_policy().bucket(name(provisioner)).send().await {
        Ok(found) => found.policy,
        Err(error) if code(&error) == Some("NoSuchBucketPolicy") => None,
        Err(error) => return Err(failed(provisioner, &error)),
    };
    let partition = match provisioner.aws.region() {
        region if region.starts_with("cn-") => "aws-cn",
        region if region.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    };
    let arn = format!("arn:{partition}:s3:::{}", name(provisioner));
    let ours = tls_only(arn.clone().into(), format!("{arn}/*").into());
    with_statement(found.as_deref().unwrap_or("{}"), ours).map_err(|error| {
        ProvisionError::Failed(format!(
            "the policy of bucket {} cannot be read ({error}): correct it in the S3 console, and run this again",
            name(provisioner)
        ))
    })
}

/// Adds our statement to a policy; `None` if the policy already has it.
fn with_statement(found: &str, ours: Value) -> Result<Option<String>, serde_json::Error> {
    let mut policy: serde_json::Map<String, Value> = serde_json::from_str(found)?;
    // A single statement need not be in a list.
    let mut statements = match policy.remove("Statement") {
        Some(Value::Array(statements)) => statements,
        Some(statement) => vec![statement],
        None => Vec::new(),
    };
    if statements.contains(&ours) {
        return Ok(None);
    }
    statements.retain(|statement| statement["Sid"] != STATEMENT);
    statements.push(ours);
    policy.entry("Version").or_insert_with(|| LANGUAGE.into());
    policy.insert("Statement".to_owned(), statements.into());
    Ok(Some(Value::Object(policy).to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ours() -> Value {
        tls_only("arn:aws:s3:::b".into(), "arn:aws:s3:::b/*".into())
    }

    fn read(policy: &str) -> Value {
        serde_json::from_str(policy).unwrap()
    }

    #[test]
    fn a_policy_gets_our_statement_once_and_keeps_all_others() {
        let made = with_statement("{}", ours()).unwrap().unwrap();
        assert_eq!(read(&made), json!({ "Version": "2012-10-17", "Statement": [ours()] }));
        assert_eq!(with_statement(&made, ours()).unwrap(), None);

        let theirs = json!({ "Sid": "theirs", "Effect": "Allow" });
        let mut weaker = ours();
        weaker["Effect"] = "Allow".into();
        for statement in [theirs.clone(), json!([theirs]), json!([weaker, theirs])] {
            let found = json!({ "Version": "2008-10-17", "Id": "p", "Statement": statement }).to_string();
            let kept = with_statement(&found, ours()).unwrap().unwrap();
            let expected = json!({ "Version": "2008-10-17", "Id": "p", "Statement": [theirs, ours()] });
            assert_eq!(read(&kept), expected);
        }
        assert!(with_statement("no policy", ours()).is_err());
    }
}
