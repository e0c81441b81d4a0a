//! From a job to a plan, to children, or to a reason why not.

use super::*;
use crate::protocol::planner::pace::SOON;

// covers: ING-6.1-01, ING-6.1-07, ING-8.1-03, ING-5.5-03, ING-4.4-03
#[test]
fn the_first_plan_goes_from_the_initial_time_to_the_safety_barrier_in_whole_seconds() {
    let save = plan(claimed(), &fresh());
    assert_eq!(windows(&save), [w(100, 400), w(400, 700), w(700, 940)]);
    assert_eq!(new_plan(&save).window, Some(w(100, 940)));
    assert_eq!((save.origin, save.epoch, save.complete), (Some(at(100)), 0, true));
}

// covers: ING-3.3-05, ING-3.6-02, ING-3.10-01, ING-3.10-03, ING-8.1-01, ING-8.1-02, ING-8.1-05, ING-14.3-07
#[test]
fn plan_records_its_snapshot_and_tasks_carry_the_params() {
    let save = plan(claimed(), &fresh());
    let remarks = remarks(&save);
    assert_eq!(remarks["labels"]["hash"], "s");
    assert_eq!(remarks["warnings"][0], "no total");
    assert_eq!((&remarks["partition"]["user"], &remarks["params"]["lang"]), (&json!("7"), &json!("en")));
    assert_eq!(remarks["budget"], json!({ "maxRequests": 800, "maxDurationSec": 900, "priority": 100, "qps": 5.0 }));
    assert!(["totalEstimated", "sliceCount", "window", "degradation"].iter().all(|name| remarks.get(name).is_some()));
    assert_eq!(new_plan(&save).snapshot_hash, "s");
    assert_eq!(save.credential, Some(CredentialId(3)));
    for slice in &save.slices {
        assert_eq!(crate::params::of_task(&slice.task_params).unwrap(), draft(&claimed()).context.params);
    }
}

// covers: ING-6.1-01
#[test]
fn only_gaps_are_planned() {
    let save = plan(claimed(), &known(Some(300), vec![w(400, 500), w(800, 900)]));
    assert_eq!(windows(&save), [w(300, 400), w(500, 800), w(900, 940)]);
    assert_eq!(new_plan(&save).window, Some(w(300, 940)));
    assert_eq!((save.origin, save.epoch), (Some(at(100)), 3));

    let save = plan(claimed(), &known(None, vec![w(100, 900)]));
    assert_eq!(windows(&save), [w(900, 940)]);
}

#[test]
fn a_namespace_that_is_covered_up_to_the_barrier_needs_no_plan() {
    let done = planned(Options::new("me"), claimed(), &known(Some(300), vec![w(300, 2_000)]));
    assert!(matches!(done, Err(JobSettlement::Nothing { .. })), "{done:?}");
    let ahead = planned(Options::new("me"), claimed(), &known(Some(940), Vec::new()));
    assert!(matches!(ahead, Err(JobSettlement::Nothing { .. })), "{ahead:?}");
}

// covers: ING-5.2-04, ING-8.5-02, ING-12.4-03, ING-DOD-01
#[test]
fn queue_limit_splits_a_plan_into_parts() {
    let options = Options { inventory: 5, ..Options::new("me") };
    let save = planned(options.clone(), claimed(), &Coverage { queued: 4, ..fresh() }).expect("a first part");
    assert_eq!(windows(&save), [w(100, 400)]);
    assert_eq!((save.complete, save.resume_delay), (false, SOON));
    assert_eq!(new_plan(&save).window, Some(w(100, 940)), "the plan's window is the whole of it");

    let full = planned(options.clone(), claimed(), &Coverage { queued: 5, ..fresh() });
    assert_eq!(full, Err(JobSettlement::Later { delay: SOON }));

    // The later part continues the plan and its window, whatever the barrier is by then.
    let open = OpenPlan { plan: PlanId(8), snapshot_hash: "s".into(), rest: RemainingPlan::Time(w(100, 940)) };
    let again = ClaimedJob { plan: Some(open), ..claimed() };
    let later = Coverage { now: at(90_000), ..known(None, vec![w(100, 400)]) };
    let save = plan(again.clone(), &later);
    assert_eq!(windows(&save), [w(400, 700), w(700, 940)]);
    assert!(save.complete && save.target == PlanTarget::Existing(PlanId(8)));

    // Another planner did the rest: it is closed with an empty part.
    let save = plan(again.clone(), &Coverage { covered: vec![w(100, 1_000)], ..later.clone() });
    assert!(save.complete && save.slices.is_empty());

    // So it is when its last part reached the end, even with windows that failed meanwhile.
    let open = again.plan.map(|open| OpenPlan { rest: RemainingPlan::Time(w(940, 940)), ..open });
    let save = plan(ClaimedJob { plan: open, ..claimed() }, &later);
    assert!(save.complete && save.slices.is_empty() && save.target == PlanTarget::Existing(PlanId(8)));
}

// covers: ING-5.2-03
#[test]
fn a_planner_that_was_overtaken_reads_again() {
    let mut driver = Driver::reading(Options::new("me"), claimed());
    driver.covered(&known(None, Vec::new()));
    let wants = driver.err(TxError::Conflict);
    assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]), "{wants:?}");
    let wants = driver.ok(Done::ReadCoverage(Coverage { epoch: 4, ..known(None, vec![w(100, 700)]) }));
    assert!(matches!(&wants[..], [Want::Tx(Tx::SavePlan(save))] if save.epoch == 4 && save.slices.len() == 1));
    let saved = PlanSaved { plan: PlanId(1), cursor: CursorId(4), created: 1, existing: 0 };
    let wants = driver.ok(Done::SavePlan(saved));
    assert!(matches!(&wants[..], [Want::Queued, Want::Tx(Tx::ClaimJob(_))]), "{wants:?}");
}

#[test]
fn job_that_conflicts_repeatedly_is_deferred() {
    let mut driver = Driver::reading(Options::new("me"), claimed());
    driver.covered(&fresh());
    for _ in 0..MAX_CONFLICTS {
        driver.err(TxError::Conflict);
        driver.ok(Done::ReadCoverage(fresh()));
    }
    assert_is_put_off(&driver.err(TxError::Conflict));
}

/// The caller would otherwise wait for the lease to expire.
fn assert_is_put_off(wants: &[Want]) {
    let outcome = outcome(wants);
    assert!(matches!(outcome, Err(JobSettlement::Later { delay }) if delay < Duration::from_secs(20)), "{outcome:?}");
}

#[test]
fn store_outage_defers_the_current_job() {
    for error in [TxError::Busy, TxError::Unavailable("gone".into()), TxError::Unknown("lost".into())] {
        let mut driver = Driver::reading(Options::new("me"), claimed());
        assert_is_put_off(&driver.err(error.clone()));
        let mut driver = Driver::reading(Options::new("me"), claimed());
        driver.covered(&fresh());
        assert_is_put_off(&driver.err(error.clone()));
        // Nor can it be settled: the lease expires.
        assert!(driver.err(error).is_empty());
        assert!(driver.0.is_idle() && driver.0.wake_at() > HERE);
    }
}

// covers: ING-12.1-05
#[test]
fn job_that_cannot_be_compiled_is_refused_with_the_reason() {
    let mut driver = Driver(Planner::new(Options::new("me"), Rng::new(1), HERE));
    driver.0.poll(HERE, &mut Vec::new());
    driver.ok(Done::FireDue(FiredDue { fired: 1, next_due: Some(DB_NOW), now: DB_NOW }));
    driver.ok(Done::ClaimJob(Some(Box::new(claimed()))));
    let wants = driver.on(PlannerInput::Compiled(Err("no such endpoint".into())));
    let [Want::Tx(Tx::SettleJob(settle))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(settle.settlement, JobSettlement::Refused { error: "no such endpoint".into() });
    let wants = driver.ok(Done::SettleJob(JobSettled));
    assert!(matches!(&wants[..], [Want::Tx(Tx::ClaimJob(_))]));
}

#[test]
fn store_outage_while_compiling_defers_the_job() {
    let mut driver = Driver(Planner::new(Options::new("me"), Rng::new(1), HERE));
    driver.0.poll(HERE, &mut Vec::new());
    driver.ok(Done::FireDue(FiredDue { fired: 1, next_due: Some(DB_NOW), now: DB_NOW }));
    driver.ok(Done::ClaimJob(Some(Box::new(claimed()))));
    let wants = driver.on(PlannerInput::Compiled(Err(TxError::Busy.into())));
    let [Want::Tx(Tx::SettleJob(settle))] = &wants[..] else { panic!("{wants:?}") };
    assert!(matches!(settle.settlement, JobSettlement::Later { .. }));
}

#[test]
fn plan_refused_by_the_store_refuses_the_job() {
    let mut driver = Driver::reading(Options::new("me"), claimed());
    driver.covered(&fresh());
    let wants = driver.err(TxError::Refused("broken".into()));
    let [Want::Tx(Tx::SettleJob(settle))] = &wants[..] else { panic!("{wants:?}") };
    assert!(matches!(&settle.settlement, JobSettlement::Refused { error } if error.contains("broken")));
}

// covers: ING-5.5-03, ING-5.2-02
#[test]
fn requested_window_is_clipped_at_the_barrier() {
    let requested = |from, to| ClaimedJob { window_from: Some(at(from)), window_to: Some(at(to)), ..claimed() };
    let save = plan(requested(800, 2_000), &fresh());
    assert_eq!(windows(&save), [w(800, 940)]);
    assert_eq!(windows(&plan(requested(500, 600), &fresh())), [w(500, 600)]);
    let beyond = planned(Options::new("me"), requested(940, 2_000), &fresh());
    assert!(matches!(beyond, Err(JobSettlement::Nothing { .. })));
}

#[test]
fn later_requested_window_does_not_move_the_origin() {
    let requested = |from| ClaimedJob { window_from: Some(at(from)), ..claimed() };
    assert_eq!(plan(requested(800), &fresh()).origin, Some(at(100)), "the part before is still to be read");
    assert_eq!(plan(requested(50), &fresh()).origin, Some(at(50)), "an earlier request widens it");
}

// covers: ING-8.0-01, ING-11.3-01, ING-11.3-02, ING-8.2-11
#[test]
fn the_same_state_gives_the_same_task_keys_and_a_later_one_gives_others() {
    let state = known(None, Vec::new());
    let (one, two) = (plan(claimed(), &state), plan(ClaimedJob { fence: Fence(2), ..claimed() }, &state));
    assert_eq!(keys(&one), keys(&two));
    let later = plan(claimed(), &Coverage { epoch: 4, ..state.clone() });
    assert!(keys(&one).iter().all(|key| !keys(&later).contains(key)));
    let signatures = |save: &SavePlan| save.slices.iter().map(|slice| slice.signature.clone()).collect::<Vec<_>>();
    assert_eq!(signatures(&one), signatures(&later), "the slices are the same");

    // Scheduled jobs collapse, requests of people do not.
    let named = |trigger_type, public_id: &str| ClaimedJob { trigger_type, public_id: public_id.into(), ..claimed() };
    let by = |trigger_type, id| plan(named(trigger_type, id), &state);
    assert_eq!(keys(&by(TriggerType::Schedule, "a")), keys(&by(TriggerType::Schedule, "b")));
    assert_ne!(keys(&by(TriggerType::Manual, "a")), keys(&by(TriggerType::Manual, "b")));
}

// covers: ING-10.6-03
#[test]
fn a_cursor_that_lags_behind_its_tasks_is_moved_before_its_coverage_is_used() {
    let mut driver = Driver::reading(Options::new("me"), claimed());
    let wants = driver.ok(Done::ReadCoverage(known(Some(300), vec![w(300, 700)])));
    assert!(matches!(&wants[..], [Want::Tx(Tx::RecordAdvance(record))] if record.cursor == CursorId(4)));
    let event = crate::tx::AdvanceRecorded {
        direction: crate::state::Direction::Forward,
        value: Some(mark(300)),
        target: Some(mark(700)),
        by: None,
        version: 6,
    };
    let wants = driver.ok(Done::RecordAdvance(event));
    assert!(matches!(&wants[..], [Want::Tx(Tx::AdvanceCursor(op))] if op.to == mark(700) && op.version == 6));
    let wants = driver.ok(Done::AdvanceCursor(CursorMoved { moved: true }));
    assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]));
    let wants = driver.ok(Done::ReadCoverage(known(Some(700), Vec::new())));
    assert!(matches!(&wants[..], [Want::Tx(Tx::SavePlan(save))] if windows(save) == [w(700, 940)]));
}

/// Quick executors would run dry until the next idle check.
#[test]
fn a_planner_wakes_up_when_the_rest_of_a_plan_may_be_taken() {
    let idle = Duration::from_secs(5);
    for queued in [4, 5] {
        let options = Options { inventory: 5, idle_poll: idle, ..Options::new("me") };
        let mut driver = Driver::reading(options, claimed());
        let done = match driver.covered(&Coverage { queued, ..fresh() })[..] {
            [Want::Tx(Tx::SavePlan(_))] => {
                let (plan, cursor) = (PlanId(8), CursorId(4));
                Done::SavePlan(PlanSaved { plan, cursor, created: 1, existing: 0 })
            }
            _ => Done::SettleJob(JobSettled),
        };
        driver.ok(done);
        driver.ok(Done::ClaimJob(None));
        let wake = driver.0.wake_at();
        assert!(wake > HERE + SOON && wake < HERE + 2 * SOON, "{queued}: {wake:?}");
        // The rest is deferred once more: it wakes up for that, too.
        let mut wants = Vec::new();
        driver.0.poll(wake, &mut wants);
        assert!(matches!(&wants[..], [Want::Tx(Tx::ClaimJob(_))]), "{wants:?}");
        let mut on = |got| {
            wants.clear();
            driver.0.on(wake, got, &mut wants);
        };
        on(PlannerInput::Tx(Ok(Done::ClaimJob(Some(Box::new(claimed()))))));
        on(PlannerInput::Compiled(Ok(CompiledJob::Plan(Box::new(draft(&claimed()))))));
        on(PlannerInput::Tx(Ok(Done::ReadCoverage(Coverage { queued: 5, ..fresh() }))));
        on(PlannerInput::Tx(Ok(Done::SettleJob(JobSettled))));
        on(PlannerInput::Tx(Ok(Done::ClaimJob(None))));
        let again = driver.0.wake_at();
        assert!(again > wake + SOON && again < wake + Duration::from_secs(2), "{queued}: {again:?}");
        // Nothing came of that: the next check is an idle one.
        let mut wants = Vec::new();
        driver.0.poll(again, &mut wants);
        driver.0.on(again, PlannerInput::Tx(Ok(Done::ClaimJob(None))), &mut wants);
        assert!(driver.0.wake_at() > again + Duration::from_secs(2), "once");
    }
}

#[test]
fn a_cursor_that_cannot_be_moved_does_not_stop_the_planning() {
    let mut driver = Driver::reading(Options::new("me"), claimed());
    let state = known(Some(300), vec![w(300, 700)]);
    driver.ok(Done::ReadCoverage(state.clone()));
    let wants = driver.err(TxError::Busy);
    assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]));
    let wants = driver.ok(Done::ReadCoverage(state));
    assert!(matches!(&wants[..], [Want::Tx(Tx::SavePlan(save))] if windows(save) == [w(700, 940)]));
}

#[test]
fn idle_planner_wakes_for_a_schedule_on_its_own_clock() {
    let mut driver = Driver(Planner::new(Options::new("me"), Rng::new(1), HERE));
    driver.0.poll(HERE, &mut Vec::new());
    let soon = DB_NOW + Duration::from_millis(200);
    driver.ok(Done::FireDue(FiredDue { fired: 0, next_due: Some(soon), now: DB_NOW }));
    assert!(driver.ok(Done::ClaimJob(None)).is_empty());
    assert_eq!(driver.0.wake_at(), HERE + Duration::from_millis(200));
    driver.0.nudge(HERE);
    assert_eq!(driver.0.wake_at(), HERE);
    let mut wants = Vec::new();
    driver.0.poll(HERE, &mut wants);
    assert!(matches!(wants[..], [Want::Tx(Tx::ClaimJob(_))]), "{wants:?}");
}

#[test]
fn schedules_are_checked_when_due_when_nudged_and_periodically() {
    let idle = Duration::from_secs(10);
    let mut driver = Driver(Planner::new(Options { idle_poll: idle, ..Options::new("me") }, Rng::new(1), HERE));
    driver.0.poll(HERE, &mut Vec::new());
    driver.ok(Done::FireDue(FiredDue { fired: 0, next_due: Some(DB_NOW + idle / 2), now: DB_NOW }));
    driver.ok(Done::ClaimJob(None));
    let looks_at_schedules = |driver: &mut Driver, now: Ts, fired: u32, next_due: Option<Ts>| {
        let mut wants = Vec::new();
        driver.0.poll(now, &mut wants);
        assert!(matches!(wants[..], [Want::Tx(Tx::FireDue(_))]), "{wants:?}");
        wants.clear();
        driver.0.on(now, PlannerInput::Tx(Ok(Done::FireDue(FiredDue { fired, next_due, now: DB_NOW }))), &mut wants);
        wants
    };
    let due = HERE + idle / 2;
    assert_eq!(driver.0.wake_at(), due);
    assert!(looks_at_schedules(&mut driver, due, 0, None).is_empty(), "nothing has fired: there is nothing to take");
    driver.0.nudge_schedules(due);
    // More schedules are due than one batch: these first, then the rest without a pause.
    let wants = looks_at_schedules(&mut driver, due, 1, Some(DB_NOW));
    assert!(matches!(wants[..], [Want::Tx(Tx::ClaimJob(_))]), "{wants:?}");
    driver.0.on(due, PlannerInput::Tx(Ok(Done::ClaimJob(None))), &mut Vec::new());
    assert!(driver.0.wake_at() <= due);
    // The store cannot read one of them: not again at once.
    driver.0.poll(due, &mut Vec::new());
    driver.0.on(due, PlannerInput::Tx(Err(TxError::Refused("no time".into()))), &mut Vec::new());
    assert!(driver.0.wake_at() > due);
    driver.0.nudge_schedules(due);
    // The rest belongs to another planner.
    assert!(looks_at_schedules(&mut driver, due, 0, Some(DB_NOW)).is_empty());
    let wait = driver.0.wake_at().since(due);
    assert!(wait >= idle * 9 / 10 && wait <= idle * 11 / 10, "{wait:?}");
}
