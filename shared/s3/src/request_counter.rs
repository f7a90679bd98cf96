//! Counts every request to AWS, retries included: each one is billed.

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use metrics::counter;

use ports::metrics::AWS_REQUESTS;

/// The interceptor of every client.
#[derive(Debug)]
pub struct RequestCounter;

impl Intercept for RequestCounter {
    fn name(&self) -> &'static str {
        "RequestCounter"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(metadata) = config.load::<Metadata>() {
            let (service, operation) = (metadata.service().to_owned(), metadata.name().to_owned());
            counter!(AWS_REQUESTS, "service" => service, "operation" => operation).increment(1);
        }
        Ok(())
    }
}
