//! Slack's history on AWS: `annalist backfill`, and the historian with a job that continues in another one.

use std::time::Duration;

use ports::archive::{ArchiveExt, ItemKey, Query, Update, key, query_all};
use ports::clock::SystemClock;
use ports::queue::run::RunId;
use ports::queue::{Delivery, Queue, QueueName, ReceiveRequest};
use reader::gaps;
use rules::filled;
use rules::gap::run::RunSpan;
use rules::public_mark;
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, channel, one_token};
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::environment::AwsInstallation;
use tests::harness::metered::WRITES;
use tests::harness::proxy::{ForwardedRequest, Proxy};
use tests::harness::stack::Stack;
use workers::historian::BackfillMode;
use workers::historian::Historian;
use workers::runtime::{JobOutcome, Ports, Worker};

const TOKEN: &str = "xoxb-1";
const CHANNEL: &str = "C1";

/// A job reads twenty pages, and a page here is one message.
const MESSAGES: i64 = 22;

/// Slack permits a call every 1.2 s, and the emulator is slow.
const VISIBLE_AFTER: Duration = Duration::from_secs(300);

/// The timestamp this number of hours before the fixed time of Slack's clock.
fn ts(hours: i64) -> Ts {
    Ts::parse(&format!("{}.000000", START_S - hours * 3_600)).unwrap()
}

/// A Slack with a channel that has one message every hour, and a thread.
async fn slack() -> FakeSlack {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace::new("T1");
    workspace.channels = vec![channel(CHANNEL, "general")];
    let history = workspace.channel_history(CHANNEL);
    (1..=MESSAGES).for_each(|hours| history.post(&event::message(ts(hours).as_str(), "U1", "hello")));
    let root = ts(MESSAGES);
    let reply = format!("{}.500000", START_S - 5 * 3_600);
    history.post(&event::reply(&reply, root.as_str(), "U2", "a reply"));
    slack.set_workspace(TOKEN, workspace);
    slack
}

/// The recorded requests that write to tables.
fn writes(proxy: &Proxy) -> Vec<ForwardedRequest> {
    let is_write = |passed: &ForwardedRequest| {
        let operation = passed.target.as_deref().and_then(|target| target.rsplit('.').next());
        operation.is_some_and(|operation| WRITES.contains(&operation))
    };
    proxy.recorded().into_iter().filter(is_write).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_that_is_read_again_writes_no_message() {
    let (installation, slack) = (AwsInstallation::new().await, slack().await);
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    let environment = installation.with_endpoint(&proxy.endpoint).with_slack(&slack.url(), TOKEN);
    annalist_at(&environment, &["sync", "--no-join"]).await.succeeded();
    proxy.record();
    let first = json_lines(&environment, &["backfill", "general"]).await;
    let all = MESSAGES + 1;
    assert_eq!((&first[1]["new"], &first[1]["remaining"]), (&all.into(), &0.into()), "{first:?}");
    let of_messages = |writes: &[ForwardedRequest]| {
        writes.iter().filter(|write| write.body.contains("message#")).cloned().collect::<Vec<_>>()
    };
    assert!(!of_messages(&writes(&proxy)).is_empty(), "the proxy records writes of messages");

    slack.change_workspace(TOKEN, |workspace| workspace.volatile = true);
    proxy.record();
    let again = json_lines(&environment, &["backfill", "general", "--refetch-days", "2"]).await;
    let counts = |name: &str| again[1][name].as_i64().unwrap();
    assert!(counts("messages") >= MESSAGES, "{again:?}");
    assert_eq!((counts("new"), counts("updated")), (0, 0), "{again:?}");
    let written = writes(&proxy);
    assert_eq!(of_messages(&written).len(), 0, "{written:?}");
}

async fn received(queue: &dyn Queue) -> Vec<Delivery> {
    let request = ReceiveRequest {
        queue: QueueName::Backfill.into(),
        max: 1,
        visibility_timeout: VISIBLE_AFTER,
        wait: Duration::from_secs(5),
    };
    queue.receive(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_too_many_pages_continues_in_another_job() {
    let (installation, slack) = (AwsInstallation::new().await, slack().await);
    slack.set_page_size(1);
    let ports = Ports {
        queue: installation.aws.queue(),
        archive: installation.aws.archive(),
        clock: SystemClock::shared(),
    };
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse(CHANNEL).unwrap());
    let mut updates = vec![Update::mark(ItemKey::team(&team)), public_mark::opening(&team, &channel)];
    // No event came between two runs of ingest.
    for (run, at) in [("0123456789abcde0", MESSAGES + 1), ("0123456789abcde1", 0)] {
        updates.extend(RunSpan::from_event(ts(at)).updates(&team, &RunId::parse(run).unwrap()));
    }
    for update in &updates {
        ports.archive.write(update).await.unwrap();
    }
    let unread = gaps::unread_spans(&*ports.archive, &team, &ts(0), 9).await.unwrap();
    let [gap] = &unread[..] else { panic!("{unread:?}") };
    let historian = Historian::new(ports.clone(), slack.client(one_token(TOKEN)), BackfillMode::Gaps);
    historian.poll().await;
    historian.poll().await;
    for turn in 0..2 {
        let jobs = received(&*ports.queue).await;
        let [delivery] = &jobs[..] else { panic!("no job for turn {turn}") };
        assert!(delivery.body.contains(&format!("\"n\":{turn}")), "{}", delivery.body);
        assert_eq!(historian.handle(&jobs).await, [JobOutcome::Done]);
        let acked =
            ports.queue.ack(QueueName::Backfill.into(), std::slice::from_ref(&delivery.receipt)).await;
        assert!(acked.iter().all(Result::is_ok), "{acked:?}");
        let facts = query_all(&*ports.archive, Query::partition(key::filled(&team))).await.unwrap();
        let [span] = &filled::spans(&facts)[..] else { panic!("{facts:?}") };
        assert_eq!((&span.to, span.from == gap.from), (&gap.to, turn == 1), "{span:?}");
    }
    assert!(ports.queue.depth(QueueName::Backfill.into()).await.unwrap().is_empty());
    let messages =
        query_all(&*ports.archive, Query::partition(key::messages(&team, &channel))).await.unwrap();
    assert_eq!(messages.len() as i64, MESSAGES + 1);
}
