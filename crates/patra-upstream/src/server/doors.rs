//! The doors at which one gets what data requests must show: `/oauth/token`, `/login`, `/sign`. They have faults of their
//! own, so that a test can tell a far side that is down from one whose doors are.

mod login;
mod sign;
mod token;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::head::Head;
use super::reply::Reply;
use super::state::State;
use super::target::Door;

pub(super) async fn answer(state: &State, head: &Head<'_>, body: &[u8], door: Door) -> Reply {
    let number = state.doors.fetch_add(1, Relaxed) + 1;
    let script = state.script();
    if script.door_latency_ms > 0 {
        tokio::time::sleep(Duration::from_millis(script.door_latency_ms)).await;
    }
    if script.door_e500.falls_on(number) {
        return Reply::error(500, "internal", "failed on purpose");
    }
    match door {
        Door::Token => token::answer(state, &script.oauth, head, body),
        Door::Login => login::answer(state, &script.login, body),
        Door::Sign => sign::answer(state, &script.signing, head, body),
    }
}
