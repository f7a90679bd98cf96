//! A Slack that breaks HTTP: its API returns the workspace of every token, and every download gets exactly
//! the given bytes.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap that fails is a test that fails")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::corpus::TEAM;

/// The server's behaviour after the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAnswer {
    /// Closes the connection.
    Close,
    /// Sends nothing and keeps the connection open.
    Stall,
    /// Sends these bytes again and again, without an end.
    Repeat(&'static [u8]),
}

type ScriptedAnswers = Arc<Mutex<VecDeque<(&'static [u8], AfterAnswer)>>>;

/// Starts a server that gives every download the same answer. Returns its address.
///
/// # Panics
/// If it cannot listen.
pub async fn serve_answer(answer: &'static [u8], then: AfterAnswer) -> String {
    serve_script(vec![(answer, then)]).await
}

/// Starts a server that gives each download the next answer, and the last answer from then on. Returns its
/// address.
///
/// # Panics
/// If it cannot listen.
pub async fn serve_script(answers: Vec<(&'static [u8], AfterAnswer)>) -> String {
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
        AfterAnswer::Close => {}
        // Until the client gives up.
        AfterAnswer::Stall => while connection.read(&mut piece).await.is_ok_and(|read| read > 0) {},
        AfterAnswer::Repeat(bytes) => while connection.write_all(bytes).await.is_ok() {},
    }
}
