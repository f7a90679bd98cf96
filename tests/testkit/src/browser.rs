//! A real browser, driven by a client of the part of WebDriver that tests need.
//! <https://www.w3.org/TR/webdriver2/>
//!
//! Every method panics if the browser fails to do its command.
#![expect(clippy::unwrap_used, reason = "a browser that fails is a test that fails")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// The limit for every step. A browser starts in a second, on a busy machine in several.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The limit for closing a browser, which normally takes no time.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Debian's Chromium and its driver.
const BROWSER: &str = "/usr/bin/chromium";
const DRIVER: &str = "/usr/bin/chromedriver";

/// The folder of a profile that receives downloads.
const DOWNLOADS: &str = "downloads";

/// WebDriver's JSON key for an element reference.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser window. `Drop` closes it even if a test fails: a killed driver alone would leave the browser
/// running.
#[derive(Debug)]
pub struct Browser {
    /// Killed when it is dropped.
    _driver: Child,
    profile: TempDir,
    port: u16,
    session: String,
}

/// The settings of a browser window.
#[derive(Debug, Default)]
pub struct BrowserSettings {
    /// Scripts of pages do not run.
    pub without_scripts: bool,
    /// The window is as wide as a phone.
    pub is_narrow: bool,
    /// The user prefers dark pages.
    pub is_dark: bool,
    /// Pages are shown as printed.
    pub is_print: bool,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) else { return };
        let end = format!(
            "DELETE /session/{} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n",
            self.session
        );
        // A browser that does not close is killed with its driver.
        let is_sent =
            stream.set_read_timeout(Some(CLOSE_TIMEOUT)).is_ok() && stream.write_all(end.as_bytes()).is_ok();
        let mut answer = [0; 1];
        drop(is_sent.then(|| stream.read(&mut answer)));
    }
}

#[derive(Debug, Clone)]
pub struct PageElement(String);

/// Maximum number of ports in a row that chromedriver may find taken.
const MAX_PORTS_TAKEN: usize = 5;

/// What the driver and the browser leave in their temporary folder goes with `temporary`.
fn start_driver(temporary: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut driver = Command::new(DRIVER)
        .args(["--port=0"])
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    (driver, lines)
}

impl Browser {
    /// A new window.
    pub async fn open(settings: &BrowserSettings) -> Self {
        let profile = TempDir::new().unwrap();
        let (mut driver, mut lines) = start_driver(profile.path());
        let mut ports_taken = 0;
        let port = loop {
            let line = timeout(TIMEOUT, lines.next_line())
                .await
                .unwrap()
                .unwrap()
                .expect("chromedriver prints its port");
            // It picks a port that is free for IPv6, and ends if a connection has the same one for IPv4.
            if line.contains("port not available") && ports_taken < MAX_PORTS_TAKEN {
                ports_taken += 1;
                (driver, lines) = start_driver(profile.path());
            }
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').parse().unwrap();
            }
        };
        let size = if settings.is_narrow { "--window-size=390,844" } else { "--window-size=1280,900" };
        let profile_folder = format!("--user-data-dir={}", profile.path().display());
        let arguments = [
            "--headless=new",
            // The tests may run as root in a container, where Chromium's own sandbox cannot be made.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            size,
            &profile_folder,
        ];
        let downloads = profile.path().join(DOWNLOADS);
        let mut options = json!({ "binary": BROWSER, "args": arguments,
            "prefs": { "download.default_directory": downloads, "download.prompt_for_download": false } });
        if settings.without_scripts {
            options["prefs"]["profile.managed_default_content_settings.javascript"] = 2.into();
        }
        if settings.is_narrow {
            options["mobileEmulation"] =
                json!({ "deviceMetrics": { "width": 390, "height": 844, "pixelRatio": 1.0 } });
        }
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let mut browser = Self { _driver: driver, profile, port, session: String::new() };
        let opened = browser.call(Method::POST, "/session", capabilities).await;
        browser.session = opened["sessionId"].as_str().unwrap().to_owned();
        let scheme = if settings.is_dark { "dark" } else { "light" };
        let media = if settings.is_print { "print" } else { "screen" };
        let emulated_media =
            json!({ "media": media, "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.command("Emulation.setEmulatedMedia", emulated_media).await;
        browser
    }

    /// Whether the browser and its driver are installed.
    pub fn is_installed() -> bool {
        [BROWSER, DRIVER].into_iter().all(|program| Path::new(program).exists())
    }

    /// Navigates to an address and waits until the page has loaded.
    pub async fn navigate(&self, address: &str) {
        self.post("/url", json!({ "url": address })).await;
    }

    /// The address of the page.
    pub async fn address(&self) -> String {
        self.get("/url").await.as_str().unwrap().to_owned()
    }

    /// Waits until a pressed key has led to an address that contains `part`, and the page has loaded.
    pub async fn wait_for_address(&self, part: &str) {
        let arrived = async {
            while !self.address().await.contains(part) {}
            while self.run_script("return document.readyState;").await != "complete" {}
        };
        timeout(TIMEOUT, arrived).await.unwrap_or_else(|_| panic!("no key led to {part}"));
    }

    /// The title of the page.
    pub async fn title(&self) -> String {
        self.get("/title").await.as_str().unwrap().to_owned()
    }

    /// The first element that matches a CSS selector.
    pub async fn find(&self, css: &str) -> PageElement {
        let found = self.post("/element", json!({ "using": "css selector", "value": css })).await;
        PageElement(found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {css}: {found}")).to_owned())
    }

    /// All elements that match a CSS selector.
    pub async fn find_all(&self, css: &str) -> Vec<PageElement> {
        let found = self.post("/elements", json!({ "using": "css selector", "value": css })).await;
        found
            .as_array()
            .unwrap()
            .iter()
            .map(|element| PageElement(element[ELEMENT].as_str().unwrap().to_owned()))
            .collect()
    }

    /// The visible text of the first element that matches.
    pub async fn text(&self, css: &str) -> String {
        let PageElement(id) = self.find(css).await;
        self.get(&format!("/element/{id}/text")).await.as_str().unwrap().to_owned()
    }

    /// An attribute of an element; empty if it is missing.
    pub async fn attribute(&self, PageElement(id): &PageElement, name: &str) -> String {
        self.get(&format!("/element/{id}/attribute/{name}")).await.as_str().unwrap_or_default().to_owned()
    }

    /// Whether the first element that matches is visible.
    pub async fn is_visible(&self, css: &str) -> bool {
        let PageElement(id) = self.find(css).await;
        self.get(&format!("/element/{id}/displayed")).await == true
    }

    /// Clicks the first element that matches.
    pub async fn click(&self, css: &str) {
        let PageElement(id) = self.find(css).await;
        let clicked = self
            .send(Method::POST, &format!("/session/{}/element/{id}/click", self.session), json!({}))
            .await;
        assert!(clicked["error"].is_null(), "{css}: {}", clicked["message"]);
    }

    /// Clicks, and waits until the address has changed.
    pub async fn follow(&self, css: &str) {
        let before = self.address().await;
        self.click(css).await;
        let left = async { while self.address().await == before {} };
        timeout(TIMEOUT, left).await.unwrap_or_else(|_| panic!("{css} leads nowhere"));
    }

    /// Types into the first element that matches.
    pub async fn type_into(&self, css: &str, text: &str) {
        let PageElement(id) = self.find(css).await;
        self.post(&format!("/element/{id}/value"), json!({ "text": text })).await;
    }

    /// Presses keys in the focused element.
    pub async fn press(&self, keys: &str) {
        let steps = keys.chars().flat_map(|key| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        });
        let source = json!({ "type": "key", "id": "keys", "actions": steps.collect::<Vec<_>>() });
        self.post("/actions", json!({ "actions": [source] })).await;
    }

    /// Runs a script and returns its result.
    pub async fn run_script(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Warnings and errors in the browser's log since the last call.
    pub async fn console_problems(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({ "type": "browser" })).await;
        let lines = log.as_array().unwrap().iter();
        lines
            .filter(|line| line["level"] != "INFO" && line["level"] != "DEBUG")
            .map(|line| line["message"].to_string())
            .collect()
    }

    /// The addresses that the browser has requested since the last call.
    pub async fn requests(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({ "type": "performance" })).await;
        let events = log.as_array().unwrap().iter();
        let events =
            events.map(|line| serde_json::from_str::<Value>(line["message"].as_str().unwrap()).unwrap());
        let sent = events.filter(|event| event["message"]["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["message"]["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for a download of a file that is not empty, and returns its content.
    pub async fn downloaded(&self, name: &str) -> Vec<u8> {
        let file = self.profile.path().join(DOWNLOADS).join(name);
        // An empty file keeps the name until the download is complete. The call to the browser spaces out the checks.
        let arrived = async {
            while std::fs::metadata(&file).map_or(0, |metadata| metadata.len()) == 0 {
                self.address().await;
            }
        };
        timeout(TIMEOUT, arrived).await.unwrap_or_else(|_| panic!("{name} is not downloaded"));
        std::fs::read(&file).unwrap()
    }

    /// Milliseconds from the start of the page's load to its first contentful paint.
    pub async fn first_contentful_paint_ms(&self) -> f64 {
        let script = "return new Promise((done) => new PerformanceObserver((list) => { \
            const found = list.getEntriesByName('first-contentful-paint')[0]; if (found) done(found.startTime); \
            }).observe({ type: 'paint', buffered: true }));";
        self.run_script(script).await.as_f64().unwrap()
    }

    /// Empties the browser's cache.
    pub async fn forget_cached(&self) {
        self.command("Network.clearBrowserCache", json!({})).await;
    }

    /// Runs a command of the DevTools protocol.
    async fn command(&self, name: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({ "cmd": name, "params": parameters })).await
    }

    async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, &format!("/session/{}{path}", self.session), Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.call(Method::POST, &format!("/session/{}{path}", self.session), body).await
    }

    /// Sends one request on its own connection, since a test makes only dozens. Panics on a WebDriver error.
    async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        let value = self.send(method, path, body).await;
        assert!(value["error"].is_null(), "{path}: {}", value["message"]);
        value
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, format!("127.0.0.1:{}", self.port))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = timeout(TIMEOUT, sender.send_request(request)).await.unwrap().unwrap();
        let bytes = timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
        let mut answer: Value = serde_json::from_slice(&bytes).unwrap();
        answer["value"].take()
    }
}
