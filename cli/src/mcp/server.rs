//! The protocol handler: lists the tools and dispatches calls.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use axum::http::request::Parts;
use reader::access::Reader;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Extensions, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::Semaphore;
use viewer::{NOT_NOW, ReaderArchive};

use super::answers::ToolAnswers;
use super::tools::{self, ToolCall};
use crate::plain;
use crate::search::{SearchSource, SearchableArchive};
use crate::zone::Zone;

/// Maximum number of concurrent calls; further calls wait.
pub(super) const MAX_CONCURRENT_CALLS: usize = 4;

/// Maximum length of an error, which is one line.
const MAX_ERROR_CHARS: usize = 500;

/// Whose archive a call reads.
pub(super) enum CallReaders {
    /// That of whoever started this program.
    Operator(ToolAnswers),
    /// That of the reader of each request.
    OfRequests {
        /// The search index.
        search: Arc<SearchSource>,
        /// The zone of the times.
        zone: Zone,
    },
}

impl CallReaders {
    async fn answer(&self, call: ToolCall, extensions: &Extensions) -> anyhow::Result<Value> {
        let (search, zone) = match self {
            Self::Operator(answers) => return answers.answer(call).await,
            Self::OfRequests { search, zone } => (Arc::clone(search), zone.clone()),
        };
        let request = extensions.get::<Parts>().map(|parts| &parts.extensions);
        let reader =
            request.and_then(|request| Some((request.get::<Reader>()?, request.get::<ReaderArchive>()?)));
        let Some((reader, archive)) = reader else { bail!(NOT_NOW) };
        let sight = reader.sight.clone();
        let read = move |archive| async move {
            let searchable = SearchableArchive::for_reader(search, archive, sight, None, &zone);
            ToolAnswers::new(searchable, zone).answer(call).await
        };
        archive.read(read).await.unwrap_or_else(|| Err(anyhow!(NOT_NOW)))
    }
}

/// Answers the calls of an assistant.
pub(super) struct McpServer {
    readers: CallReaders,
    permits: Arc<Semaphore>,
}

impl McpServer {
    pub(super) fn new(readers: CallReaders, permits: Arc<Semaphore>) -> Self {
        Self { readers, permits }
    }

    /// Answers a call. Errors are part of the result, so that the assistant reads them and can try again.
    async fn answer_call(&self, call: anyhow::Result<ToolCall>, extensions: &Extensions) -> CallToolResult {
        let answer = match call {
            Ok(call) => {
                let permit = self.permits.acquire().await;
                let answer = self.readers.answer(call, extensions).await;
                drop(permit);
                answer
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(value) => CallToolResult::structured(value),
            Err(error) => {
                let line = plain::excerpt(&format!("{error:#}"), MAX_ERROR_CHARS);
                CallToolResult::error(vec![ContentBlock::text(line)])
            }
        }
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("annalist", crate::VERSION))
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let Some(call) = ToolCall::read(&request.name, arguments) else {
            let name = plain::excerpt(&request.name, 80);
            return Err(ErrorData::invalid_params(format!("there is no tool {name}"), None));
        };
        tokio::select! {
            result = self.answer_call(call, &context.extensions) => Ok(result.into()),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}
