//! `annalist setup` on a terminal: it asks, shows no secret, and leaves the terminal as it was.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use testkit::fake_slack::{FakeSlack, FakeWorkspace};
use testkit::fake_socket::{APP_TOKEN, FakeSocket};
use tests::harness::binaries::binaries;
use tests::harness::secrets::assert_no_secret;

const BOT_TOKEN: &str = "xoxb-1-hidden";
const DEADLINE: Duration = Duration::from_secs(60);

/// A program on a terminal of its own.
struct OnTerminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    shown: String,
    /// The length of what was waited for.
    seen: usize,
    terminal: OwnedFd,
}

impl OnTerminal {
    fn setup(data: &str, slack_url: &str) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let terminal: OwnedFd = File::options().read(true).write(true).open(name).unwrap().into();
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        let child = Command::new(&binaries().annalist)
            .args(["setup", "--data", data])
            .env_clear()
            .env("SLACK_API_URL", slack_url)
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        let keyboard = File::from(controller);
        let mut output = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It ends with an error once no process holds the terminal.
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new(), seen: 0, terminal }
    }

    /// Waits until the screen shows this after everything that was waited for.
    fn wait_for(&mut self, expected: &str) {
        loop {
            if let Some(at) = self.shown[self.seen..].find(expected) {
                self.seen += at + expected.len();
                return;
            }
            let chunk = self.screen.recv_timeout(DEADLINE);
            let chunk = chunk.unwrap_or_else(|_| panic!("{expected:?} does not come: {}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    fn answer(&mut self, question: &str, keys: &str) {
        self.wait_for(&format!("{question}: "));
        assert!(!self.echoes());
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ISIG)
    }

    /// The exit of the program, after which the terminal must be as it was.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        assert!(self.echoes(), "the terminal still hides input");
        drop(self.terminal);
        drop(self.keyboard);
        while let Ok(chunk) = self.screen.recv_timeout(DEADLINE) {
            self.shown.push_str(&String::from_utf8_lossy(&chunk));
        }
        assert_no_secret("the terminal", &self.shown);
        assert!(!self.shown.contains("hidden") && !self.shown.contains("secret\r"), "{}", self.shown);
        (status, self.shown)
    }
}

async fn slack_with_app() -> FakeSlack {
    let slack = FakeSlack::start().await;
    slack.set_workspace(BOT_TOKEN, FakeWorkspace::new("T1"));
    FakeSocket::start(&slack, 2).await;
    slack
}

const BOT_QUESTION: &str = "Bot User OAuth Token (OAuth & Permissions)";
const APP_QUESTION: &str = "with the scope connections:write)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_asks_again_after_a_wrong_paste_and_a_second_run_asks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let slack = slack_with_app().await;
    let mut setup = OnTerminal::setup(data.to_str().unwrap(), &slack.url());
    setup.wait_for("https://api.slack.com/apps?new_app=1&manifest_json=");
    setup.answer(BOT_QUESTION, &format!("{APP_TOKEN}\r"));
    setup.answer(BOT_QUESTION, "xoxb-9-hidden\r");
    setup.answer(BOT_QUESTION, &format!("{BOT_TOKEN}\r"));
    setup.answer(APP_QUESTION, &format!("{BOT_TOKEN}\r"));
    setup.answer(APP_QUESTION, &format!(" {APP_TOKEN} \r"));
    setup.wait_for("annalist up --data");
    let (status, shown) = setup.end();
    assert!(status.success(), "{shown}");
    for expected in [
        "SLACK_BOT_TOKEN: that is an app-level token",
        "SLACK_BOT_TOKEN: Slack refused auth.test: invalid_auth",
        "SLACK_APP_TOKEN: that is a bot token",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let text = fs::read_to_string(data.join("annalist.env")).unwrap();
    assert!(
        text.starts_with(&format!("SLACK_BOT_TOKEN={BOT_TOKEN}\nSLACK_APP_TOKEN={APP_TOKEN}\n")),
        "{text}"
    );

    let mut again = OnTerminal::setup(data.to_str().unwrap(), &slack.url());
    again.wait_for("annalist up --data");
    let (status, shown) = again.end();
    assert!(status.success() && !shown.contains("Bot User OAuth Token"), "{shown}");
    assert_eq!(fs::read_to_string(data.join("annalist.env")).unwrap(), text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_wrong_pastes_or_ctrl_c_end_it_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let slack = slack_with_app().await;
    for keys in [&["xoxb-9-hidden\r", "\r", "hidden\r", "xoxp-1-hidden\r"][..], &["xoxb-1-hid\u{3}"]] {
        let mut setup = OnTerminal::setup(data.to_str().unwrap(), &slack.url());
        for keys in keys {
            setup.answer(BOT_QUESTION, keys);
        }
        setup.wait_for("nothing was written");
        let (status, shown) = setup.end();
        assert_eq!(status.code(), Some(1), "{shown}");
        assert!(!data.exists());
    }
}
