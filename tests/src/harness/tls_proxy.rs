//! A network that leads nowhere but through its proxy, and a host behind it that has the names of Slack and speaks TLS.
//!
//! `tls/` has its certificate and key, and the certificate of the authority that signed it. They are of no use outside of
//! tests: no machine trusts that authority, whose key was thrown away.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

/// The longest head of a request to a proxy.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// A running proxy.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl TlsProxy {
    /// Leads `slack.com` to the first address and `wss-primary.slack.com` to the second, and refuses other hosts.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(web_api: SocketAddr, socket: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let acceptor = TlsAcceptor::from(Arc::new(server_config()));
        let seen = heads.clone();
        let server = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), seen.clone());
                // The end of a connection, however it comes, is the client's to judge.
                tokio::spawn(async move { drop(tunnel(client, &acceptor, &seen, web_api, socket).await) });
            }
        });
        Self { address, heads, server }
    }

    /// Lets a program reach Slack through the proxy alone, and trust the authority.
    pub fn configure(&self, command: &mut Command) {
        let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/harness/tls/authority.pem");
        command.env("HTTPS_PROXY", format!("http://{}", self.address)).env("SSL_CERT_FILE", authority);
    }

    /// What clients told the proxy: the heads of their requests, in order.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn server_config() -> ServerConfig {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/slack.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/slack.key")).expect("a key");
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .expect("ring has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key belongs to the certificate")
}

async fn tunnel(
    mut client: TcpStream,
    acceptor: &TlsAcceptor,
    heads: &Mutex<Vec<String>>,
    web_api: SocketAddr,
    socket: SocketAddr,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = match head.split(' ').take(2).collect::<Vec<_>>()[..] {
        ["CONNECT", "slack.com:443"] => Some(web_api),
        ["CONNECT", "wss-primary.slack.com:443"] => Some(socket),
        _ => None,
    };
    heads.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    let Some(target) = target else {
        return client.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let mut encrypted = acceptor.accept(client).await?;
    copy_bidirectional(&mut encrypted, &mut TcpStream::connect(target).await?).await?;
    Ok(())
}
