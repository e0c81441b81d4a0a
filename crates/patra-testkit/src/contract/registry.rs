//! Applying manifests, and schedules that fire.

use std::time::Duration;

use patra_core::Ts;
use patra_core::port::query::{Cell, View};
use patra_core::registry::{RegistryRow, RegistryTable, WHOLE};
use patra_core::state::{Operation, TriggerType};
use patra_core::tx::{
    ApplyProvenance, FireDue, JobSettlement, ProvenanceApplied, RemoveProvenance, RequestJob, SettleJob,
    SyncDictionary, TxError,
};

use super::fixture::{int, text, time};
use super::{Fixture, make};

const HOUR: Duration = Duration::from_secs(3_600);
const STEP: Duration = Duration::from_millis(100);

pub(super) async fn apply_creates_changes_or_keeps_a_manifest(fx: Fixture) {
    let one = make::provenance("h1", &[("works", None), ("authors", None)]);
    assert_eq!(fx.ok(one.clone()).await, ProvenanceApplied::Created);
    let before = fx.rows(View::Provenances).await;
    assert_eq!(text(&before.at(0, "name")), "Demo h1");

    fx.pass(Duration::from_millis(5)).await;
    // An equal digest means an equal manifest, whatever its content.
    let other = make::provenance("other", &[("works", None)]);
    let same = ApplyProvenance { document_hash: one.document_hash.clone(), ..other };
    assert_eq!(fx.ok(same).await, ProvenanceApplied::Unchanged);
    assert_eq!(fx.rows(View::Provenances).await.rows, before.rows);
    assert_eq!(fx.rows(View::Endpoints).await.len(), 2);
    assert_eq!(sections(&fx, make::PROVENANCE).await, one.rows);

    assert_eq!(fx.ok(make::provenance("h2", &[("works", None)])).await, ProvenanceApplied::Changed);
    let after = fx.rows(View::Provenances).await;
    assert_eq!((after.len(), text(&after.at(0, "document_hash"))), (1, "h2".to_owned()));
    assert_eq!(after.at(0, "id"), before.at(0, "id"));
    assert_eq!(after.at(0, "created_at"), before.at(0, "created_at"));
    assert!(time(&after.at(0, "updated_at")) > time(&before.at(0, "updated_at")));
}

pub(super) async fn apply_replaces_the_endpoints(fx: Fixture) {
    fx.ok(make::provenance("h1", &[("works", None), ("authors", Some(HOUR))])).await;
    let other =
        ApplyProvenance { provenance_code: "other".into(), ..make::provenance("o1", &[("authors", Some(HOUR))]) };
    fx.ok(other).await;
    let mut changed = make::provenance("h2", &[("works", None), ("grants", None)]);
    changed.endpoints[0].role = "DETAIL".into();
    let works = fx.rows(View::Endpoints).await.ids().into_iter().min();
    fx.ok(changed).await;

    let rows = fx.rows(View::Endpoints).await;
    let mut names: Vec<_> = rows.texts("provenance_code").into_iter().zip(rows.texts("endpoint_name")).collect();
    names.sort();
    let expected = [("demo", "grants"), ("demo", "works"), ("other", "authors")];
    assert_eq!(names, expected.map(|(code, name)| (code.to_owned(), name.to_owned())));
    // The endpoint that stayed is the same row with a new role.
    assert_eq!(rows.text_of(works.expect("an endpoint"), "role"), "DETAIL");
    // The schedule of the removed endpoint is removed, that of the other source stays.
    assert_eq!(fx.rows(View::Schedules).await.texts("provenance_code"), ["other"]);
}

async fn sections(fx: &Fixture, code: &str) -> Vec<RegistryRow> {
    fx.subject.store.registry(code).await.expect("an answer").expect("a provenance").rows
}

// covers: ING-3.1-01, ING-3.7-03
pub(super) async fn registry_stores_a_manifest_section_by_section(fx: Fixture) {
    let mut one = make::provenance("h1", &[("works", None), ("authors", None)]);
    let expected = one.rows.clone();
    one.rows.reverse();
    fx.ok(one).await;
    let other = ApplyProvenance { provenance_code: "other".into(), ..make::provenance("o1", &[("works", None)]) };
    fx.ok(other.clone()).await;

    let stored = fx.subject.store.registry(make::PROVENANCE).await.expect("an answer").expect("a provenance");
    assert_eq!((stored.document_hash, stored.rows), ("h1".to_owned(), expected));
    assert_eq!(sections(&fx, "other").await, other.rows);
    assert_eq!(fx.subject.store.registry("unknown").await, Ok(None));

    // Removed sections are deleted, new ones added, and the other source does not change.
    let mut changed = make::provenance("h2", &[("works", None), ("grants", None)]);
    changed.rows.retain(|row| row.table != RegistryTable::RetryCfg || row.endpoint_name != WHOLE);
    fx.ok(changed.clone()).await;
    assert_eq!(sections(&fx, make::PROVENANCE).await, changed.rows);
    assert_eq!(sections(&fx, "other").await, other.rows);
}

pub(super) async fn values_that_no_manifest_can_have_are_refused(fx: Fixture) {
    let sound = make::provenance("h1", &[("works", None)]);
    fx.ok(sound.clone()).await;
    let row =
        |table, name: &str, config: &str| RegistryRow { table, endpoint_name: name.into(), config: config.into() };
    let flawed = [
        ("no object", row(RegistryTable::HttpCfg, "works", "[]")),
        ("no JSON", row(RegistryTable::HttpCfg, "works", "{")),
        ("no endpoint of it", row(RegistryTable::HttpCfg, "authors", "{}")),
        ("no definition for all", row(RegistryTable::EndpointDef, WHOLE, "{}")),
        ("no provenance for one", row(RegistryTable::Provenance, "works", "{}")),
        ("twice", row(RegistryTable::Provenance, WHOLE, "{}")),
    ];
    for (what, flaw) in flawed {
        let mut op = make::provenance("h2", &[("works", None)]);
        op.rows.retain(|known| {
            what == "twice" || (known.table, &known.endpoint_name) != (flaw.table, &flaw.endpoint_name)
        });
        op.rows.push(flaw);
        assert!(matches!(fx.run(op).await, Err(TxError::Refused(_))), "{what}");
    }
    for missing in [RegistryTable::Provenance, RegistryTable::EndpointDef] {
        let mut op = make::provenance("h2", &[("works", None)]);
        op.rows.retain(|known| known.table != missing);
        assert!(matches!(fx.run(op).await, Err(TxError::Refused(_))), "without {}", missing.name());
    }
    assert_eq!(sections(&fx, make::PROVENANCE).await, sound.rows);
}

// covers: ING-3.5-01
pub(super) async fn removed_provenance_keeps_its_planned_work(fx: Fixture) {
    let remove = RemoveProvenance { provenance_code: make::PROVENANCE.into() };
    assert!(!fx.ok(remove.clone()).await.removed, "there is none");
    fx.ok(make::provenance("h1", &[("works", Some(HOUR)), ("authors", None)])).await;
    let other = ApplyProvenance { provenance_code: "other".into(), ..make::provenance("o1", &[("works", Some(HOUR))]) };
    fx.ok(other.clone()).await;
    fx.plan("job", &make::windows(0, 2)).await;
    let (plans, tasks) = (fx.rows(View::Plans).await.rows, fx.rows(View::Tasks).await.rows);

    assert!(fx.ok(remove.clone()).await.removed);
    assert_eq!(fx.subject.store.registry(make::PROVENANCE).await, Ok(None));
    for view in [View::Provenances, View::Endpoints, View::Schedules] {
        assert_eq!(fx.rows(view).await.texts("provenance_code"), ["other"], "{}", view.as_str());
    }
    assert_eq!(sections(&fx, "other").await, other.rows);
    assert_eq!((fx.rows(View::Plans).await.rows, fx.rows(View::Tasks).await.rows), (plans, tasks));
    assert!(fx.subject.store.snapshot("snapshot").await.is_ok_and(|snapshot| snapshot.is_some()));
    assert_eq!(fx.claim(10).await.len(), 2, "what was planned goes on");

    assert!(!fx.ok(remove).await.removed, "once is enough");
    // Applied again, the provenance is new and has nothing of the old one.
    let again = make::provenance("h1", &[("works", None)]);
    assert_eq!(fx.ok(again.clone()).await, ProvenanceApplied::Created);
    assert_eq!(sections(&fx, make::PROVENANCE).await, again.rows);
}

pub(super) async fn recreated_schedule_does_not_wait_for_the_trigger_of_the_old_one(fx: Fixture) {
    let apply = make::provenance("h1", &[("works", Some(STEP))]);
    fx.ok(apply.clone()).await;
    fx.pass(2 * STEP).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 1);
    fx.ok(RemoveProvenance { provenance_code: make::PROVENANCE.into() }).await;
    fx.ok(apply).await;
    fx.pass(2 * STEP).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 1);
    assert_eq!(fx.rows(View::Jobs).await.len(), 2);
}

// covers: ING-3.2-14
pub(super) async fn dictionary_returns_the_latest_entries(fx: Fixture) {
    let store = &fx.subject.store;
    assert_eq!(store.dictionary().await, Ok(Vec::new()));
    for number in [1, 2, 1, 0] {
        let sync = SyncDictionary { types: make::dictionary(number) };
        assert!(fx.ok(sync.clone()).await.changed, "{number}");
        assert_eq!(store.dictionary().await.as_ref(), Ok(&sync.types));
        assert!(!fx.ok(sync).await.changed, "{number} again");
        let twice = SyncDictionary { types: make::dictionary(3) };
        assert!(matches!(fx.run(twice).await, Err(TxError::Refused(_))));
        assert_eq!(store.dictionary().await, Ok(make::dictionary(number)));
    }
}

pub(super) async fn schedule_keeps_its_due_time_until_its_interval_changes(fx: Fixture) {
    let due_and_applied = async || {
        let due = fx.rows(View::Schedules).await.at(0, "next_due_at");
        let applied = fx.rows(View::Provenances).await.at(0, "updated_at");
        (time(&due), time(&applied))
    };
    fx.ok(make::provenance("h1", &[("works", Some(HOUR))])).await;
    let (first, applied) = due_and_applied().await;
    assert_eq!(first, applied + HOUR);
    assert_eq!(text(&fx.rows(View::Schedules).await.at(0, "when_text")), "every 3600000000");

    fx.pass(Duration::from_millis(5)).await;
    fx.ok(make::provenance("h2", &[("works", Some(HOUR)), ("authors", None)])).await;
    assert_eq!(due_and_applied().await.0, first, "an unchanged interval keeps its due time");

    fx.pass(Duration::from_millis(5)).await;
    fx.ok(make::provenance("h3", &[("works", Some(2 * HOUR))])).await;
    let (moved, applied) = due_and_applied().await;
    assert_eq!(moved, applied + 2 * HOUR, "a changed interval counts from now");

    fx.ok(make::provenance("h4", &[("works", None)])).await;
    assert!(fx.rows(View::Schedules).await.is_empty());
}

pub(super) async fn firing_twice_under_one_public_id_makes_one_trigger(fx: Fixture) {
    let fire = RequestJob {
        trigger_type: TriggerType::Api,
        window_from: Some(Ts::from_micros(-1)),
        window_to: Some(Ts::from_micros(1_700_000_000_123_456)),
        ..make::fire("job-1", Operation::Backfill)
    };
    let first = fx.ok(fire.clone()).await;
    assert!(!first.existed);
    let again = fx.ok(RequestJob { operation: Operation::Harvest, ..fire.clone() }).await;
    assert_eq!((again.job, again.existed), (first.job, true));
    assert!(!fx.ok(make::fire("job-2", Operation::Harvest)).await.existed);

    let jobs = fx.rows(View::Jobs).await;
    assert_eq!(jobs.texts("status_code"), ["REQUESTED", "REQUESTED"]);
    let taken = fx.take().await.expect("a trigger");
    assert_eq!((taken.job, taken.operation, taken.trigger_type), (first.job, fire.operation, TriggerType::Api));
    assert_eq!((taken.window_from, taken.window_to), (fire.window_from, fire.window_to));
    assert_eq!((taken.public_id, taken.project_key), (fire.public_id, fire.project_key));
    assert_eq!((taken.provenance_code, taken.endpoint_name), (fire.provenance_code, fire.endpoint_name));
    assert_eq!(taken.plan, None);
}

pub(super) async fn due_schedule_fires_once_after_a_long_pause_and_keeps_step(fx: Fixture) {
    fx.ok(make::provenance("h1", &[("works", Some(STEP)), ("slow", Some(HOUR))])).await;
    let schedules = fx.rows(View::Schedules).await;
    let works = schedules.texts("endpoint_name").iter().position(|name| name == "works").expect("a schedule");
    let (id, due) = (int(&schedules.at(works, "id")), time(&schedules.at(works, "next_due_at")));

    fx.pass(Duration::from_millis(1_050)).await;
    let done = fx.ok(FireDue { limit: 10 }).await;
    assert_eq!(done.fired, 1);
    let next = done.next_due.expect("a schedule");
    assert!(next > done.now && next <= done.now + STEP, "next due {next:?} at {:?}", done.now);
    assert_eq!((next.micros() - due.micros()) % 100_000, 0, "in step with the first due time");

    let jobs = fx.rows(View::Jobs).await;
    assert_eq!(jobs.texts("public_id"), [format!("schedule-{id}-{}", due.micros())]);
    assert_eq!(jobs.texts("trigger_type_code"), ["SCHEDULE"]);
    assert_eq!(jobs.texts("operation_code"), ["HARVEST"]);
    let taken = fx.take().await.expect("the scheduled trigger");
    assert_eq!((&*taken.project_key, &*taken.endpoint_name, taken.window_from), ("default", "works", None));
}

pub(super) async fn schedule_does_not_fire_while_its_trigger_waits(fx: Fixture) {
    fx.ok(make::provenance("h1", &[("works", Some(STEP))])).await;
    fx.pass(STEP + STEP / 2).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 1);
    fx.pass(2 * STEP).await;
    let done = fx.ok(FireDue { limit: 10 }).await;
    assert_eq!(done.fired, 0);
    assert!(done.next_due > Some(done.now), "it moves on all the same");

    let taken = fx.take().await.expect("the waiting trigger");
    let settlement = JobSettlement::Nothing { remark: "nothing new".into() };
    fx.ok(SettleJob { job: taken.job, fence: taken.fence, settlement }).await;
    fx.pass(2 * STEP).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 1);
    assert_eq!(fx.rows(View::Jobs).await.len(), 2);
}

pub(super) async fn due_schedules_fire_oldest_first_up_to_the_limit(fx: Fixture) {
    let ms = Duration::from_millis;
    fx.ok(make::provenance("h1", &[("c", Some(ms(90))), ("a", Some(ms(50))), ("b", Some(ms(70)))])).await;
    assert_eq!(fx.ok(FireDue { limit: 0 }).await.fired, 0);
    fx.pass(ms(200)).await;
    let done = fx.ok(FireDue { limit: 2 }).await;
    assert_eq!(done.fired, 2);
    assert!(done.next_due <= Some(done.now), "the third is still due");
    assert_eq!(fx.rows(View::Jobs).await.texts("endpoint_name"), ["b", "a"]);
    assert_eq!(fx.rows(View::Jobs).await.at(0, "record_remarks"), Cell::Null);
}

pub(super) async fn without_a_schedule_nothing_is_due(fx: Fixture) {
    let done = fx.ok(FireDue { limit: 10 }).await;
    assert_eq!((done.fired, done.next_due), (0, None));
}
