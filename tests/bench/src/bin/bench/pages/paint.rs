//! The time until a page shows its first content in a real browser.

use std::net::SocketAddr;

use testkit::browser::{Browser, BrowserSettings};

use crate::progress;
use crate::report::{BenchSection, Goal, figure, median};

/// Number of loads of each page, each with an empty cache.
const LOADS: usize = 20;

/// Measures pages, given as pairs of name and path.
pub(super) async fn measure(address: SocketAddr, pages: &[(&str, String)]) -> BenchSection {
    let mut section = BenchSection {
        title: "Pages in a browser",
        method: format!(
            "Chromium loads each page of the same `annalist view` {LOADS} times, with an empty cache each time. The time is from the \
             beginning of the load to the first contentful paint, as the browser measures it."
        ),
        columns: &["", "median ms", "greatest ms"],
        rows: Vec::new(),
        goals: Vec::new(),
    };
    if !Browser::is_installed() {
        section.method = "Chromium and its driver are not installed.".to_owned();
        return section;
    }
    let browser = Browser::open(&BrowserSettings::default()).await;
    for (what, path) in pages {
        progress(&format!("pages: {what}, in Chromium"));
        let mut times = Vec::with_capacity(LOADS);
        for _ in 0..LOADS {
            browser.forget_cached().await;
            browser.navigate(&format!("http://{address}{path}")).await;
            times.push(browser.first_contentful_paint_ms().await);
        }
        let greatest = times.iter().copied().fold(0.0, f64::max);
        let median = median(times);
        section.rows.push(vec![(*what).to_owned(), figure(median), figure(greatest)]);
        if section.goals.is_empty() {
            section.goals.push(Goal::at_most(
                "first contentful paint of the first page",
                median,
                200.0,
                " ms",
            ));
        }
    }
    section
}
