//! Explains an AWS error in one line that says what to do.

use std::error::Error;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

/// The resource of a call, for error messages.
#[derive(Debug, Clone)]
pub struct CallSubject {
    /// `SQS`, `DynamoDB` or `S3`.
    pub service: &'static str,
    /// `queue annalist-events.fifo`.
    pub resource: String,
    /// The setting that names the resource.
    pub setting: &'static str,
    /// What to do if it does not exist: ``run `annalist provision` ``.
    pub to_create: &'static str,
    /// `eu-central-1`.
    pub region: String,
}

impl CallSubject {
    /// Explains an error in one line that says what to do.
    pub fn explain<E>(&self, error: &SdkError<E, HttpResponse>) -> String
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        match error {
            SdkError::ServiceError(context) => {
                self.refused(context.err().code(), context.err().message(), context.raw().status().as_u16())
            }
            SdkError::TimeoutError(_) => self.timed_out(),
            SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => {
                self.unsent(error)
            }
            _ => format!("{}: {}", self.service, root(error)),
        }
    }

    /// Explains that there was no response in time.
    pub fn timed_out(&self) -> String {
        let Self { service, resource, region, .. } = self;
        format!(
            "{service} in {region} did not answer in time ({resource}): if that lasts, check AWS_ENDPOINT_URL and \
             the network"
        )
    }

    /// Explains an error response of AWS.
    fn refused(&self, code: Option<&str>, message: Option<&str>, status: u16) -> String {
        let Self { service, resource, setting, to_create, region } = self;
        // Without the service's namespace, as in `AWS.SimpleQueueService.NonExistentQueue`.
        let code = code.map(|code| code.rsplit('.').next().unwrap_or(code));
        match (code, status) {
            (
                Some(
                    "NonExistentQueue"
                    | "QueueDoesNotExist"
                    | "ResourceNotFoundException"
                    | "NoSuchBucket"
                    | "NotFound",
                ),
                _,
            )
            | (None, 404) => format!(
                "{resource} does not exist in {region}: {to_create}, or set {setting} and AWS_REGION to where it is"
            ),
            (
                Some(
                    "InvalidClientTokenId"
                    | "UnrecognizedClientException"
                    | "InvalidAccessKeyId"
                    | "SignatureDoesNotMatch"
                    | "InvalidSignatureException"
                    | "InvalidSecurity"
                    | "IncompleteSignature"
                    | "MissingAuthenticationToken",
                ),
                _,
            ) => format!(
                "{service} refused the credentials ({}): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_PROFILE",
                code.unwrap_or_default()
            ),
            (Some("ExpiredToken" | "ExpiredTokenException" | "RequestExpired"), _) => {
                "the AWS credentials have expired: sign in again, or renew AWS_SESSION_TOKEN".to_owned()
            }
            (Some("AccessDenied" | "AccessDeniedException" | "Forbidden"), _) | (None, 403) => format!(
                "the AWS credentials may not use {resource}: give their role the permissions, or set {setting} to one \
                 it may use"
            ),
            (
                Some(
                    "PermanentRedirect"
                    | "AuthorizationHeaderMalformed"
                    | "IllegalLocationConstraintException",
                ),
                _,
            )
            | (None, 301 | 400) => {
                format!("{resource} is not in {region}: set AWS_REGION to its region")
            }
            (code, status) => {
                let message = message.map(|message| format!(": {message}")).unwrap_or_default();
                format!(
                    "{service} answered {}{message} ({resource})",
                    code.map_or(status.to_string(), str::to_owned)
                )
            }
        }
    }

    /// Explains a request that was not sent or got no response.
    fn unsent(&self, error: &(dyn Error + 'static)) -> String {
        let chain = chain(error);
        let Self { service, region, .. } = self;
        if chain.iter().any(|link| link.contains("credentials") || link.contains("identity")) {
            return format!(
                "there are no AWS credentials for {service}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_PROFILE, or run where a role is attached"
            );
        }
        format!(
            "cannot reach {service} in {region} ({}): check AWS_REGION, AWS_ENDPOINT_URL and the network",
            chain.last().map_or("no reason given", String::as_str)
        )
    }
}

fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut links = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        links.push(error.to_string());
        source = error.source();
    }
    links
}

fn root(error: &(dyn Error + 'static)) -> String {
    chain(error).pop().unwrap_or_default()
}
