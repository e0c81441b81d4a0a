//! Redrives in production: an executed batch returns its result, a failed one runs again.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::{RUN, code, dump::dump, keeping, locked, upstream};
use crate::support::{On, Workspace};
use patra_upstream::Script;

fn redrive(place: &Workspace, args: &[&str], exit: i32) -> Value {
    let output = place.patra().args(["replay", "--redrive", "-o", "json"]).args(args).output().unwrap();
    code(&output, exit);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

// covers: ING-5.4-20, ING-7.10-04, ING-9.8-03, ING-11.2-03, C-64
on_both!(executed_batch_returns_its_result_without_a_write);
async fn executed_batch_returns_its_result_without_a_write(on: On) {
    on.run(|place| {
        let server = upstream(Script::default());
        place.apply(&keeping(server.base_url()));
        code(&place.run(&RUN), 0);
        let asked = server.stats().data_requests;
        let before = dump(place);
        for batch in place.list(&["batches"]) {
            let (run, no) = (batch["run_id"].to_string(), batch["batch_no"].to_string());
            let answer = redrive(place, &[&run, &no, "--wait"], 0);
            assert_eq!(answer["outcome"], "READ_BACK", "{answer}");
            assert_eq!(answer["stats"]["inserted"], batch["stats"]["inserted"]);
            assert_eq!(answer["next"].is_null(), batch["has_next"] == 0);
        }
        assert_eq!(before, dump(place));
        assert_eq!(server.stats().data_requests, asked);
    });
}

// covers: ING-5.4-20, ING-9.8-03, ING-12.6-05, ING-5.9-03, C-64
on_both!(failed_batch_is_redriven_with_a_marker);
async fn failed_batch_is_redriven_with_a_marker(on: On) {
    on.run(|place| {
        let server = upstream(locked());
        place.apply(&keeping(server.base_url()));
        code(&place.run(&RUN), 1);
        let batch = &place.list(&["batches", "--status", "FAILED"])[0];
        let (run, no, task) = (batch["run_id"].to_string(), batch["batch_no"].to_string(), batch["task_id"].clone());
        server.script().update(|script| script.require_header = None);
        // The source is halted: a person resumes it.
        code(&place.run(&["resume", "source", "far"]), 0);
        let queued = redrive(place, &[&run, &no, "--request", "mine"], 0);
        assert_eq!((&queued["outcome"], &queued["existed"]), (&"QUEUED".into(), &false.into()));
        let done = redrive(place, &[&run, &no, "--request", "mine", "--wait"], 0);
        assert_eq!(
            (&done["status"], &done["existed"], &done["task"]),
            (&"SUCCEEDED".into(), &true.into(), &queued["task"]),
            "the same request is the same task"
        );
        let id = done["task"].to_string();
        let runs = place.list(&["runs", "--task", &id]);
        assert_eq!(runs[0]["checkpoint"]["replay"]["task"], task, "{runs:?}");
        assert_eq!(runs[0]["checkpoint"]["replay"]["request"], "mine");
        assert_eq!(place.list(&["items"]).len(), 360, "one a minute, six hours");
        let old = redrive(place, &["--task", &task.to_string()], 1);
        assert!(old.is_null(), "a task that others have replaced is not driven again");
    });
}

// covers: ING-5.9-03
#[tokio::test(flavor = "multi_thread")]
async fn whole_task_can_be_redriven() {
    let server = upstream(Script::default());
    let place = Workspace::sqlite();
    place.apply(&keeping(server.base_url()));
    code(&place.run(&RUN), 0);
    let task = place.list(&["tasks"])[0]["id"].to_string();
    let done = redrive(&place, &["--task", &task, "--wait"], 0);
    assert_eq!(done["status"], "SUCCEEDED", "{done}");
    let tasks = place.list(&["tasks"]);
    let new = tasks.iter().find(|row| row["id"] == done["task"]).unwrap();
    assert_eq!(new["redrive_of"].to_string(), task);
    let lineage = code(&place.run(&["get", "lineage", "1"]), 0);
    let expected = format!("task {task} SUCCEEDED (run again as task {})", done["task"]);
    assert!(lineage.contains(&expected) && !lineage.contains("narrower"), "{lineage}");
    let refused = place.run(&["replay", "--redrive", "--task", "999999"]);
    assert!(code(&refused, 78).contains("there is no such batch, run or task"));
    code(&place.run(&["replay", "--task", &task]), 64);
    code(&place.run(&["replay", "--redrive"]), 64);
    code(&place.run(&["replay"]), 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_task_cannot_be_redriven() {
    let server = upstream(Script { latency_ms: 300, ..Script::default() });
    let place = Workspace::sqlite();
    place.apply(&keeping(server.base_url()));
    let mut child = place.patra().args(RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while server.stats().data_requests == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let task = place.list(&["tasks"])[0]["id"].to_string();
    let refused = place.run(&["replay", "--redrive", "--task", &task]);
    assert!(code(&refused, 1).contains("the task has not ended"));
    assert_eq!(place.list(&["tasks"]).len(), 1);
}
