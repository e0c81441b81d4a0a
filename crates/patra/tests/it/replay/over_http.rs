//! Replays, diagnostic bundles and redrives by HTTP.

use super::{RUN, code, dump::dump, keeping, locked, upstream};
use crate::cli::{serve, serve_with};
use crate::support::{Workspace, http};
use patra_upstream::Script;

// covers: ING-14.10-04, ING-14.9-07, ING-DOD-10
#[tokio::test(flavor = "multi_thread")]
async fn replays_bundles_and_redrives_work_over_http() {
    let server = upstream(Script::default());
    let place = Workspace::sqlite();
    place.apply(&keeping(server.base_url()));
    code(&place.run(&RUN), 0);
    let batch = &place.list(&["batches"])[0];
    let writer = String::from_utf8(place.run(&["key", "create", "w", "--scope", "write"]).stdout).unwrap();
    let admin = String::from_utf8(place.run(&["key", "create", "a", "--scope", "admin"]).stdout).unwrap();
    let (writer, admin) = (Some(writer.trim()), Some(admin.trim()));
    // A collector would write its own rows between the two dumps.
    let serving = serve_with(&place, &["--no-collector"]);
    let base = format!("http://{}/api/v1", serving.address);
    let at = format!("{base}/runs/{}/batches/{}", batch["run_id"], batch["batch_no"]);
    let before = dump(&place);
    for mode in ["", "?mode=archive", "?mode=live"] {
        let (status, answer) = http(&format!("{at}/replay{mode}"), writer, Some(""));
        assert_eq!((status, &answer["data"]["verdict"]), (200, &"SAME".into()), "{answer}");
    }
    assert_eq!(http(&format!("{at}/replay?mode=odd"), writer, Some("")).0, 400);
    let gone = format!("{base}/runs/{}/batches/999/replay", batch["run_id"]);
    assert_eq!(http(&gone, writer, Some("")).0, 404);
    let (status, answer) = http(&format!("{at}/redrive"), writer, Some(""));
    assert_eq!((status, &answer["data"]["outcome"]), (200, &"READ_BACK".into()), "{answer}");
    assert_eq!(before, dump(&place));

    let export = r#"{"reason":"ticket 7","by":"ann"}"#;
    assert_eq!(http(&format!("{at}/bundle"), writer, Some(export)).0, 403, "exports are for administrators");
    let (status, answer) = http(&format!("{at}/bundle"), admin, Some(export));
    assert_eq!((status, &answer["error"]["code"]), (409, &"NOT_CONFIGURED".into()), "without a key: {answer}");
    assert_eq!(http(&format!("{base}/exports"), writer, None).0, 403);
    let (status, answer) = http(&format!("{base}/exports"), admin, None);
    assert_eq!((status, answer["data"]["items"].as_array().map(Vec::len)), (200, Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn http_export_is_signed_and_http_redrive_runs_a_failed_task_again() {
    let server = upstream(locked());
    let place = Workspace::sqlite();
    place.apply(&keeping(server.base_url()));
    code(&place.run(&RUN), 1);
    // A key next to the database, as the first credential would have created it.
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    std::fs::write(place.folder.path().join("data/master.key"), key).unwrap();
    let serving = serve(&place);
    let base = format!("http://{}/api/v1", serving.address);
    let admin = Some(serving.key.as_str());
    let batch = &place.list(&["batches", "--status", "FAILED"])[0];
    let at = format!("{base}/runs/{}/batches/{}", batch["run_id"], batch["batch_no"]);
    let (status, answer) = http(&format!("{at}/bundle"), admin, Some(r#"{"reason":"why","with_raw":true}"#));
    assert_eq!(status, 200, "{answer}");
    let by = answer["data"]["export"]["by"].as_str().unwrap();
    assert!(by.starts_with("key ") && serving.key.contains(&by[4..]), "{by}");
    let file = place.file("package.json", &answer["data"].to_string());
    code(&place.run(&["bundle", "show", &file]), 0);
    assert_eq!(http(&format!("{at}/bundle"), admin, Some("{}")).0, 400, "a reason is needed");
    assert_eq!(http(&format!("{base}/exports"), admin, None).1["data"]["items"][0]["reason"], "why");

    server.script().update(|script| script.require_header = None);
    let holds = place.list(&["holds"]);
    for hold in holds {
        let path = format!("{base}/holds/{}", hold["id"]);
        assert_eq!(delete(&path, &serving.key), 200);
    }
    let (status, answer) = http(&format!("{base}/tasks/{}/redrive", batch["task_id"]), admin, Some("{}"));
    assert_eq!((status, &answer["data"]["outcome"]), (202, &"QUEUED".into()), "{answer}");
    let task = answer["data"]["task"].to_string();
    let done = (0..400).any(|_| {
        std::thread::yield_now();
        let runs = place.list(&["runs", "--task", &task, "--status", "SUCCEEDED"]);
        runs.first().is_some_and(|run| run["checkpoint"]["replay"]["task"] == batch["task_id"])
    });
    assert!(done, "the task was not driven again");
}

fn delete(url: &str, key: &str) -> u16 {
    use std::io::{Read as _, Write as _};
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let request =
        format!("DELETE /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}
