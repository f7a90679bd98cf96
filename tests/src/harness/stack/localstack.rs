//! LocalStack in a container, if there is Docker.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::core::{IntoContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt, TestcontainersError};

/// From the last line of community releases that start without a token. `localstack/compose.yaml` has the
/// same tag.
pub(super) const TAG: &str = "4.5.0";
/// The port on which it listens in the container.
const PORT: u16 = 4566;
/// Maximum time to start. A busy machine needs half of this.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running container. It is removed when this process ends, however it ends.
#[derive(Debug)]
pub(super) struct LocalStack {
    pub(super) endpoint: String,
    _remover: Child,
}

impl LocalStack {
    /// Starts a container and waits until it is ready; the error tells why it cannot start.
    pub(super) fn start() -> Result<Self, String> {
        docker_version()?;
        let name = format!("annalist-tests-{}-{:08x}", std::process::id(), fastrand::u32(..));
        // Before the container is created, so that nothing stays of a start that was interrupted.
        let remover = remover(&name).map_err(|error| error.to_string())?;
        let (sender, started) = mpsc::channel();
        // The container's handle needs a runtime as long as it lives, which is as long as this process.
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(sender.send(Err(error.to_string()))),
            };
            runtime.block_on(async {
                match run(name).await {
                    Ok((_container, endpoint)) => {
                        drop(sender.send(Ok(endpoint)));
                        std::future::pending::<()>().await;
                    }
                    Err(error) => drop(sender.send(Err(error.to_string()))),
                }
            });
        });
        let endpoint = started.recv().map_err(|error| error.to_string())??;
        Ok(Self { endpoint, _remover: remover })
    }

    pub(super) fn tag(&self) -> &'static str {
        TAG
    }
}

async fn run(name: String) -> Result<(ContainerAsync<GenericImage>, String), TestcontainersError> {
    let container = GenericImage::new("localstack/localstack", TAG)
        .with_exposed_port(PORT.tcp())
        .with_wait_for(WaitFor::message_on_stdout("Ready."))
        .with_container_name(name)
        .with_env_var("SERVICES", super::SERVICES)
        .with_startup_timeout(START_TIMEOUT)
        .with_host_config_modifier(publish_to_this_machine)
        .start()
        .await?;
    let port = container.get_host_port_ipv4(PORT).await?;
    Ok((container, format!("http://127.0.0.1:{port}")))
}

/// LocalStack checks no credentials: only this machine may reach it.
fn publish_to_this_machine(host: &mut HostConfig) {
    let binding = PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: None };
    host.publish_all_ports = Some(false);
    host.port_bindings = Some(HashMap::from([(PORT.tcp().to_string(), Some(vec![binding]))]));
}

/// The version of Docker's engine, or why it does not answer. A search for an image without Docker would end
/// in a less helpful error.
fn docker_version() -> Result<String, String> {
    let arguments = ["info", "--format", "{{.ServerVersion}}"];
    let output =
        Command::new("docker").args(arguments).output().map_err(|error| format!("docker: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("docker info: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A shell that removes the container of this name as soon as this process no longer holds its standard input.
fn remover(name: &str) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", "cat > /dev/null; docker rm --force --volumes \"$0\" > /dev/null 2>&1", name])
        .stdin(Stdio::piped())
        .spawn()
}
