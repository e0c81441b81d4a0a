//! One connection: requests in, answers out, strictly one after the other, so that pipelined requests are answered in
//! their order. This is the only file that touches a socket, and so the one that misbehaves on the wire.

use std::io;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use super::head::{Head, MAX_BODY_BYTES, MAX_BYTES, Refusal};
use super::reply::{Ending, Reply};
use super::state::State;
use super::target::Target;
use super::{control, data, doors};
use crate::stats::InProgress;
use crate::time::http_date;

/// For a client that neither sends nor reads.
const IDLE: Duration = Duration::from_secs(60);
/// Up to here head and body are copied together: one small write is cheaper than a vectored one.
const SMALL_BYTES: usize = 16 * 1024;

/// Ends when the client goes, an answer closes the connection, or anything is out of order.
pub(super) async fn serve(mut stream: TcpStream, state: Arc<State>) {
    // Without it small answers would wait for the acknowledgement of earlier ones; if it fails they are merely slow.
    let _ = stream.set_nodelay(true);
    let mut buf = BytesMut::with_capacity(4096);
    // An error means that the client is gone, which is its right.
    let _ = exchange(&mut stream, &mut buf, &state).await;
}

async fn exchange(stream: &mut TcpStream, buf: &mut BytesMut, state: &State) -> io::Result<()> {
    let mut out = Vec::new();
    loop {
        let (ending, taken) = match Head::parse(buf) {
            Ok(Some(head)) if head.end() <= buf.len() => {
                let body = &buf[head.len..head.end()];
                (respond(stream, &mut out, state, &head, body).await?, head.end())
            }
            // The head or, of a POST, the body is still on its way.
            Ok(_) => {
                if within(IDLE, stream.read_buf(buf)).await? == 0 {
                    return Ok(());
                }
                continue;
            }
            Err(refusal) => (refuse(stream, &mut out, state, &refusal).await?, 0),
        };
        buf.advance(taken);
        match ending {
            Ending::Keep => {}
            Ending::Close | Ending::Cut => return close(stream).await,
            Ending::Reset => return stream.set_zero_linger(),
        }
    }
}

async fn respond(
    stream: &mut TcpStream,
    out: &mut Vec<u8>,
    state: &State,
    head: &Head<'_>,
    body: &[u8],
) -> io::Result<Ending> {
    state.counters.requests.fetch_add(1, Relaxed);
    let (path, query) = head.path_and_query();
    let target = Target::of(path);
    if !target.serves(head.method) || head.chunked {
        return send(stream, out, unserved(head, target), None).await;
    }
    match target {
        Target::Data(route) => {
            let in_progress = state.counters.enter();
            let reply = data::answer(state, head, body, route).await;
            send(stream, out, kept_or_closed(reply, head), Some(in_progress)).await
        }
        Target::Door(door) => {
            let reply = doors::answer(state, head, body, door).await;
            send(stream, out, kept_or_closed(reply, head), None).await
        }
        Target::Control => {
            let reply = control::answer(state, path, query);
            send(stream, out, kept_or_closed(reply, head), None).await
        }
    }
}

/// Closes, because a body may follow that nobody reads; and to HEAD no body may be sent.
fn unserved(head: &Head<'_>, target: Target<'_>) -> Reply {
    let allowed = target.methods();
    let mut reply = if target.serves(head.method) {
        Reply::error(411, "length_required", "a body needs a Content-Length")
    } else {
        Reply::error(405, "method_not_allowed", &format!("only {allowed} is served")).with_header("Allow", allowed)
    };
    reply.ending = Ending::Close;
    if head.method == "HEAD" {
        reply.body.truncate(0);
    }
    reply
}

async fn refuse(stream: &mut TcpStream, out: &mut Vec<u8>, state: &State, refusal: &Refusal) -> io::Result<Ending> {
    state.counters.requests.fetch_add(1, Relaxed);
    let mut reply = match refusal {
        Refusal::Malformed(why) => Reply::error(400, "bad_request", why),
        Refusal::BodyTooLarge => {
            Reply::error(413, "body_too_large", &format!("a body has at most {MAX_BODY_BYTES} bytes"))
        }
        Refusal::TooLarge => Reply::error(431, "head_too_large", &format!("a head has at most {MAX_BYTES} bytes")),
    };
    reply.ending = Ending::Close;
    send(stream, out, reply, None).await
}

fn kept_or_closed(mut reply: Reply, head: &Head<'_>) -> Reply {
    if reply.ending == Ending::Keep && !head.keep_alive {
        reply.ending = Ending::Close;
    }
    reply
}

/// `out` is room that is used again and again. A request stops counting as in progress just before its last byte goes
/// out: a client that has the whole answer may send the next request before we come back from writing.
async fn send(
    stream: &mut TcpStream,
    out: &mut Vec<u8>,
    mut reply: Reply,
    in_progress: Option<InProgress<'_>>,
) -> io::Result<Ending> {
    if reply.ending == Ending::Reset {
        return Ok(Ending::Reset);
    }
    out.clear();
    write_head(out, &reply)?;
    if let Some(pace) = reply.pace {
        within(IDLE, stream.write_all(out)).await?;
        out.clear();
        while reply.body.remaining() > pace.chunk_bytes {
            time::sleep(pace.pause).await;
            within(IDLE, stream.write_all(&reply.body.copy_to_bytes(pace.chunk_bytes))).await?;
        }
        time::sleep(pace.pause).await;
    } else if reply.body.remaining() > SMALL_BYTES {
        reply.body.push_front(Bytes::copy_from_slice(out));
        out.clear();
        while reply.body.remaining() > 1 {
            let all_but_one = reply.body.remaining() - 1;
            within(IDLE, stream.write_buf(&mut (&mut reply.body).take(all_but_one))).await?;
        }
    }
    while reply.body.has_remaining() {
        out.extend_from_slice(reply.body.chunk());
        reply.body.advance(reply.body.chunk().len());
    }
    drop(in_progress);
    within(IDLE, stream.write_all(out)).await?;
    Ok(reply.ending)
}

fn write_head(out: &mut Vec<u8>, reply: &Reply) -> io::Result<()> {
    let (status, reason, promised, headers) = (reply.status, reply.reason(), reply.promised, &reply.headers);
    let kind = reply.content_type;
    let date = http_date(data::wall_clock().as_secs() as i64);
    let connection = if reply.ending == Ending::Close { "Connection: close\r\n" } else { "" };
    write!(
        out,
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {promised}\r\nDate: {date}\r\n{headers}{connection}\r\n"
    )
}

/// Says goodbye and waits a moment for the client to hear it: closing with unread bytes would reset the connection
/// and could take the answer away with it.
async fn close(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    let drain = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    // When the moment is over, so is the connection.
    let _ = time::timeout(Duration::from_millis(500), drain).await;
    Ok(())
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    time::timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
