//! A Slack that breaks HTTP: its API answers whose the token is, and every download is answered with exactly the given
//! bytes.
#![expect(clippy::unwrap_used, reason = "it is test code: what it unwraps is what it claims")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::corpus::TEAM;

/// What follows the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The connection ends.
    Close,
    /// Nothing comes, and the connection stays.
    Stall,
    /// The same bytes again, without an end.
    Repeat(&'static [u8]),
}

type ScriptedAnswers = Arc<Mutex<VecDeque<(&'static [u8], Then)>>>;

/// Starts one that gives every download the same answer. Returns its address.
///
/// # Panics
/// If it cannot listen.
pub async fn raw(answer: &'static [u8], then: Then) -> String {
    script(vec![(answer, then)]).await
}

/// Starts one that gives each download the next answer, and from then on the last one. Returns its address.
///
/// # Panics
/// If it cannot listen.
pub async fn script(answers: Vec<(&'static [u8], Then)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, Arc::clone(&answers)));
        }
    });
    format!("http://{address}")
}

async fn serve(mut connection: TcpStream, answers: ScriptedAnswers) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match connection.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&piece[..read]),
        }
    }
    if request.starts_with(b"POST /api/") {
        let body = format!("{{\"ok\":true,\"team_id\":\"{TEAM}\"}}");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        drop(connection.write_all(format!("{head}{body}").as_bytes()).await);
        return;
    }
    let (answer, then) = {
        let mut answers = answers.lock().unwrap();
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0] }
    };
    if connection.write_all(answer).await.is_err() {
        return;
    }
    match then {
        Then::Close => {}
        // Until the other side gives up.
        Then::Stall => while connection.read(&mut piece).await.is_ok_and(|read| read > 0) {},
        Then::Repeat(bytes) => while connection.write_all(bytes).await.is_ok() {},
    }
}
