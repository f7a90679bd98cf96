//! `annalist mcp`: serves the archive to assistants with the Model Context Protocol, over standard input and
//! output. It only reads the archive.
//!
//! * [`input`] reads lines, [`http`] takes requests instead, [`server`] implements the protocol; [`tools`] defines the tools and their
//!   arguments.
//! * [`answers`] reads the archive; [`shown`] formats messages and limits the size of an answer.

mod answers;
pub(crate) mod http;
mod input;
mod server;
mod shown;
mod tools;

use std::sync::Arc;

use process::config::backend::{Backend, BackendArgs};
use process::config::zone::ZoneArgs;
use process::config::{self, IndexArgs};
use process::{shutdown, telemetry};
use rmcp::service::{self, ServerInitializeError};
use slack::ids::TeamId;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use crate::composition::wait_until_true;
use crate::read::team;
use crate::search::{SearchableArchive, index_file};
use crate::zone::Zone;
use answers::ToolAnswers;
use input::LineTransport;
use server::{CallReaders, MAX_CONCURRENT_CALLS, McpServer};

/// `annalist mcp`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct McpArgs {
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

/// Answers until the client closes standard input, or a signal comes.
pub(crate) fn run(args: &McpArgs) -> anyhow::Result<()> {
    let runtime = crate::runtime(&mut Builder::new_current_thread())?;
    // The protocol uses standard output, so the log goes to standard error, by default with warnings only.
    telemetry::init_log(config::log_filter_or("warn")?);
    let result =
        runtime.block_on(crate::with_archive(&args.backend, async |backend| serve(backend, args).await));
    // A thread may be blocked on standard input, and nothing can interrupt it.
    runtime.shutdown_background();
    result
}

async fn serve(backend: &Backend, args: &McpArgs) -> anyhow::Result<()> {
    let signalled = shutdown::on_signal()?;
    let zone = Zone::from_args(&args.zone);
    let index = index_file(&args.index, &args.backend)?;
    let searchable = SearchableArchive::new(backend, index, args.team.clone(), &zone);
    let transport = LineTransport::new(tokio::io::stdin(), tokio::io::stdout());
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
    let server = McpServer::new(CallReaders::Operator(ToolAnswers::new(searchable, zone)), permits);
    let running = tokio::select! {
        running = service::serve_server(server, transport) => running,
        () = wait_until_true(signalled.clone()) => return Ok(()),
    };
    let running = match running {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            anyhow::bail!("the client must begin with `initialize`: this is the Model Context Protocol")
        }
        Err(error) => return Err(error.into()),
    };
    let stop = running.cancellation_token();
    let mut ended = std::pin::pin!(running.waiting());
    tokio::select! {
        ended = &mut ended => ended?,
        () = wait_until_true(signalled) => {
            stop.cancel();
            ended.await?
        }
    };
    Ok(())
}
