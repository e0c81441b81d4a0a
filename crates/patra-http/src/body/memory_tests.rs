use std::time::Duration;

use tokio::sync::Mutex;

use super::*;

/// The budget is that of the process: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

fn free() -> usize {
    BUDGET.available_permits() * UNIT
}

#[tokio::test(start_paused = true)]
async fn small_body_takes_no_share() {
    let _alone = ALONE.lock().await;
    let mut share = BodyShare::new(16 << 20, 0, soon());
    share.cover(SMALL_BODY).await.unwrap();
    assert_eq!(free(), BODY_BUDGET);
    assert_eq!(share.hold(vec![1; 3]), vec![1; 3]);
}

#[tokio::test(start_paused = true)]
async fn large_body_holds_its_share_until_its_bytes_are_dropped() {
    let _alone = ALONE.lock().await;
    let mut share = BodyShare::new(16 << 20, 1, soon());
    share.cover(SMALL_BODY + 1).await.unwrap();
    assert_eq!(free(), BODY_BUDGET - (32 << 20), "the body and the window of its decoder");
    let body = share.hold(vec![7; 2 << 20]);
    assert_eq!(free(), BODY_BUDGET - (2 << 20), "what it did not need is returned");
    let slice = body.slice(5..9);
    drop(body);
    assert_eq!(free(), BODY_BUDGET - (2 << 20), "a record of the page still uses the bytes");
    drop(slice);
    assert_eq!(free(), BODY_BUDGET);
}

#[tokio::test(start_paused = true)]
async fn share_that_is_not_granted_in_time_is_an_error_and_is_granted_later() {
    let _alone = ALONE.lock().await;
    let mut all = BodyShare::new(256 << 20, 2, soon());
    all.cover(SMALL_BODY + 1).await.unwrap();
    assert_eq!(free(), 0, "a body that may be larger than the budget is alone");
    let mut next = BodyShare::new(4 << 20, 0, soon());
    assert_eq!(next.cover(SMALL_BODY + 1).await, Err(Error::NoMemory { budget: BODY_BUDGET }));
    drop(all);
    let mut again = BodyShare::new(4 << 20, 0, soon());
    again.cover(SMALL_BODY + 1).await.unwrap();
    again.cover(3 << 20).await.unwrap();
    assert_eq!(free(), BODY_BUDGET - (4 << 20));
    drop(again);
    assert_eq!(free(), BODY_BUDGET);
}
