use std::time::Duration;

use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder};
use patra_core::port::transport::{Error, Request, Transport};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::server::{Server, Step, answer, chunked, client, fetch, get, send};

pub(crate) async fn pack(name: &str, body: &[u8]) -> Vec<u8> {
    async fn run<W: AsyncWrite + Unpin>(mut encoder: W, body: &[u8], inner: fn(W) -> Vec<u8>) -> Vec<u8> {
        encoder.write_all(body).await.unwrap();
        encoder.shutdown().await.unwrap();
        inner(encoder)
    }
    match name {
        "gzip" => run(GzipEncoder::new(Vec::new()), body, GzipEncoder::into_inner).await,
        "zlib" => run(ZlibEncoder::new(Vec::new()), body, ZlibEncoder::into_inner).await,
        "raw" => run(DeflateEncoder::new(Vec::new()), body, DeflateEncoder::into_inner).await,
        // The default level is an archiver's, far too slow for tests.
        "br" => {
            let level = async_compression::Level::Fastest;
            run(BrotliEncoder::with_quality(Vec::new(), level), body, BrotliEncoder::into_inner).await
        }
        "zstd" => ruzstd::encoding::compress_to_vec(body, ruzstd::encoding::CompressionLevel::Fastest),
        _ => panic!("{name}"),
    }
}

pub(crate) fn encoded(coding: &str) -> String {
    format!("content-encoding: {coding}\r\n")
}

fn text() -> Vec<u8> {
    (0..60_000u32)
        .flat_map(|i| format!("{{\"id\":{i},\"v\":{}}}\n", i.wrapping_mul(2_654_435_761)).into_bytes())
        .collect()
}

// covers: ING-13.8-03
#[tokio::test]
async fn bodies_are_unpacked() {
    let text = text();
    for (coding, layers) in [
        ("gzip", vec!["gzip"]),
        ("x-gzip", vec!["gzip"]),
        ("deflate", vec!["zlib"]),
        ("deflate", vec!["raw"]),
        ("br", vec!["br"]),
        ("gzip, br", vec!["gzip", "br"]),
        ("br, gzip", vec!["br", "gzip"]),
        ("deflate, gzip", vec!["raw", "gzip"]),
        ("deflate, deflate", vec!["zlib", "raw"]),
        ("zstd", vec!["zstd"]),
        ("gzip, zstd", vec!["gzip", "zstd"]),
        ("zstd, br", vec!["zstd", "br"]),
    ] {
        let mut packed = text.clone();
        for layer in &layers {
            packed = pack(layer, &packed).await;
        }
        for steps in [answer("200 OK", &encoded(coding), &packed), chunked(&encoded(coding), packed.chunks(999))] {
            let server = Server::fixed(steps).await;
            let client = client();
            for _ in 0..2 {
                let response = client.send(get(server.url("/"))).await.unwrap();
                assert!(response.body == text, "{coding}");
                assert_eq!((response.header("content-encoding"), response.header("content-length")), (None, None));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(server.connections(), 1, "{coding} keeps the connection");
        }
    }
}

/// The offer is withdrawn, and a server that packs its body nevertheless is understood.
#[tokio::test]
async fn without_compression_only_the_plain_body_is_asked_for() {
    let packed = pack("gzip", b"packed all the same").await;
    let server = Server::fixed(answer("200 OK", &encoded("gzip"), packed)).await;
    let request = Request { compression: false, ..get(server.url("/")) };
    assert_eq!(client().send(request).await.unwrap().body, "packed all the same");
    let sent = &server.requests()[0];
    assert!(sent.contains("accept-encoding: identity\r\n"), "{sent}");
}

#[tokio::test]
async fn small_and_odd_bodies_are_unpacked() {
    let two = [pack("gzip", b"one, ").await, pack("gzip", b"two").await].concat();
    let nothing = pack("gzip", b"").await;
    let short = pack("zlib", b"x").await;
    for (coding, steps, expected) in [
        ("members", answer("200 OK", &encoded("gzip"), two), "one, two"),
        ("nothing", answer("200 OK", &encoded("gzip"), nothing), ""),
        ("no body", answer("200 OK", &encoded("gzip"), ""), ""),
        ("304", vec![send("HTTP/1.1 304 Not Modified\r\ncontent-encoding: br\r\n\r\n")], ""),
        ("bytewise", chunked(&encoded("deflate"), short.chunks(1)), "x"),
        ("identity", answer("200 OK", &encoded("identity"), "plain"), "plain"),
    ] {
        let server = Server::fixed(steps).await;
        assert_eq!(fetch(&server).await.unwrap().body, expected, "{coding}");
    }
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_said_so() {
    let gzip = pack("gzip", &text()).await;
    let mut damaged = gzip.clone();
    damaged[gzip.len() - 6] ^= 1;
    let cut = &gzip[..gzip.len() / 2];
    let brotli = pack("br", &text()).await;
    for (name, steps) in [
        ("not gzip", answer("200 OK", &encoded("gzip"), "<html>not at all</html>")),
        ("not brotli", answer("200 OK", &encoded("br"), [0xff; 64])),
        ("checksum", answer("200 OK", &encoded("gzip"), damaged)),
        ("compress", answer("200 OK", &encoded("compress"), "x")),
        ("thrice", answer("200 OK", &encoded("gzip, gzip, gzip"), gzip.clone())),
    ] {
        let server = Server::fixed(steps).await;
        let result = fetch(&server).await;
        assert!(matches!(result, Err(Error::Encoding { .. })), "{name}: {:?}", result.map(|response| response.status));
    }
    // What ends too early may be whole the next time, whether the length fits or the connection breaks.
    for steps in
        [answer("200 OK", &encoded("gzip"), cut), answer("200 OK", &encoded("br"), &brotli[..brotli.len() / 2])]
    {
        let server = Server::fixed(steps).await;
        assert!(matches!(fetch(&server).await, Err(Error::Broken { .. })));
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{}\r\n", gzip.len(), encoded("gzip"));
    let server = Server::fixed(vec![send(head), send(cut), Step::Close]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Broken { .. })));
}
