//! Several concurrent senders that simulate Slack and record the acked events.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::{EventClient, RetryDelays};
use testkit::corpus::{Model, Shape, Workload};

/// Each sender has its own channels, so that the order of its acks is the order of events in each channel.
const CHANNELS_PER_SENDER: usize = 3;

/// Running senders.
pub struct RunningLoad {
    senders: JoinSet<AckedLoad>,
    server: watch::Sender<SocketAddr>,
    stop: watch::Sender<bool>,
    acked_count: Arc<watch::Sender<usize>>,
}

/// The events that were acked.
#[derive(Debug, Default)]
pub struct AckedLoad {
    /// The expected contents of the archive.
    pub model: Model,
    /// The event ids of each channel, in order.
    pub event_ids: BTreeMap<String, Vec<String>>,
    /// The number of acked events.
    pub acked: usize,
    /// The number of requests, including retries.
    pub requests: usize,
}

impl RunningLoad {
    /// Starts `senders` senders, which retry failed requests with these delays.
    pub fn start(server: SocketAddr, senders: usize, seed: u64, delays: &RetryDelays) -> Self {
        let mut load = Self {
            senders: JoinSet::new(),
            server: watch::Sender::new(server),
            stop: watch::Sender::new(false),
            acked_count: Arc::new(watch::Sender::new(0)),
        };
        for n in 0..senders {
            let workload = Workload::new(Shape {
                seed: seed.wrapping_add(n as u64),
                channels: CHANNELS_PER_SENDER,
                first_channel: 1 + n * CHANNELS_PER_SENDER,
                irregular_envelopes: true,
                ..Shape::default()
            });
            let slack = EventClient::new(load.server.subscribe(), delays.clone());
            load.senders.spawn(send(workload, slack, load.stop.subscribe(), Arc::clone(&load.acked_count)));
        }
        load
    }

    /// Makes the senders use a new address of the server.
    pub fn set_server(&self, server: SocketAddr) {
        self.server.send_replace(server);
    }

    /// The number of events acked so far.
    pub fn acked_events(&self) -> usize {
        *self.acked_count.borrow()
    }

    /// Waits until `more` more events are acked.
    ///
    /// # Panics
    /// If a sender gave up.
    pub async fn wait_for_acks(&mut self, more: usize) {
        let mut acked = self.acked_count.subscribe();
        let goal = *acked.borrow() + more;
        tokio::select! {
            reached = acked.wait_for(|acked| *acked >= goal) => drop(reached.expect("the counter lives")),
            Some(ended) = self.senders.join_next() => panic!("a sender ended early: {ended:?}"),
        }
    }

    /// Stops the senders once their current events are acked.
    ///
    /// # Panics
    /// If a sender gave up.
    pub async fn stop(self) -> AckedLoad {
        self.stop.send_replace(true);
        let mut sent = AckedLoad::default();
        for sender in self.senders.join_all().await {
            sent.model.merge(sender.model);
            sent.event_ids.extend(sender.event_ids);
            sent.acked += sender.acked;
            sent.requests += sender.requests;
        }
        sent
    }
}

async fn send(
    workload: Workload,
    mut slack: EventClient,
    stop: watch::Receiver<bool>,
    acked: Arc<watch::Sender<usize>>,
) -> AckedLoad {
    let mut sent = AckedLoad::default();
    for event in workload {
        if *stop.borrow() {
            break;
        }
        let requests = slack
            .deliver(&event.body)
            .await
            .unwrap_or_else(|error| panic!("{} was given up: {error}", event.event_id));
        sent.model.apply(&event);
        sent.event_ids.entry(event.channel).or_default().push(event.event_id);
        sent.acked += 1;
        sent.requests += requests as usize;
        acked.send_modify(|acked| *acked += 1);
    }
    sent
}
