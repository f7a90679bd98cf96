//! The only access to signals.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Becomes true at the first SIGTERM or SIGINT. A second one exits the process immediately, with the signal's
/// usual exit code, for a user who does not want to wait for the drain.
///
/// # Errors
/// If the system refuses to install a handler.
pub fn on_signal() -> std::io::Result<watch::Receiver<bool>> {
    let (send, shutdown) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for already_draining in [false, true] {
            let code = tokio::select! {
                _ = terminate.recv() => 143,
                _ = interrupt.recv() => 130,
            };
            if already_draining {
                #[expect(clippy::exit, reason = "a second signal skips the drain")]
                std::process::exit(code);
            }
            tracing::info!("draining: a second signal ends at once");
            send.send_replace(true);
        }
    });
    Ok(shutdown)
}
