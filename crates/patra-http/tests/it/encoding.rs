use std::time::Duration;

use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder};
use patra_core::port::transport::{Error, HttpRequest, Transport};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::server::{ServerStep, TestServer, chunked, client, fetch, get, reply, send};

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
        // The default level is too slow for tests.
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
async fn bodies_are_decompressed() {
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
        let mut compressed = text.clone();
        for layer in &layers {
            compressed = pack(layer, &compressed).await;
        }
        for steps in [reply("200 OK", &encoded(coding), &compressed), chunked(&encoded(coding), compressed.chunks(999))]
        {
            let server = TestServer::fixed(steps).await;
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

/// Without `Accept-Encoding`, a server that compresses the body anyway is still understood.
#[tokio::test]
async fn without_compression_identity_is_requested() {
    let compressed = pack("gzip", b"compressed all the same").await;
    let server = TestServer::fixed(reply("200 OK", &encoded("gzip"), compressed)).await;
    let request = HttpRequest { compression: false, ..get(server.url("/")) };
    assert_eq!(client().send(request).await.unwrap().body, "compressed all the same");
    let sent = &server.requests()[0];
    assert!(sent.contains("accept-encoding: identity\r\n"), "{sent}");
}

#[tokio::test]
async fn small_and_unusual_bodies_are_decompressed() {
    let two = [pack("gzip", b"one, ").await, pack("gzip", b"two").await].concat();
    let nothing = pack("gzip", b"").await;
    let short = pack("zlib", b"x").await;
    for (coding, steps, expected) in [
        ("members", reply("200 OK", &encoded("gzip"), two), "one, two"),
        ("nothing", reply("200 OK", &encoded("gzip"), nothing), ""),
        ("no body", reply("200 OK", &encoded("gzip"), ""), ""),
        ("304", vec![send("HTTP/1.1 304 Not Modified\r\ncontent-encoding: br\r\n\r\n")], ""),
        ("bytewise", chunked(&encoded("deflate"), short.chunks(1)), "x"),
        ("identity", reply("200 OK", &encoded("identity"), "plain"), "plain"),
    ] {
        let server = TestServer::fixed(steps).await;
        assert_eq!(fetch(&server).await.unwrap().body, expected, "{coding}");
    }
}

#[tokio::test]
async fn invalid_compression_is_an_encoding_error() {
    let gzip = pack("gzip", &text()).await;
    let mut damaged = gzip.clone();
    damaged[gzip.len() - 6] ^= 1;
    let cut = &gzip[..gzip.len() / 2];
    let brotli = pack("br", &text()).await;
    for (name, steps) in [
        ("not gzip", reply("200 OK", &encoded("gzip"), "<html>not at all</html>")),
        ("not brotli", reply("200 OK", &encoded("br"), [0xff; 64])),
        ("checksum", reply("200 OK", &encoded("gzip"), damaged)),
        ("compress", reply("200 OK", &encoded("compress"), "x")),
        ("thrice", reply("200 OK", &encoded("gzip, gzip, gzip"), gzip.clone())),
    ] {
        let server = TestServer::fixed(steps).await;
        let result = fetch(&server).await;
        assert!(matches!(result, Err(Error::Encoding { .. })), "{name}: {:?}", result.map(|response| response.status));
    }
    // A truncated body may be complete the next time, whether the length fits or the connection breaks.
    for steps in [reply("200 OK", &encoded("gzip"), cut), reply("200 OK", &encoded("br"), &brotli[..brotli.len() / 2])]
    {
        let server = TestServer::fixed(steps).await;
        assert!(matches!(fetch(&server).await, Err(Error::Broken { .. })));
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{}\r\n", gzip.len(), encoded("gzip"));
    let server = TestServer::fixed(vec![send(head), send(cut), ServerStep::Close]).await;
    assert!(matches!(fetch(&server).await, Err(Error::Broken { .. })));
}
