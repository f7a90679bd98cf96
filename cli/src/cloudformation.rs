//! `annalist cloudformation`: prints a template with the AWS resources and with every part as a Lambda
//! function.

use std::io::Write;

#[cfg(feature = "aws")]
use process::config::aws::AwsArgs;
#[cfg(not(feature = "aws"))]
use process::config::{ConfigError, backend::BackendKind};

/// `annalist cloudformation`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CloudformationArgs {
    #[cfg(feature = "aws")]
    #[command(flatten)]
    pub(crate) aws: AwsArgs,
}

/// Fails: a build without AWS has no template.
#[cfg(not(feature = "aws"))]
pub(crate) fn print(_: &CloudformationArgs, _: &mut dyn Write) -> anyhow::Result<()> {
    Err(ConfigError::NotBuilt(BackendKind::Aws).into())
}

/// Prints the template. Sends no request to AWS.
#[cfg(feature = "aws")]
pub(crate) fn print(args: &CloudformationArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    out.write_all(aws_template::template_json(&args.aws.names()?).as_bytes())?;
    Ok(())
}

#[cfg(test)]
#[cfg(not(feature = "aws"))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_aws_returns_an_error_that_names_the_feature() {
        let error = print(&CloudformationArgs {}, &mut Vec::new()).unwrap_err();
        assert!(error.is::<ConfigError>() && error.to_string().contains("--features aws"), "{error}");
    }
}

#[cfg(test)]
#[cfg(feature = "aws")]
mod tests {
    use super::*;

    #[test]
    fn the_template_requires_a_bucket_name_and_contains_it() {
        let mut out = Vec::new();
        let mut args = CloudformationArgs { aws: AwsArgs::default() };
        let error = print(&args, &mut out).unwrap_err();
        assert!(error.to_string().contains("ANNALIST_BUCKET") && out.is_empty(), "{error}");
        args.aws.bucket = Some("acme-slack-archive".to_owned());
        print(&args, &mut out).unwrap();
        let template: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(template["Resources"]["Bucket"]["Properties"]["BucketName"], "acme-slack-archive");
    }
}
