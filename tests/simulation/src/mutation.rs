//! Planted bugs: the simulation must find each of them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{Guard, Update};
use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, ListedFile};
use ports::queue::waiting::WaitCause;
use ports::queue::{
    BatchResult, Delivery, Depth, MessageId, Outgoing, Queue, QueueError, QueueName, QueueRef, Receipt,
    ReceiveRequest,
};
use workers::admission::ExistenceMode;
use workers::runtime::{Batch, JobOutcome, ReceivedJob, Worker};

use super::verdict::request;
use super::world::lock;
use serde_json::Value;
use testkit::fake_slack::SlackAnswer;

/// How often a job is tried before [`Mutation::SerialLoop`] goes on to the next.
const SERIAL_TRIES: usize = 300;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A message is acked as soon as it is received, before its effects are written.
    AckBeforeWrite,
    /// A job is marked as done before it is: if it then fails, it is never retried.
    MarkBeforeDo,
    /// Messages behind a failed one are acked instead of released.
    AckPastFailure,
    /// A batch is acked after one of its leases could not be extended.
    AckOnLeaseLoss,
    /// A failed send is treated as durable.
    AnswerBeforeDurable,
    /// The file jobs that follow from an event are not sent.
    ForgetFollowUps,
    /// The edits of canvases are not fetched.
    IgnoreEdits,
    /// A batch is received in reverse order.
    Backwards,
    /// Events from any sender with the signing secret are accepted without the existence check.
    BelieveAll,
    /// No erasure fact is written, so erased data can come back.
    EraseWithoutFact,
    /// Bytes that arrive after an erasure are not deleted.
    KeepBytes,
    /// Workers take the workspace of an event from `team_id`, whatever its authorizations say.
    IgnoreAuthorizations,
    /// The older of two events about a pin wins, so a removed pin comes back.
    OlderPin,
    /// The older of two lists of bookmarks wins, so a removed bookmark comes back.
    OlderBookmarkList,
    /// Readers take a message's `text` and ignore its blocks and attachments.
    ReadTextOnly,
    /// A message with a null field is not stored.
    DropNullFields,
    /// A reply whose root has not arrived is not stored.
    DropEarlyReplies,
    /// What a message says about its author is not stored.
    ForgetAuthors,
    /// A page that repeats messages is taken for the last one.
    StopAtRepeatedPage,
    /// Any refusal of a call is taken for the answer that the object does not exist.
    TakeRefusalForMissing,
    /// A person whom the app may not see is taken for one who does not exist.
    TakeInvisibleForMissing,
    /// An older state of a user group replaces a newer one.
    OlderUserGroupWins,
    /// A channel stays public until an event says that it was converted: private messages show nothing.
    TrustConversionsOnly,
    /// The wake of waiting jobs is not sent.
    LoseWakes,
    /// The row of a waiting job is deleted before the job is sent back, and the process ends in between.
    DeleteBeforeSend,
    /// An event that may depend on older ones is dropped while they wait.
    IgnoreOrder,
    /// An event is acked over its connection as soon as it is received.
    AckOnReceipt,
    /// A connection is closed as soon as Slack asks to replace it.
    CloseAtRefresh,
    /// All events of a process have one run, whatever happens to its connections.
    OneRunPerProcess,
    /// A channel is proven from its beginning although only its newest page was compared.
    ProveUnread,
    /// The whole fleet handles one job after the other, each until it is decided. Only the run of many
    /// workspaces finds it: nothing is lost, but everything is late.
    SerialLoop,
    /// The whole fleet syncs one workspace after the other. Only the run of many workspaces finds it, as the next two.
    SerialSyncs,
    /// The files of an import are downloaded like those of today.
    LiveImport,
    /// A job that waits for Slack or a token stays on its queue.
    WaitOnQueue,
}

impl Mutation {
    /// Those that the seeds of one workspace find.
    pub const ALL: [Self; 30] = [
        Self::AckBeforeWrite,
        Self::MarkBeforeDo,
        Self::AckPastFailure,
        Self::AckOnLeaseLoss,
        Self::AnswerBeforeDurable,
        Self::ForgetFollowUps,
        Self::IgnoreEdits,
        Self::Backwards,
        Self::BelieveAll,
        Self::EraseWithoutFact,
        Self::KeepBytes,
        Self::IgnoreAuthorizations,
        Self::OlderPin,
        Self::OlderBookmarkList,
        Self::ReadTextOnly,
        Self::DropNullFields,
        Self::DropEarlyReplies,
        Self::ForgetAuthors,
        Self::StopAtRepeatedPage,
        Self::TakeRefusalForMissing,
        Self::TakeInvisibleForMissing,
        Self::OlderUserGroupWins,
        Self::TrustConversionsOnly,
        Self::LoseWakes,
        Self::DeleteBeforeSend,
        Self::IgnoreOrder,
        Self::AckOnReceipt,
        Self::CloseAtRefresh,
        Self::OneRunPerProcess,
        Self::ProveUnread,
    ];
}

/// The outcome that a worker would give a job, which has none yet.
async fn try_alone(worker: &dyn Worker, job: &ReceivedJob) -> JobOutcome {
    let tried = ReceivedJob::new(job.delivery().clone());
    worker.work(&Batch::decode(&[&tried])).await;
    tried.into_outcome().1
}

/// The bug of a simulated fleet, if any.
#[derive(Clone, Default)]
pub(super) struct Mutants {
    pub(super) mutation: Option<Mutation>,
    /// Messages that [`Mutation::MarkBeforeDo`] treats as done. The set outlives every process.
    marked: Arc<Mutex<BTreeSet<MessageId>>>,
    /// Held by the only worker that works, with [`Mutation::SerialLoop`] or [`Mutation::SerialSyncs`].
    working: Arc<tokio::sync::Mutex<()>>,
    /// Timestamps of the messages that [`Mutation::DropEarlyReplies`] has seen.
    seen: Arc<Mutex<BTreeSet<String>>>,
}

impl Mutants {
    pub(super) fn with(mutation: Option<Mutation>) -> Self {
        Self { mutation, ..Self::default() }
    }

    /// Returns the queue with the bug. If the bug is not one of the queue, it behaves like `inner`.
    pub(super) fn queue(&self, inner: Arc<dyn Queue>) -> Arc<dyn Queue> {
        match self.mutation {
            Some(mutation) => Arc::new(MutatedQueue { inner, mutation, run: Mutex::default() }),
            None => inner,
        }
    }

    /// Returns the existence mode of a fleet with the bug.
    pub(super) fn existence_mode(&self) -> Option<ExistenceMode> {
        (self.mutation == Some(Mutation::BelieveAll)).then_some(ExistenceMode::Off)
    }

    /// Works on a batch as a worker with the bug does.
    pub(super) async fn work(&self, worker: &dyn Worker, batch: &Batch<'_>) {
        if matches!(self.mutation, Some(Mutation::DropNullFields | Mutation::DropEarlyReplies)) {
            for job in batch.received() {
                if self.drops(&job.delivery().body) {
                    job.settle(JobOutcome::Done);
                } else {
                    worker.work(&Batch::decode(&[job])).await;
                }
            }
            return;
        }
        if self.mutation == Some(Mutation::IgnoreOrder) {
            let received = batch.received().iter();
            let tried: Vec<ReceivedJob> =
                received.map(|job| ReceivedJob::new(job.delivery().clone())).collect();
            worker.work(&Batch::decode(&tried.iter().collect::<Vec<_>>())).await;
            for (job, tried) in batch.received().iter().zip(tried) {
                let outcome = tried.into_outcome().1;
                let is_order = matches!(outcome, JobOutcome::Wait(WaitCause::Order, _));
                job.settle(if is_order { JobOutcome::Done } else { outcome });
            }
            return;
        }
        if self.mutation == Some(Mutation::SerialSyncs) && worker.queue() == QueueName::Directory {
            let _working = self.working.lock().await;
            return worker.work(batch).await;
        }
        if self.mutation == Some(Mutation::WaitOnQueue) {
            let mut blocked = BTreeSet::new();
            for job in batch.received() {
                let group = &job.delivery().group;
                if blocked.contains(group) {
                    continue;
                }
                let mut outcome = try_alone(worker, job).await;
                if let JobOutcome::Wait(_, reason) = outcome {
                    blocked.insert(group);
                    outcome = JobOutcome::retry(reason);
                }
                job.settle(outcome);
            }
            return;
        }
        if self.mutation == Some(Mutation::SerialLoop) {
            let _working = self.working.lock().await;
            for job in batch.received() {
                let mut outcome = JobOutcome::Done;
                for _ in 0..SERIAL_TRIES {
                    outcome = try_alone(worker, job).await;
                    if !matches!(outcome, JobOutcome::Retry(_)) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                job.settle(outcome);
            }
            return;
        }
        if self.mutation != Some(Mutation::MarkBeforeDo) {
            return worker.work(batch).await;
        }
        for job in batch.received() {
            if lock(&self.marked).insert(job.delivery().message_id.clone()) {
                worker.work(&Batch::decode(&[job])).await;
            } else {
                job.settle(JobOutcome::Done);
            }
        }
    }

    /// Whether a worker with the bug drops a job.
    fn drops(&self, job: &str) -> bool {
        let Some(request) = request(job) else { return false };
        let event = &request["event"];
        let text = |name: &str| event[name].as_str().map(str::to_owned);
        if event["type"] != "message" {
            return false;
        }
        if self.mutation == Some(Mutation::DropNullFields) {
            return event.as_object().is_some_and(|event| event.values().any(Value::is_null));
        }
        let mut seen = lock(&self.seen);
        seen.extend(text("ts"));
        text("thread_ts").is_some_and(|root| !seen.contains(&root))
    }

    /// Returns a message as readers with the bug see it.
    pub(super) fn readable(&self, mut message: Value) -> Value {
        if self.mutation == Some(Mutation::ReadTextOnly)
            && let Value::Object(members) = &mut message
        {
            members.remove("raw_event");
        }
        message
    }

    /// Returns an answer of Slack as a client with the bug understands it. `is_repeated` is true if the answer
    /// repeats entries of the page before.
    pub(super) fn answer(&self, answer: SlackAnswer, is_repeated: bool) -> SlackAnswer {
        let mut body = answer.value();
        match self.mutation {
            Some(Mutation::StopAtRepeatedPage) if is_repeated && body["messages"].is_array() => {
                body["has_more"] = false.into();
                body["response_metadata"] = Value::Null;
            }
            Some(Mutation::TakeRefusalForMissing) if body["ok"] == false => {
                body["error"] = "user_not_found".into();
            }
            Some(Mutation::TakeInvisibleForMissing) if body["error"] == "user_not_visible" => {
                body["error"] = "user_not_found".into();
            }
            Some(_) | None => return answer,
        }
        answer.with_body(body.to_string())
    }

    /// Whether the eraser writes erasure facts.
    pub(super) fn binds_writers(&self) -> bool {
        self.mutation != Some(Mutation::EraseWithoutFact)
    }

    /// Returns an update of the archive as a fleet with the bug writes it.
    pub(super) fn update<'u>(&self, update: &'u Update) -> Cow<'u, Update> {
        let Guard::Greater { register, version } = &update.guard else { return Cow::Borrowed(update) };
        match self.mutation {
            Some(Mutation::OlderPin) if register == "pin" => {
                let guard = Guard::Less { register: register.clone(), version: version.clone() };
                Cow::Owned(Update { guard, ..update.clone() })
            }
            Some(Mutation::OlderBookmarkList) if update.key.item_id.starts_with("bookmark#") => {
                let guard = Guard::Less { register: register.clone(), version: version.clone() };
                Cow::Owned(Update { guard, ..update.clone() })
            }
            Some(Mutation::OlderUserGroupWins) if update.key.item_id.starts_with("usergroup#") => {
                let mut unguarded = Update { guard: Guard::Always, ..update.clone() };
                unguarded.set.insert(register.clone(), version.as_str().into());
                Cow::Owned(unguarded)
            }
            Some(Mutation::ProveUnread) if update.key.item_id.starts_with("verified#") => {
                let mut unread = update.clone();
                unread.set.insert("whole".into(), true.into());
                unread.set.insert("from".into(), rules::version::zero().padded().into());
                unread.remove.clear();
                Cow::Owned(unread)
            }
            Some(Mutation::ForgetAuthors)
                if update.key.item_id.starts_with("user#") && version.starts_with('-') =>
            {
                Cow::Owned(Update::mark(update.key.clone()))
            }
            Some(Mutation::TrustConversionsOnly) if register == "private_at" => {
                Cow::Owned(Update::mark(update.key.clone()))
            }
            Some(_) | None => Cow::Borrowed(update),
        }
    }

    /// Returns the file store with the bug.
    pub(super) fn files(&self, inner: Arc<dyn Files>) -> Arc<dyn Files> {
        if self.mutation == Some(Mutation::KeepBytes) { Arc::new(KeepingFiles(inner)) } else { inner }
    }
}

/// A file store that deletes nothing.
struct KeepingFiles(Arc<dyn Files>);

#[async_trait]
impl Files for KeepingFiles {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        self.0.create(key).await
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        self.0.open(key).await
    }

    async fn delete(&self, _: &FileKey) -> Result<bool, FilesError> {
        Ok(true)
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        self.0.list(after).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.0.ready().await
    }
}

struct MutatedQueue {
    inner: Arc<dyn Queue>,
    mutation: Mutation,
    /// The first run of the process.
    run: Mutex<Option<String>>,
}

impl MutatedQueue {
    /// Gives an event the first run of the process.
    fn keep_run(&self, message: &mut Outgoing) {
        const BEFORE: &str = "{\"v\":1,\"run\":\"";
        let Some((run, _)) = message.body.strip_prefix(BEFORE).and_then(|rest| rest.split_once('"')) else {
            return;
        };
        let first = lock(&self.run).get_or_insert_with(|| run.to_owned()).clone();
        message.body = message.body.replacen(run, &first, 1);
    }
}

#[async_trait]
impl Queue for MutatedQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        let mut messages = messages;
        let sent = messages.len();
        if self.mutation == Mutation::LiveImport {
            for message in &mut messages {
                message.body = message.body.replacen("\"bulk\":true,", "", 1);
            }
        }
        if self.mutation == Mutation::OneRunPerProcess {
            messages.iter_mut().for_each(|message| self.keep_run(message));
        }
        if self.mutation == Mutation::LoseWakes {
            messages.retain(|message| !message.group.as_str().ends_with("#wake"));
        }
        if self.mutation == Mutation::DeleteBeforeSend {
            messages.retain(|message| !message.body.contains("\"trial\":"));
        }
        if messages.len() < sent {
            drop(self.inner.send(messages).await);
            return vec![Ok(()); sent];
        }
        let follows = messages.iter().all(|message| message.queue == QueueName::Files);
        if self.mutation == Mutation::ForgetFollowUps && follows {
            return vec![Ok(()); sent];
        }
        // Only the job of an edit names its version.
        let is_edit = |message: &Outgoing| message.body.contains("\"version\":");
        if self.mutation == Mutation::IgnoreEdits && follows && messages.iter().all(is_edit) {
            return vec![Ok(()); sent];
        }
        let results = self.inner.send(messages).await;
        if self.mutation == Mutation::AnswerBeforeDurable { vec![Ok(()); sent] } else { results }
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        let mut deliveries = self.inner.receive(request).await?;
        if self.mutation == Mutation::AckBeforeWrite {
            let receipts: Vec<Receipt> = deliveries.iter().map(|delivery| delivery.receipt.clone()).collect();
            drop(self.inner.ack(request.queue, &receipts).await);
        }
        if self.mutation == Mutation::Backwards {
            deliveries.reverse();
        }
        if self.mutation == Mutation::IgnoreAuthorizations {
            for delivery in &mut deliveries {
                let body = delivery.body.replace("\"authorizations\":", "\"unread_authorizations\":");
                delivery.body = body.replace("\"context_team_id\":", "\"unread_context\":");
            }
        }
        Ok(deliveries)
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        if self.mutation == Mutation::AckPastFailure {
            let tail = entries.iter().filter(|(_, timeout)| timeout.is_zero());
            let tail: Vec<Receipt> = tail.map(|(receipt, _)| receipt.clone()).collect();
            drop(self.inner.ack(queue, &tail).await);
        }
        let results = self.inner.change_visibility(queue, entries).await;
        if self.mutation == Mutation::AckOnLeaseLoss && results.iter().any(Result::is_err) {
            let rest: Vec<Receipt> = entries.iter().map(|(receipt, _)| receipt.clone()).collect();
            drop(self.inner.ack(queue, &rest).await);
        }
        results
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        self.inner.ack(queue, receipts).await
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        self.inner.depth(queue).await
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.inner.ready().await
    }
}
