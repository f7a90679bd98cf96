//! What the template contains beyond its default.

/// How a new version of a function replaces the old one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rollout {
    /// At once.
    #[default]
    AllAtOnce,
    /// A tenth every three minutes, back at an alarm.
    Linear,
}

/// Where workers run. Ingest is always a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkerHost {
    /// Each worker is a function.
    #[default]
    Lambda,
    /// Each worker is a service of containers.
    Fargate,
}

/// The options of the template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TemplateOptions {
    pub rollout: Rollout,
    pub workers: WorkerHost,
    /// The version of the program that prints the template, which distinguishes the versions of functions.
    pub release: &'static str,
}
