//! LocalStack in a container, where there is Docker.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use testcontainers::core::{IntoContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};

/// The last line of community releases that start without a token. `localstack/compose.yaml` has the same tag.
pub(super) const TAG: &str = "4.5.0";
const PORT: u16 = 4566;

/// A running container. It is removed when this process ends, however it ends.
#[derive(Debug)]
pub(super) struct LocalStack {
    pub(super) endpoint: String,
    _remover: Child,
}

impl LocalStack {
    /// Starts it, or says why it cannot.
    pub(super) fn start() -> Result<Self, String> {
        if !docker_answers() {
            return Err("Docker does not answer".to_owned());
        }
        let (sender, started) = mpsc::channel();
        // The container's handle needs a runtime as long as it lives, which is as long as this process.
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(sender.send(Err(error.to_string()))),
            };
            runtime.block_on(async {
                match run().await {
                    Ok((container, endpoint)) => {
                        drop(sender.send(Ok((container.id().to_owned(), endpoint))));
                        std::future::pending::<()>().await;
                    }
                    Err(error) => drop(sender.send(Err(error.to_string()))),
                }
            });
        });
        let (id, endpoint) = started.recv().map_err(|error| error.to_string())??;
        let remover = remover(&id).map_err(|error| error.to_string())?;
        Ok(Self { endpoint, _remover: remover })
    }

    pub(super) fn tag(&self) -> &'static str {
        TAG
    }
}

async fn run() -> Result<(ContainerAsync<GenericImage>, String), testcontainers::TestcontainersError> {
    let container = GenericImage::new("localstack/localstack", TAG)
        .with_exposed_port(PORT.tcp())
        .with_wait_for(WaitFor::message_on_stdout("Ready."))
        .with_env_var("SERVICES", "sqs,dynamodb,s3,cloudformation")
        .start()
        .await?;
    let endpoint =
        format!("http://{}:{}", container.get_host().await?, container.get_host_port_ipv4(PORT).await?);
    Ok((container, endpoint))
}

fn docker_answers() -> bool {
    let asked = Command::new("docker").args(["info", "--format", "{{.ServerVersion}}"]).output();
    asked.is_ok_and(|output| output.status.success())
}

/// A shell that removes the container as soon as this process no longer holds its standard input.
fn remover(id: &str) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", "cat > /dev/null; docker rm --force --volumes \"$0\" > /dev/null", id])
        .stdin(Stdio::piped())
        .spawn()
}
