//! Slack's pace: whether a fleet posts as fast as a channel takes messages, and no faster.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::counting_slack::CountingSlack;
use super::{PROCESSES, end_when_answered, fleet, queue_questions};
use crate::observer::Observer;
use crate::report::{BenchSection, Goal, figure, ms};
use crate::{machine, progress, slack as large_slack};

/// The interval that Slack requires between two messages to a channel.
/// <https://docs.slack.dev/apis/web-api/rate-limits>
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The questions for a fleet.
struct QuestionLoad {
    channels: usize,
    questions_each: usize,
    messages_each: usize,
    /// The settings that differ from the defaults.
    settings: &'static [(&'static str, &'static str)],
}

const LOADS: [QuestionLoad; 3] = [
    // Even one process alone may post these within the workspace's limit of 200 per minute.
    QuestionLoad { channels: 4, questions_each: 10, messages_each: 1, settings: &[] },
    QuestionLoad { channels: 4, questions_each: 3, messages_each: 3, settings: &[] },
    QuestionLoad {
        channels: 10,
        questions_each: 6,
        messages_each: 1,
        // Otherwise the workspace's limit would apply first.
        settings: &[("ANNALIST_REPLIES_PER_MINUTE", "0")],
    },
];

/// The measured pace of a load.
struct MeasuredPace {
    /// The shortest interval between two posts to one channel, including refused ones.
    least: Duration,
    refused: usize,
    /// The rates of the slowest channel, of all channels together and of the fastest channel, as shares of
    /// Slack's limit.
    slowest: f64,
    together: f64,
    fastest: f64,
}

/// Measures all loads.
pub(crate) async fn measure() -> anyhow::Result<BenchSection> {
    let mut all = Vec::new();
    for load in &LOADS {
        let paced = load.run().await?;
        all.push((load, paced));
    }
    let least = all.iter().map(|(_, paced)| ms(paced.least)).fold(f64::INFINITY, f64::min);
    let refused: usize = all.iter().map(|(_, paced)| paced.refused).sum();
    let together = all.iter().map(|(_, paced)| paced.together).fold(f64::INFINITY, f64::min);
    let fastest = all.iter().map(|(_, paced)| paced.fastest).fold(0.0, f64::max);
    Ok(BenchSection {
        title: "At Slack's pace",
        method: format!(
            "Questions on the queue; then {PROCESSES} processes on one folder, half of them responders and half posters, with an \
             instant processor and at the default pace of a message a second to each channel; with 10 channels the workspace's limit of 200 a minute is lifted. This Slack answers 429 to a post that comes \
             less than a second after another one to its channel. Times are those at which posts reach it; a channel's rate is \
             that from its first to its last message, as a share of Slack's one a second; together, that of the mean time. One round: \
             the fleet waits most of the time, and a faster machine or build changes little."
        ),
        columns: &[
            "channels",
            "questions in each",
            "messages in an answer",
            "shortest pause ms",
            "429s",
            "slowest channel",
            "together",
            "fastest channel",
        ],
        rows: all.iter().map(|(load, paced)| load.row(paced)).collect(),
        goals: vec![
            Goal::at_least("between two messages to a channel are", least, ms(MIN_INTERVAL), " ms"),
            Goal::at_most("posts that Slack refuses", refused as f64, 0.0, ""),
            Goal::at_least("channels together, of Slack's pace", together, 0.95, " ×"),
            Goal::at_most("… the fastest of them", fastest, 1.0, " ×"),
        ],
    })
}

impl QuestionLoad {
    async fn run(&self) -> anyhow::Result<MeasuredPace> {
        let Self { channels, questions_each, messages_each, settings } = *self;
        progress(&format!("questions: {channels} channels at Slack's pace"));
        let data = machine::data_folder()?;
        queue_questions(data.path(), channels * questions_each, channels).await?;
        let api = CountingSlack::start_with_min_interval(MIN_INTERVAL).await?;
        let observer = Observer::open(data.path())?;
        let processor = if messages_each == 1 { &api.processor } else { &api.long_processor };
        let processes = fleet(|command| {
            command.arg("--data").arg(data.path()).args(["--slack-api-url", &api.url]);
            command.env("ANNALIST_RESPONDER", "on").env("SLACK_BOT_TOKEN", large_slack::TOKEN);
            command.env("ANNALIST_PROCESSOR_URL", processor).envs(settings.iter().copied());
        });
        end_when_answered(&observer, processes.await).await?;
        let (messages, counts) = (channels * questions_each * messages_each, api.counts());
        ensure!(
            counts == (messages, messages),
            "accepted and distinct posts {counts:?} instead of {messages}"
        );
        let posts = api.channels();
        let pauses_each = (questions_each * messages_each - 1) as f64;
        let durations: Vec<f64> =
            posts.iter().map(|posts| pauses(posts).sum::<Duration>().as_secs_f64()).collect();
        let share = |duration: f64| pauses_each * MIN_INTERVAL.as_secs_f64() / duration;
        Ok(MeasuredPace {
            least: posts.iter().flat_map(|posts| pauses(posts)).min().unwrap_or_default(),
            refused: api.refused(),
            slowest: share(durations.iter().copied().fold(0.0, f64::max)),
            together: share(durations.iter().sum::<f64>() / durations.len() as f64),
            fastest: share(durations.iter().copied().fold(f64::INFINITY, f64::min)),
        })
    }

    fn row(&self, paced: &MeasuredPace) -> Vec<String> {
        let shape = [self.channels, self.questions_each, self.messages_each].map(|count| count.to_string());
        let paced = [
            format!("{:.1}", ms(paced.least)),
            paced.refused.to_string(),
            figure(paced.slowest),
            figure(paced.together),
            figure(paced.fastest),
        ];
        shape.into_iter().chain(paced).collect()
    }
}

fn pauses(posts: &[Instant]) -> impl Iterator<Item = Duration> {
    posts.windows(2).map(|two| two[1].duration_since(two[0]))
}
