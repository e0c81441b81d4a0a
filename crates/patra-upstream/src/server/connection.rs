//! One connection: requests are handled strictly one after the other, so that responses to pipelined requests are in
//! order. This is the only file that touches a socket, so connection faults are produced here.

use std::io;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use super::head::{HeadError, MAX_BODY_BYTES, MAX_BYTES, RequestHead};
use super::reply::{ConnectionEnd, MockReply};
use super::state::ServerState;
use super::target::RequestTarget;
use super::{auth_routes, control, data};
use crate::stats::InProgress;
use crate::time::http_date;

/// Timeout for a client that neither sends nor reads.
const IDLE: Duration = Duration::from_secs(60);
/// Responses up to this size are copied into one buffer: one small write is cheaper than a vectored one.
const SMALL_BYTES: usize = 16 * 1024;

/// Serves until the client disconnects, a response closes the connection, or an error occurs.
pub(super) async fn serve(mut stream: TcpStream, state: Arc<ServerState>) {
    // Without it small responses would wait for the acknowledgement of earlier ones; if it fails they are merely slow.
    let _ = stream.set_nodelay(true);
    let mut buf = BytesMut::with_capacity(4096);
    // An error means that the client has disconnected.
    let _ = exchange(&mut stream, &mut buf, &state).await;
}

async fn exchange(stream: &mut TcpStream, buf: &mut BytesMut, state: &ServerState) -> io::Result<()> {
    let mut out = Vec::new();
    loop {
        let (ending, taken) = match RequestHead::parse(buf) {
            Ok(Some(head)) if head.end() <= buf.len() => {
                let body = &buf[head.len..head.end()];
                (respond(stream, &mut out, state, &head, body).await?, head.end())
            }
            // The head, or the body of a POST, is not complete yet.
            Ok(_) => {
                if with_timeout(IDLE, stream.read_buf(buf)).await? == 0 {
                    return Ok(());
                }
                continue;
            }
            Err(refusal) => (refuse(stream, &mut out, state, &refusal).await?, 0),
        };
        buf.advance(taken);
        match ending {
            ConnectionEnd::Keep => {}
            ConnectionEnd::Close | ConnectionEnd::Cut => return close(stream).await,
            ConnectionEnd::Reset => return stream.set_zero_linger(),
        }
    }
}

async fn respond(
    stream: &mut TcpStream,
    out: &mut Vec<u8>,
    state: &ServerState,
    head: &RequestHead<'_>,
    body: &[u8],
) -> io::Result<ConnectionEnd> {
    state.counters.requests.fetch_add(1, Relaxed);
    let (path, query) = head.path_and_query();
    let target = RequestTarget::of(path);
    if !target.serves(head.method) || head.chunked {
        return send(stream, out, method_error(head, target), None).await;
    }
    match target {
        RequestTarget::Data(route) => {
            let in_progress = state.counters.enter();
            let reply = data::respond(state, head, body, route).await;
            send(stream, out, respect_keep_alive(reply, head), Some(in_progress)).await
        }
        RequestTarget::Auth(route) => {
            let reply = auth_routes::respond(state, head, body, route).await;
            send(stream, out, respect_keep_alive(reply, head), None).await
        }
        RequestTarget::Control => {
            let reply = control::respond(state, path, query);
            send(stream, out, respect_keep_alive(reply, head), None).await
        }
    }
}

/// The response for an unsupported method or encoding. It closes the connection, because an unread body may follow; a
/// HEAD response has no body.
fn method_error(head: &RequestHead<'_>, target: RequestTarget<'_>) -> MockReply {
    let allowed = target.methods();
    let mut reply = if target.serves(head.method) {
        MockReply::error(411, "length_required", "a body needs a Content-Length")
    } else {
        MockReply::error(405, "method_not_allowed", &format!("only {allowed} is served")).with_header("Allow", allowed)
    };
    reply.ending = ConnectionEnd::Close;
    if head.method == "HEAD" {
        reply.body.truncate(0);
    }
    reply
}

async fn refuse(
    stream: &mut TcpStream,
    out: &mut Vec<u8>,
    state: &ServerState,
    refusal: &HeadError,
) -> io::Result<ConnectionEnd> {
    state.counters.requests.fetch_add(1, Relaxed);
    let mut reply = match refusal {
        HeadError::Malformed(why) => MockReply::error(400, "bad_request", why),
        HeadError::BodyTooLarge => {
            MockReply::error(413, "body_too_large", &format!("a body has at most {MAX_BODY_BYTES} bytes"))
        }
        HeadError::TooLarge => {
            MockReply::error(431, "head_too_large", &format!("a head has at most {MAX_BYTES} bytes"))
        }
    };
    reply.ending = ConnectionEnd::Close;
    send(stream, out, reply, None).await
}

fn respect_keep_alive(mut reply: MockReply, head: &RequestHead<'_>) -> MockReply {
    if reply.ending == ConnectionEnd::Keep && !head.keep_alive {
        reply.ending = ConnectionEnd::Close;
    }
    reply
}

/// Sends a reply. `out` is a reused buffer. A request stops counting as in progress just before its last byte is
/// written: a client with the whole response may send the next request before the write returns.
async fn send(
    stream: &mut TcpStream,
    out: &mut Vec<u8>,
    mut reply: MockReply,
    in_progress: Option<InProgress<'_>>,
) -> io::Result<ConnectionEnd> {
    if reply.ending == ConnectionEnd::Reset {
        return Ok(ConnectionEnd::Reset);
    }
    out.clear();
    write_head(out, &reply)?;
    if let Some(pace) = reply.slow {
        with_timeout(IDLE, stream.write_all(out)).await?;
        out.clear();
        while reply.body.remaining() > pace.chunk_bytes {
            time::sleep(pace.pause).await;
            with_timeout(IDLE, stream.write_all(&reply.body.copy_to_bytes(pace.chunk_bytes))).await?;
        }
        time::sleep(pace.pause).await;
    } else if reply.body.remaining() > SMALL_BYTES {
        reply.body.push_front(Bytes::copy_from_slice(out));
        out.clear();
        while reply.body.remaining() > 1 {
            let all_but_one = reply.body.remaining() - 1;
            with_timeout(IDLE, stream.write_buf(&mut (&mut reply.body).take(all_but_one))).await?;
        }
    }
    while reply.body.has_remaining() {
        out.extend_from_slice(reply.body.chunk());
        reply.body.advance(reply.body.chunk().len());
    }
    drop(in_progress);
    with_timeout(IDLE, stream.write_all(out)).await?;
    Ok(reply.ending)
}

fn write_head(out: &mut Vec<u8>, reply: &MockReply) -> io::Result<()> {
    let (status, reason, promised, headers) = (reply.status, reply.reason(), reply.content_length, &reply.headers);
    let kind = reply.content_type;
    let date = http_date(data::wall_clock().as_secs() as i64);
    let connection = if reply.ending == ConnectionEnd::Close { "Connection: close\r\n" } else { "" };
    write!(
        out,
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {promised}\r\nDate: {date}\r\n{headers}{connection}\r\n"
    )
}

/// Shuts the connection down and waits briefly for the client: closing with unread bytes would reset the connection and
/// could discard the response.
async fn close(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    let drain = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    // After the timeout the connection is dropped.
    let _ = time::timeout(Duration::from_millis(500), drain).await;
    Ok(())
}

async fn with_timeout<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    time::timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
