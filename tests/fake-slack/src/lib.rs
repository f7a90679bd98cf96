//! A Slack without a socket or a clock: the state of workspaces, and what the Web API answers.
//!
//! [`SlackState::answer`] is a function of the state, a call and the time. What carries it (a socket, a transport in
//! memory), and what goes wrong on the way, is the caller's: the tests', the simulation's, the bench's and the demo's.
//!
//! * [`SlackState`] records the calls, plays scripted answers and counts calls against limits.
//! * [`FakeWorkspace`] is what one token sees: channels, people, bots, emoji, files, and how history is answered.
//! * [`ChannelHistory`] is what was said in a channel, told by events or set by a test.
//! * [`event`] makes the events that announce it.

mod answer;
mod conversations;
mod directory;
pub mod event;
mod history;
mod limits;
mod paging;
mod posting;
mod span;
mod state;
mod volatile;
mod workspace;

pub use answer::{SlackAnswer, refusal};
pub use history::ChannelHistory;
pub use state::{Call, SlackState};
pub use workspace::{FakeWorkspace, channel, person};
