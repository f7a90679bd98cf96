//! The protocol's side: which tools there are, and what becomes of a call.

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

/// Calls that are answered at once; the others wait.
const AT_ONCE: usize = 4;

/// An error is one line, and no longer than this.
const MAX_ERROR_CHARS: usize = 500;

/// Answers an assistant.
pub(super) struct McpServer {
    answers: ToolAnswers,
    places: Semaphore,
}

impl McpServer {
    pub(super) fn new(answers: ToolAnswers) -> Self {
        Self { answers, places: Semaphore::new(AT_ONCE) }
    }

    /// What is wrong with a call is part of its result: the assistant reads it, and asks again.
    async fn answered(&self, call: anyhow::Result<ToolCall>) -> CallToolResult {
        let answer = match call {
            Ok(call) => {
                let place = self.places.acquire().await;
                let answer = self.answers.answer(call).await;
                drop(place);
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
            result = self.answered(call) => Ok(result.into()),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}
