use std::process::Command;
use std::sync::Arc;

use patra_core::port::transport::{Error, Transport};
use patra_http::install_crypto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::server::{TestServer, client, get, reply};

/// A self-signed certificate for 127.0.0.1, for these tests only.
const CERTIFICATE: &[u8] = include_bytes!("tls/cert.pem");
const KEY: &[u8] = include_bytes!("tls/key.pem");

#[test]
fn the_provider_can_be_installed_twice() {
    install_crypto();
    install_crypto();
}

#[tokio::test]
async fn a_server_without_tls_is_a_connect_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/?canary", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    });
    let error = client().send(get(url)).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[tokio::test]
async fn untrusted_certificate_is_rejected() {
    let error = client().send(get(secure_server("").await)).await.unwrap_err();
    assert!(matches!(&error, Error::Connect { reason, .. } if reason.contains("certificate")), "{error}");
}

/// Root certificates are chosen by the environment, which a test cannot change for itself, so it runs as a child
/// process.
pub(crate) fn in_a_process_with_roots(file: &str, test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", test])
        .env("SSL_CERT_FILE", file)
        .env("SSL_CERT_DIR", "/nonexistent")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn a_machine_without_certificates_still_collects_over_http() {
    in_a_process_with_roots("/nonexistent", "tls::without_roots");
}

#[tokio::test]
#[ignore = "run by the test above, with the environment it needs"]
async fn without_roots() {
    if std::env::var_os("SSL_CERT_FILE").is_none() {
        return;
    }
    let server = TestServer::fixed(reply("200 OK", "", "plain")).await;
    let client = client();
    let url = server.url("/");
    for _ in 0..2 {
        assert_eq!(client.send(get(&*url)).await.unwrap().body, "plain");
        let error = client.send(get(url.replace("http:", "https:"))).await.unwrap_err();
        assert!(error.to_string().contains("install ca-certificates or set SSL_CERT_FILE"), "{error}");
    }
}

#[test]
fn https_works_with_the_roots_of_the_machine() {
    in_a_process_with_roots(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/cert.pem"), "tls::with_roots");
}

#[tokio::test]
#[ignore = "run by the test above, with the environment it needs"]
async fn with_roots() {
    if std::env::var_os("SSL_CERT_FILE").is_none() {
        return;
    }
    let plain = TestServer::fixed(reply("200 OK", "", "plain")).await;
    let client = client();
    assert_eq!(client.send(get(secure_server("").await)).await.unwrap().body, "secure");

    // A redirect to https is followed, one to http is not.
    let up = format!("location: {}\r\n", secure_server("").await);
    let server = TestServer::fixed(reply("302 Found", &up, "")).await;
    let mut request = get(server.url("/"));
    request.limits.max_redirects = 1;
    assert_eq!(client.send(request.clone()).await.unwrap().body, "secure");
    request.url = secure_server(&plain.url("/")).await;
    assert!(matches!(client.send(request).await, Err(Error::Redirect { .. })));
    assert_eq!(plain.connections(), 0);
}

/// Starts an https server and returns its URL. It redirects to `location`, if there is one.
pub(crate) async fn secure_server(location: &str) -> String {
    install_crypto();
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let reply = match location {
        "" => "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecure".to_owned(),
        _ => format!("HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: {location}\r\n\r\n"),
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            // The request fits into one read.
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream.write_all(reply.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    url
}
