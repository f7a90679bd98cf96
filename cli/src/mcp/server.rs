//! The protocol handler: lists the tools and dispatches calls.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::Semaphore;

use super::answers::ToolAnswers;
use super::tools::{self, ToolCall};
use crate::plain;

/// Maximum number of concurrent calls; further calls wait.
const MAX_CONCURRENT_CALLS: usize = 4;

/// Maximum length of an error, which is one line.
const MAX_ERROR_CHARS: usize = 500;

/// Answers the calls of an assistant.
pub(super) struct McpServer {
    answers: ToolAnswers,
    permits: Semaphore,
}

impl McpServer {
    pub(super) fn new(answers: ToolAnswers) -> Self {
        Self { answers, permits: Semaphore::new(MAX_CONCURRENT_CALLS) }
    }

    /// Answers a call. Errors are part of the result, so that the assistant reads them and can try again.
    async fn answer_call(&self, call: anyhow::Result<ToolCall>) -> CallToolResult {
        let answer = match call {
            Ok(call) => {
                let permit = self.permits.acquire().await;
                let answer = self.answers.answer(call).await;
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
            result = self.answer_call(call) => Ok(result.into()),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}
