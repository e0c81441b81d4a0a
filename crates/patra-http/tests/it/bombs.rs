//! Compression bombs: bodies that are small on the wire and huge once decompressed.

use std::process::Command;
use std::time::{Duration, Instant};

use async_compression::tokio::write::GzipEncoder;
use patra_core::port::transport::{Error, TransferLimits, Transport};
use tokio::io::AsyncWriteExt;

use crate::encoding::{encoded, pack};
use crate::server::{TestServer, chunked, client, fetch, get, reply};
use crate::zstd;

const CAP: usize = 16 << 20;

/// A gzip stream of 2 MB that expands to 2 GB of zeros, made by repeating a block of 1 MiB.
async fn gzip_bomb() -> Vec<u8> {
    let zeros = vec![0; 1 << 20];
    let mut encoder = GzipEncoder::with_quality(Vec::new(), async_compression::Level::Best);
    encoder.write_all(&zeros).await.unwrap();
    encoder.flush().await.unwrap();
    let start = encoder.get_ref().len();
    encoder.write_all(&zeros).await.unwrap();
    encoder.flush().await.unwrap();
    let mut bomb = encoder.into_inner();
    let block = bomb[start..].to_vec();
    assert!(block.len() < 2_000, "{}", block.len());
    for _ in 0..2_046 {
        bomb.extend_from_slice(&block);
    }
    bomb
}

/// 80 KB that expand to 2.6 GB; the decoder returns nothing before a window of 8 MiB is full.
fn zstd_bomb() -> Vec<u8> {
    zstd::frame(23, &vec![zstd::repeat(128 << 10, 0); 20_000])
}

#[expect(clippy::disallowed_methods, reason = "the test is about how long it takes")]
fn now() -> Instant {
    Instant::now()
}

/// The decoded amount cannot be observed, so the time is measured. Decoding everything takes far longer.
async fn goes_off(name: &str, coding: &str, body: &[u8]) -> Error {
    for steps in [reply("200 OK", &encoded(coding), body), chunked(&encoded(coding), body.chunks(100_000))] {
        let server = TestServer::fixed(steps).await;
        let started = now();
        let error = fetch(&server).await.expect_err(name);
        assert!(started.elapsed() < Duration::from_secs(10), "{name} took {:?}", started.elapsed());
        assert!(matches!(error, Error::Encoding { .. } | Error::TooLarge { .. }), "{name}: {error}");
    }
    let server = TestServer::fixed(reply("200 OK", &encoded(coding), body)).await;
    fetch(&server).await.expect_err(name)
}

#[tokio::test]
async fn compression_bomb_stops_at_the_ratio() {
    let zeros = vec![0; 64 << 20];
    let gzip = gzip_bomb().await;
    let members = pack("gzip", &zeros[..8 << 20]).await.repeat(200);
    let zlib = pack("zlib", &zeros).await;
    let raw = pack("raw", &zeros).await;
    let brotli = pack("br", &zeros).await;
    let nested = pack("br", &pack("gzip", &zeros).await).await;
    // Empty blocks: the inner layer would process gigabytes of them without a byte of output.
    let silent = pack("gzip", &[0, 0, 0, 0xff, 0xff].repeat(4 << 20)).await;
    let zstd = pack("zstd", &zeros).await;
    let window = zstd_bomb();
    let frames = zstd::frame(17, &[zstd::repeat(128 << 10, 0)]).repeat(20_000);
    let mute = pack("gzip", &[zstd::head(23), vec![0; 21 << 20]].concat()).await;
    let void = pack("gzip", &zstd::frame(23, &[zstd::raw(b"")]).repeat(3 << 20)).await;
    for (name, coding, body) in [
        ("gzip", "gzip", gzip),
        ("members", "gzip", members),
        ("zlib", "deflate", zlib),
        ("raw", "deflate", raw),
        ("brotli", "br", brotli),
        ("nested", "gzip, br", nested),
        ("silent", "deflate, gzip", silent),
        ("zstd", "zstd", zstd),
        ("window", "zstd", window),
        ("frames", "zstd", frames),
        ("mute", "zstd, gzip", mute),
        ("void", "zstd, gzip", void),
    ] {
        let error = goes_off(name, coding, &body).await;
        assert!(error.to_string().contains("200 times"), "{name}: {error}");
    }
}

/// A body within the ratio still stops at the cap.
#[tokio::test]
async fn a_large_body_stops_at_the_cap() {
    let line: Vec<u8> = (0..2_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let body = line.repeat(6_000_000 / line.len());
    for (name, coding) in [("gzip", "gzip"), ("zlib", "deflate"), ("raw", "deflate"), ("br", "br"), ("zstd", "zstd")] {
        let compressed = pack(name, &body).await;
        let server = TestServer::fixed(reply("200 OK", &encoded(coding), &compressed)).await;
        for (cap, fits) in [(body.len(), true), (body.len() - 1, false), (compressed.len() - 1, false)] {
            let mut request = get(server.url("/"));
            request.limits = TransferLimits { max_body: cap, ..request.limits };
            match client().send(request).await {
                Ok(response) => assert!(fits && response.body == body, "{name} {cap}"),
                Err(error) => assert!(!fits && error == Error::TooLarge { limit: cap }, "{name} {cap}: {error}"),
            }
        }
    }
}

#[test]
fn compression_bomb_does_not_fill_memory() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "bombs::memory_in_a_process_of_its_own"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
#[ignore = "run by the test above, where no other test adds to the memory"]
fn memory_in_a_process_of_its_own() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let line: Vec<u8> = (0..2_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        let large = pack("gzip", &line.repeat(4_000)).await;
        let zstd = pack("zstd", &line.repeat(4_000)).await;
        for (name, coding, bomb, buffered) in [
            ("bomb", "gzip", gzip_bomb().await, 0),
            ("large", "gzip", large, 0),
            // zstd keeps a window of decoded data, and sometimes allocates a larger one.
            ("zstd bomb", "zstd", zstd_bomb(), 8 << 20),
            ("zstd", "zstd", zstd, 8 << 20),
        ] {
            let server = TestServer::fixed(reply("200 OK", &encoded(coding), &bomb)).await;
            drop(bomb);
            forget_peak();
            let before = peak_memory();
            fetch(&server).await.expect_err(name);
            let grown = peak_memory() - before;
            assert!(grown <= CAP + (8 << 20) + buffered, "{name}: {grown} bytes");
        }
    });
}

fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Resets the peak to the memory in use now.
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}
