//! `annalist cloudformation`: prints what AWS has to have, and every part as a function, as a template.

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

/// A build without AWS knows no template.
#[cfg(not(feature = "aws"))]
pub(crate) fn print(_: &CloudformationArgs, _: &mut dyn Write) -> anyhow::Result<()> {
    Err(ConfigError::NotBuilt(BackendKind::Aws).into())
}

/// Prints the template; nothing is asked of AWS.
#[cfg(feature = "aws")]
pub(crate) fn print(args: &CloudformationArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    out.write_all(aws_template::text(&args.aws.names()?).as_bytes())?;
    Ok(())
}

#[cfg(test)]
#[cfg(not(feature = "aws"))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_aws_says_so() {
        let refused = print(&CloudformationArgs {}, &mut Vec::new()).unwrap_err();
        assert!(refused.is::<ConfigError>() && refused.to_string().contains("--features aws"), "{refused}");
    }
}

#[cfg(test)]
#[cfg(feature = "aws")]
mod tests {
    use super::*;

    #[test]
    fn it_needs_a_bucket_and_then_prints_a_template_of_its_name() {
        let mut out = Vec::new();
        let mut args = CloudformationArgs { aws: AwsArgs::default() };
        let refused = print(&args, &mut out).unwrap_err();
        assert!(refused.to_string().contains("ANNALIST_BUCKET") && out.is_empty(), "{refused}");
        args.aws.bucket = Some("acme-slack-archive".to_owned());
        print(&args, &mut out).unwrap();
        let template: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(template["Resources"]["Bucket"]["Properties"]["BucketName"], "acme-slack-archive");
    }
}
