//! The states of a question, of its answer and of each part of the answer: registers that only grow, so that
//! redelivery and concurrent workers lead to the same state. A new attempt is a new generation, which is
//! greater than all states of the one before.

use slack::ids::Ts;

/// A stage of a question, or of its answer. The order is that of the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkStage {
    /// It is waiting.
    Pending,
    /// A worker is processing it.
    Working,
    /// It failed, and waits for an operator.
    Failed,
    /// It is done.
    Finished,
}

/// The kind of row that has stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackedKind {
    /// A question: `pending`, `processing`, `error`, `processed`.
    Question,
    /// An answer: `pending`, `sending`, `error`, `sent`.
    Answer,
}

impl TrackedKind {
    /// The name of a stage.
    #[must_use]
    pub fn label(self, stage: WorkStage) -> &'static str {
        match (self, stage) {
            (_, WorkStage::Pending) => "pending",
            (Self::Question, WorkStage::Working) => "processing",
            (Self::Question, WorkStage::Finished) => "processed",
            (Self::Answer, WorkStage::Working) => "sending",
            (Self::Answer, WorkStage::Finished) => "sent",
            (_, WorkStage::Failed) => "error",
        }
    }
}

/// The state of a question or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkState {
    /// How often it was restarted.
    pub generation: u32,
    pub stage: WorkStage,
}

impl WorkState {
    /// The initial state.
    pub const NEW: Self = Self { generation: 0, stage: WorkStage::Pending };

    /// The state as a register: `000000/1/pending`.
    #[must_use]
    pub fn register(self, kind: TrackedKind) -> String {
        let rank = match self.stage {
            WorkStage::Pending => 1,
            WorkStage::Working => 2,
            WorkStage::Failed => 3,
            WorkStage::Finished => 4,
        };
        format!("{:06}/{rank}/{}", self.generation, kind.label(self.stage))
    }

    /// Reads a register. An unreadable one is treated as new: then the guard of a write decides.
    pub fn read(register: Option<&str>) -> Self {
        let parts = || {
            let mut parts = register?.split('/');
            let generation = parts.next()?.parse().ok()?;
            let stage = match parts.next()? {
                "1" => WorkStage::Pending,
                "2" => WorkStage::Working,
                "3" => WorkStage::Failed,
                "4" => WorkStage::Finished,
                _ => return None,
            };
            Some(Self { generation, stage })
        };
        parts().unwrap_or(Self::NEW)
    }

    /// Whether no worker continues it automatically.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self.stage, WorkStage::Failed | WorkStage::Finished)
    }

    /// The same generation at another stage.
    #[must_use]
    pub fn with_stage(self, stage: WorkStage) -> Self {
        Self { stage, ..self }
    }

    #[must_use]
    pub fn next_generation(self) -> Self {
        Self { generation: self.generation + 1, stage: WorkStage::Pending }
    }
}

/// The state of a part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartState {
    /// No attempt was made.
    New,
    /// Slack refused each attempt before this one, so the part was certainly not posted.
    Refused(u32),
    /// This attempt is about to post it or has posted it: only Slack knows.
    Sending(u32),
    /// It was posted as this message.
    Sent(Ts),
}

impl PartState {
    /// Reads a register. If it is unreadable, the part may have been sent, and the poster searches Slack for
    /// it.
    pub fn read(register: Option<&str>) -> Self {
        let Some(register) = register else { return Self::New };
        let mut parts = register.splitn(4, '/');
        let attempt = parts.next().and_then(|attempt| attempt.parse().ok()).unwrap_or_default();
        match (parts.next(), parts.next(), parts.next()) {
            (Some("0"), _, _) => Self::Refused(attempt),
            (Some("2"), _, Some(ts)) => Ts::parse(ts).map_or(Self::Sending(attempt), Self::Sent),
            _ => Self::Sending(attempt),
        }
    }

    /// The register of an attempt that is about to start.
    pub fn sending(attempt: u32) -> String {
        format!("{attempt:06}/1/sending")
    }

    /// The register of an attempt that Slack refused: greater than that of the attempt, less than that of the
    /// next one.
    pub fn refused(attempt: u32) -> String {
        format!("{:06}/0/refused", attempt + 1)
    }

    /// The register of a posted part. It is greater than that of every attempt.
    pub fn sent(ts: &Ts) -> String {
        format!("999999/2/sent/{ts}")
    }

    pub fn next_attempt(&self) -> u32 {
        match self {
            Self::New => 1,
            Self::Refused(next) => *next,
            Self::Sending(attempt) => attempt + 1,
            Self::Sent(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_is_greater_than_the_one_before_and_a_new_generation_is_greater_than_all() {
        for kind in [TrackedKind::Question, TrackedKind::Answer] {
            let stages = [WorkStage::Pending, WorkStage::Working, WorkStage::Failed, WorkStage::Finished];
            let mut states: Vec<WorkState> = stages.map(|stage| WorkState::NEW.with_stage(stage)).into();
            states.push(states[3].next_generation());
            let registers: Vec<String> = states.iter().map(|state| state.register(kind)).collect();
            assert!(registers.is_sorted() && states.is_sorted(), "{registers:?}");
            for (state, register) in states.iter().zip(&registers) {
                assert_eq!(WorkState::read(Some(register)), *state);
            }
        }
        assert_eq!(WorkState::NEW.register(TrackedKind::Question), "000000/1/pending");
        for odd in [None, Some(""), Some("x/1"), Some("000000/9/what")] {
            assert_eq!(WorkState::read(odd), WorkState::NEW);
        }
    }

    #[test]
    fn the_register_of_a_part_only_grows_until_it_is_posted() {
        let ts = Ts::parse("1700000000.000100").unwrap();
        let registers = [
            PartState::sending(1),
            PartState::refused(1),
            PartState::sending(2),
            PartState::sending(3),
            PartState::sent(&ts),
        ];
        assert!(registers.is_sorted(), "{registers:?}");
        let read = registers.each_ref().map(|register| PartState::read(Some(register)));
        assert_eq!(read[0], PartState::Sending(1));
        assert_eq!((&read[1], read[1].next_attempt()), (&PartState::Refused(2), 2));
        assert_eq!(read[4], PartState::Sent(ts));
        assert_eq!(PartState::read(Some("rubbish")), PartState::Sending(0), "the poster searches for it");
        assert_eq!(PartState::read(None).next_attempt(), 1);
    }
}
