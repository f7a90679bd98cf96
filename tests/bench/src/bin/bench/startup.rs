//! The time from starting `annalist up` on a new folder to its first 200, and its idle memory.

use std::time::{Duration, Instant};

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::client::{EventClient, RetryDelays};
use ::tests::harness::process;
use anyhow::ensure;
use tokio::time::sleep;

use crate::report::{BenchSection, Goal, figure, median, mib, ms};
use crate::{machine, progress};

const STARTS: usize = 10;
/// Delay before the idle memory is read, so that memory used during startup can be released.
const SETTLING: Duration = Duration::from_secs(1);

/// Starts `annalist up` several times.
pub(crate) async fn measure() -> anyhow::Result<BenchSection> {
    let mut first_200_ms = Vec::new();
    let mut idle_mib = Vec::new();
    for n in 1..=STARTS {
        progress(&format!("startup: {n} of {STARTS}"));
        let data = machine::data_folder()?;
        let folder = data.path().join("new");
        let event = Workload::new(Shape::default()).next();
        let started = Instant::now();
        let server = process::up(folder.as_path()).await;
        let mut slack = EventClient::for_address(server.address, RetryDelays::none());
        let acked = slack.deliver(event.as_ref().map_or("", |event| &event.body)).await;
        first_200_ms.push(ms(started.elapsed()));
        ensure!(acked.is_ok(), "the first event was not acked: {acked:?}");
        if n == STARTS {
            sleep(SETTLING).await;
            idle_mib.push(mib(server.process.usage().rss_kib));
        }
        server.process.sigkill().await;
    }
    let slowest_ms = first_200_ms.iter().copied().fold(0.0, f64::max);
    let (first_200_ms, idle_mib) = (median(first_200_ms), median(idle_mib));
    Ok(BenchSection {
        title: "Start",
        method: format!(
            "`annalist up` on a new folder, from starting the process to the 200 of a signed event; median of \
             {STARTS}. Memory one second later."
        ),
        columns: &["first 200 ms", "slowest ms", "RSS idle MiB"],
        rows: vec![[first_200_ms, slowest_ms, idle_mib].map(figure).to_vec()],
        goals: vec![
            Goal::at_most("`annalist up`, first 200 on a new folder", first_200_ms, 25.0, " ms"),
            Goal::at_most("`annalist up` RSS idle", idle_mib, 30.0, " MiB"),
        ],
    })
}
