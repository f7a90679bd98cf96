//! The id of this process instance.

/// The log stream of one instance of a function; Lambda gives each instance its own.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime>
const LOG_STREAM: &str = "AWS_LAMBDA_LOG_STREAM_NAME";

/// A unique id of this process: on Lambda the name of its log stream, otherwise its process id; plus a random
/// number, since both can repeat.
pub fn instance_id() -> String {
    let name = super::text(LOG_STREAM).unwrap_or_else(|| format!("process-{}", std::process::id()));
    format!("{name}/{:016x}", fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_id_is_unique() {
        assert_ne!(instance_id(), instance_id());
    }
}
