//! zstd, byte by byte: hand-made frames, and two from the reference encoder.

use patra_core::port::transport::{Error, HttpResponse};

use crate::encoding::encoded;
use crate::server::{TestServer, chunked, fetch, reply};

/// Made with `zstd -19`: single segment, content size and a checksum.
const LINES: &[u8] = include_bytes!("zstd/lines.zst");
/// Made with `zstd -3 --no-check` from a pipe: window, no content size, no checksum.
const STREAM: &[u8] = include_bytes!("zstd/stream.zst");

/// A frame header with a window of 2^`log` bytes and no other field.
pub(crate) fn head(log: u8) -> Vec<u8> {
    vec![0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3]
}

/// A raw block.
pub(crate) fn raw(content: &[u8]) -> Vec<u8> {
    [&block(content.len(), 0)[..], content].concat()
}

/// An RLE block: `count` times the same byte.
pub(crate) fn repeat(count: usize, byte: u8) -> Vec<u8> {
    [&block(count, 1)[..], &[byte]].concat()
}

fn block(size: usize, kind: u8) -> [u8; 3] {
    let head = u32::try_from(size << 3).unwrap() | u32::from(kind << 1);
    let [a, b, c, _] = head.to_le_bytes();
    [a, b, c]
}

/// A frame of these blocks.
pub(crate) fn frame(log: u8, blocks: &[Vec<u8>]) -> Vec<u8> {
    with_head(&head(log), blocks)
}

fn with_head(head: &[u8], blocks: &[Vec<u8>]) -> Vec<u8> {
    let (last, before) = blocks.split_last().unwrap();
    let mut last = last.clone();
    last[0] |= 1;
    [head.to_vec(), before.concat(), last].concat()
}

/// A single-segment frame with an announced content size of `size` bytes.
fn sized(size: u8, content: &[u8]) -> Vec<u8> {
    with_head(&[0x28, 0xb5, 0x2f, 0xfd, 0x20, size], &[raw(content)])
}

fn skippable(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_le_bytes();
    [&[0x5a, 0x2a, 0x4d, 0x18], &length[..], content].concat()
}

fn lines() -> String {
    (0..400u32).map(|i| format!("{{\"id\":{i},\"v\":{}}}\n", i.wrapping_mul(2_654_435_761))).collect()
}

async fn unpack(body: &[u8]) -> Result<HttpResponse, Error> {
    fetch(&TestServer::fixed(reply("200 OK", &encoded("zstd"), body)).await).await
}

#[tokio::test]
async fn frames_of_every_kind_are_decompressed() {
    let lines = lines();
    for (name, body, expected) in [
        ("lines", LINES.to_vec(), lines.clone()),
        ("stream", STREAM.to_vec(), lines.clone()),
        ("two", [LINES, STREAM].concat(), lines.repeat(2)),
        ("raw", frame(10, &[raw(b"one, "), raw(b""), raw(b"two")]), "one, two".to_owned()),
        ("repeated", frame(10, &[repeat(5, b'x'), raw(b"y")]), "xxxxxy".to_owned()),
        ("largest window", frame(23, &[raw(b"x")]), "x".to_owned()),
        ("skippable", [skippable(b"note"), sized(1, b"x"), skippable(b"")].concat(), "x".to_owned()),
        ("only a note", skippable(&[0; 70_000]), String::new()),
        ("empty", frame(10, &[raw(b"")]), String::new()),
    ] {
        assert_eq!(unpack(&body).await.expect(name).body, expected, "{name}");
        for size in [1, 7, 1000] {
            let server = TestServer::fixed(chunked(&encoded("zstd"), body.chunks(size.max(body.len() / 500)))).await;
            assert_eq!(fetch(&server).await.expect(name).body, expected, "{name} in pieces");
        }
    }
}

#[tokio::test]
async fn rejected_zstd_has_a_reason() {
    let mut checksum = LINES.to_vec();
    *checksum.last_mut().unwrap() ^= 1;
    let garbage = frame(17, &[[&block(20, 2)[..], &[0xff; 20]].concat()]);
    let dictionary = [&[0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 1], &raw(b"x")[..]].concat();
    let one_segment = [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0], &((8u32 << 20) + 1).to_le_bytes()[..], &raw(b"x")].concat();
    for (body, reason) in [
        (&b"<html>not at all</html>"[..], "it is not zstd"),
        (&[LINES, b"<html>"].concat(), "it is not zstd"),
        (&checksum, "its zstd checksum does not fit"),
        (&garbage, "the zstd data is damaged"),
        (&frame(24, &[raw(b"x")]), "its zstd window is larger than 8 MiB"),
        (&frame(40, &[raw(b"x")]), "its zstd window is larger than 8 MiB"),
        (&one_segment, "its zstd window is larger than 8 MiB"),
        (&dictionary, "it needs a zstd dictionary"),
        (&sized(2, b"x"), "its length differs from the zstd header"),
        (&sized(9, b""), "its length differs from the zstd header"),
        (&frame(20, &[raw(&[0; (128 << 10) + 1])]), "a zstd block is larger than the format allows"),
        (&frame(20, &[repeat((128 << 10) + 1, 0)]), "a zstd block is larger than the format allows"),
        (&frame(10, &[raw(&[0; 2000])]), "the zstd data is damaged"),
        (&[head(10), vec![7, 0, 0]].concat(), "the zstd data is damaged"),
    ] {
        let error = unpack(body).await.expect_err(reason);
        assert_eq!(error, Error::Encoding { reason: reason.to_owned() });
    }
}

/// A truncation at any byte is detected: half a body must never pass for the whole.
#[tokio::test]
async fn a_frame_that_ends_early_is_broken() {
    let whole = [skippable(b"note"), LINES.to_vec()].concat();
    let places = (1..40).chain((40..whole.len()).step_by(61)).chain(whole.len() - 9..whole.len());
    // After the first frame the data is complete.
    for place in places.filter(|place| *place != 12) {
        let error = unpack(&whole[..place]).await.expect_err("cut");
        assert!(matches!(error, Error::Broken { .. }), "cut at {place}: {error}");
    }
}
