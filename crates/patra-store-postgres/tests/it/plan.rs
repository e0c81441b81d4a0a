//! What no operation leads to, or not within the time of a test: these write beside the store.

use std::sync::Arc;

use patra_core::port::query::{Cell, View};
use patra_core::state::{HoldKind, Operation};
use patra_core::tx::{ADVICE_LASTS, LeaseRef, Release, RunStarted, StartRun};
use patra_testkit::contract::{Fixture, Subject, Time, make};

use crate::support::Schema;

/// No operation fails a plan that has tasks, so this writes beside the store.
// covers: ING-5.5-04
#[tokio::test]
async fn a_task_is_executed_only_while_its_plan_is_ready_or_partial() {
    for (status, goes) in [("READY", true), ("PARTIAL", true), ("FAILED", false), ("CANCELLED", false)] {
        let Some(schema) = Schema::new() else { return };
        let fx = Fixture::new(Subject { store: Arc::new(schema.open().await), time: Time::Real });
        fx.plan("a", &make::windows(0, 1)).await;
        let lease = fx.next().await;
        let beside = schema.client().await;
        beside.execute("UPDATE ing_plan SET status_code = $1", &[&status]).await.expect("a status");
        let started = fx.ok(StartRun { lease: LeaseRef::from(&lease) }).await;
        assert_eq!(matches!(started, RunStarted::Go { .. }), goes, "{status}: {started:?}");
        assert_eq!(fx.task_status(&lease).await, if goes { "EXECUTING" } else { "CANCELLED" });
        assert_eq!(fx.rows(View::Runs).await.is_empty(), !goes);
    }
}

/// The contract waits for it on a clock that can be moved.
#[tokio::test]
async fn an_advice_ends_when_it_has_lasted_long_enough() {
    let Some(schema) = Schema::new() else { return };
    let fx = Fixture::new(Subject { store: Arc::new(schema.open().await), time: Time::Real });
    fx.fire("waiting").await;
    fx.ok(make::hold(HoldKind::Advisory, make::partition(Operation::Harvest))).await;
    let beside = schema.client().await;
    let age = async |secs: f64| {
        let made = "UPDATE ing_hold SET created_at = clock_timestamp() - $1::float8 * interval '1 second'";
        beside.execute(made, &[&secs]).await.expect("an age");
    };
    age(ADVICE_LASTS.as_secs_f64() - 60.0).await;
    assert_eq!(fx.take().await, None);
    assert_eq!(fx.rows(View::Holds).await.at(0, "released_by"), Cell::Null);
    age(ADVICE_LASTS.as_secs_f64()).await;
    assert!(fx.take().await.is_some());
    assert_eq!(fx.rows(View::Holds).await.at(0, "released_by"), Cell::Text(Release::BY_TIME.into()));
}
