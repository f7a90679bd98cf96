//! How far a question, its answer and each part of that have come: registers that only grow, so that redelivery and two workers
//! end alike. A new attempt is another generation, which is greater than all of the one before.

use slack::ids::Ts;

/// A stage of a question, or of its answer. The order is that of the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkStage {
    /// It waits.
    Pending,
    /// It is being worked on.
    Working,
    /// It failed, and waits for a person.
    Failed,
    /// It is done.
    Finished,
}

/// What has stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackedKind {
    /// A question: `pending`, `processing`, `error`, `processed`.
    Question,
    /// An answer: `pending`, `sending`, `error`, `sent`.
    Answer,
}

impl TrackedKind {
    /// What a stage is called.
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

/// Where a question or an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkState {
    /// How often it was begun anew.
    pub generation: u32,
    /// How far it is.
    pub stage: WorkStage,
}

impl WorkState {
    /// At the beginning.
    pub const NEW: Self = Self { generation: 0, stage: WorkStage::Pending };

    /// As a register: `000000/1/pending`.
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

    /// Of a register. What cannot be read counts as new: the guard of a write then decides.
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

    /// Whether nothing more happens by itself.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self.stage, WorkStage::Failed | WorkStage::Finished)
    }

    /// The same attempt at another stage.
    #[must_use]
    pub fn at(self, stage: WorkStage) -> Self {
        Self { stage, ..self }
    }

    /// The next attempt.
    #[must_use]
    pub fn again(self) -> Self {
        Self { generation: self.generation + 1, stage: WorkStage::Pending }
    }
}

/// How far a part of an answer has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartState {
    /// It was never tried.
    New,
    /// Slack refused each attempt before this one, so it was surely not posted.
    Refused(u32),
    /// It is about to be posted in this attempt, or was: only Slack knows.
    Sending(u32),
    /// It is posted, as this message.
    Sent(Ts),
}

impl PartState {
    /// Of a register. One that cannot be read may have been sent: it is looked for.
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

    /// The register of an attempt that is about to be made.
    pub fn sending(attempt: u32) -> String {
        format!("{attempt:06}/1/sending")
    }

    /// The register of an attempt that Slack refused: greater than the attempt, less than the next one.
    pub fn refused(attempt: u32) -> String {
        format!("{:06}/0/refused", attempt + 1)
    }

    /// The register of a part that is posted. It is greater than that of every attempt.
    pub fn sent(ts: &Ts) -> String {
        format!("999999/2/sent/{ts}")
    }

    /// The number of the attempt that may follow.
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
    fn each_stage_is_greater_than_the_one_before_and_a_new_attempt_than_all() {
        for kind in [TrackedKind::Question, TrackedKind::Answer] {
            let stages = [WorkStage::Pending, WorkStage::Working, WorkStage::Failed, WorkStage::Finished];
            let mut states: Vec<WorkState> = stages.map(|stage| WorkState::NEW.at(stage)).into();
            states.push(states[3].again());
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
    fn a_part_only_gets_nearer_to_being_posted() {
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
        assert_eq!(PartState::read(Some("rubbish")), PartState::Sending(0), "it is looked for");
        assert_eq!(PartState::read(None).next_attempt(), 1);
    }
}
