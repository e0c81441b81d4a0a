//! Isolation, route by route of the OpenAPI document: what one project does changes no number and no list of another,
//! and its ids are unknown there.

use std::collections::BTreeMap;

use patra_core::port::query::View;

use super::*;

/// Ids of one project's rows, as paths name them.
#[derive(Clone, Debug, Default)]
struct Ids {
    source: String,
    job: String,
    /// First ids, by view.
    rows: BTreeMap<&'static str, String>,
    note: String,
    execution: String,
}

/// The paths of a route for these ids. A new route with parameters needs an entry here.
fn filled(path: &str, ids: &Ids) -> Option<Vec<String>> {
    let row = |view: &str| ids.rows.get(view).cloned().unwrap_or_else(|| "777777".to_owned());
    let with = |name: &str, value: &str| path.replace(&format!("{{{name}}}"), value);
    Some(match path {
        path if !path.contains('{') => vec![path.to_owned()],
        "/api/admin/scrape/{task_id}" => vec![with("task_id", &ids.job)],
        path if path.starts_with("/api/sources/{id}") => vec![with("id", &ids.source)],
        path if path.starts_with("/api/v1/jobs/{public_id}") => vec![with("public_id", &ids.job)],
        "/api/v1/manifests/{code}" => vec![with("code", "far")],
        "/api/v1/specs/{code}/{endpoint}" => vec![with("code", "far").replace("{endpoint}", "records")],
        "/api/v1/ops/lineage/{id}" | "/api/v1/plans/{id}/lineage" => vec![with("id", &row("plans"))],
        "/api/v1/ops/runs/{id}/statuses" => vec![with("id", &row("runs"))],
        path if path.starts_with("/api/v1/runs/{run}/batches/{no}/") => {
            vec![with("run", &row("runs")).replace("{no}", "1")]
        }
        "/api/v1/tasks/{id}/redrive" => vec![with("id", &row("tasks"))],
        "/api/v1/quarantine/{id}/abandon" => vec![with("id", &row("quarantine"))],
        "/api/v1/outbox/{id}/retry" => vec![with("id", &row("outbox"))],
        "/api/v1/holds/{id}" => vec![with("id", &row("holds"))],
        "/api/v1/{level}/{id}/cancel" => {
            ["plans", "slices", "tasks"].map(|level| with("level", level).replace("{id}", &row(level))).into()
        }
        "/api/v1/{view}" => View::ALL.iter().map(|view| with("view", view.as_str())).collect(),
        "/api/v1/credentials/{alias}" => vec![with("alias", "rich-only")],
        path if path.starts_with("/api/v1/crawler/cookies/{cookie_name}") => vec![with("cookie_name", "rich-only")],
        path if path.starts_with("/api/v1/crawler/executions/{execution_id}") => {
            vec![with("execution_id", &ids.execution)]
        }
        "/api/v1/crawler/candidates/{note_id}/fail" => vec![with("note_id", &ids.note)],
        "/api/v1/crawler/notes/{note_id}" => vec![with("note_id", &ids.note) + "?platform=xhs"],
        _ => return None,
    })
}

/// A body that the route accepts, so that it looks for the id.
fn body(method: &str, path: &str) -> Option<Value> {
    match (method, path.rsplit('/').next()?) {
        ("post", "bundle") => Some(json!({ "reason": "curious" })),
        ("post", "release") => Some(json!({ "status": "completed" })),
        ("post", "fail") => Some(json!({ "platform": "xhs", "execution_id": "none", "error_code": "NOT_FOUND" })),
        ("put", _) => Some(json!({ "name": "mine now" })),
        ("post", _) => Some(json!({})),
        _ => None,
    }
}

/// Without what changes by itself: times, rates since a time, and names of the request.
fn lasting(mut value: Value) -> Value {
    const VOLATILE: [&str; 20] = [
        "now",
        "at",
        "as_of",
        "from",
        "to",
        "uptime_seconds",
        "request_id",
        "timestamp",
        "generated_at",
        "checked_at",
        "last_heartbeat_at",
        "last_tick_at",
        "next_tick_at",
        "lag_seconds",
        "latency_ms",
        "time",
        "batch_rate",
        "item_rate",
        "pick_rate",
        "qps",
    ];
    match &mut value {
        Value::Object(map) => {
            map.retain(|name, _| !VOLATILE.contains(&name.as_str()));
            map.values_mut().for_each(|inner| *inner = lasting(inner.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| *inner = lasting(inner.take())),
        _ => {}
    }
    value
}

impl Two {
    fn rich(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let body = body.map(Value::to_string);
        self.server.call_with(Some(&self.server.key), method, path, None, body.as_deref(), "X-Project-Key: rich\r\n")
    }

    /// The operations of the document: method and path.
    fn operations(&self) -> Vec<(String, String)> {
        let document = self.poor("GET", "/openapi.json", None).body;
        let paths = document["paths"].as_object().unwrap();
        let methods = ["get", "post", "put", "patch", "delete"];
        paths
            .iter()
            .flat_map(|(path, operations)| {
                let of = operations.as_object().unwrap().keys().filter(|method| methods.contains(&method.as_str()));
                of.map(|method| (method.clone(), path.clone())).collect::<Vec<_>>()
            })
            .collect()
    }

    /// What every GET route shows to the key of one project.
    fn seen(&self, ids: &Ids) -> BTreeMap<String, (u16, String)> {
        let mut seen = BTreeMap::new();
        for (_, path) in self.operations().into_iter().filter(|(method, _)| method == "get") {
            let paths =
                filled(&path, ids).unwrap_or_else(|| panic!("GET {path} is new: say in `filled` how to call it"));
            for path in paths {
                let answer = self.poor("GET", &path, None);
                let text = match &answer.body {
                    Value::Null => answer.text.clone(),
                    body => lasting(body.clone()).to_string(),
                };
                seen.insert(path, (answer.status, text));
            }
        }
        seen
    }

    /// The newest ids of a project.
    fn ids(&self, call: impl Fn(&str) -> Response, (job, source, execution): (String, i64, String)) -> Ids {
        let first = |view: &'static str| {
            let id = call(&format!("/api/v1/{view}")).body["data"]["items"][0]["id"].as_i64()?;
            Some((view, id.to_string()))
        };
        let views = ["plans", "slices", "tasks", "runs", "quarantine", "outbox"];
        Ids {
            source: source.to_string(),
            job,
            rows: views.into_iter().filter_map(first).collect(),
            note: "a-note".to_owned(),
            execution,
        }
    }

    /// Collects records, a source, URLs and candidates of a project. Returns its job, source and execution.
    fn work(
        &self,
        call: impl Fn(&str, &str, Option<&Value>) -> Response,
        (project, name): (&str, &str),
        to: &str,
    ) -> (String, i64, String) {
        let job = json!({ "provenance": "far", "endpoint": "records", "to": to });
        let fired = call("POST", "/api/v1/jobs", Some(&job));
        assert_eq!(fired.status, 202, "{}", fired.body);
        let job = fired.body["data"]["public_id"].as_str().unwrap().to_owned();
        // Nobody listens there: the poll fails at once.
        let source = json!({ "type": "rss", "config": { "url": format!("http://127.0.0.1:1/{name}") } });
        let added = call("POST", "/api/sources", Some(&source));
        assert_eq!(added.status, 201, "{}", added.body);
        let source = added.body["id"].as_i64().unwrap();
        let document = json!({ "uri": format!("doc:{name}"), "content": format!("https://{name}.example/a-page") });
        assert_eq!(call("POST", "/api/v1/documents", Some(&document)).status, 201);
        let extract = json!({ "project_key": project });
        let extracted = call("POST", "/api/v1/resource_pool/extract/from-documents", Some(&extract));
        assert!(extracted.body["data"]["result"]["urls_new"].as_u64() > Some(0), "{}", extracted.body);
        self.server.wait("the job and the poll", || {
            let status = call("GET", &format!("/api/v1/jobs/{job}"), None).body["data"]["status"].clone();
            let source = call("GET", &format!("/api/sources/{source}"), None).body;
            status == "finished" && !source["last_error"].is_null()
        });
        let candidates = json!({ "platform": "xhs", "items": [{ "note_id": "a-note" }, { "note_id": name }] });
        let added = call("POST", "/api/v1/crawler/candidates", Some(&candidates));
        assert_eq!(added.status, 200, "{}", added.body);
        let workflow = json!({ "workflow_name": name });
        let locked = call("POST", "/api/v1/crawler/executions/acquire", Some(&workflow));
        let execution = locked.body["data"]["execution_id"].as_str().unwrap_or_else(|| panic!("{}", locked.body));
        let paused = call("POST", &format!("/api/sources/{source}/pause"), None);
        assert!(paused.status < 300, "{}", paused.body);
        (job, source, execution.to_owned())
    }
}

// covers: POOL-08, POOL-18, POOL-120, MAP-C-19
on_both!(work_of_one_project_changes_no_route_of_another);
async fn work_of_one_project_changes_no_route_of_another(on: On) {
    for place in on.places() {
        let two = two_with(place, &[(WITH_COLLECTOR, "1")]);
        let done =
            two.work(|method, path, body| two.poor(method, path, body), ("poor", "poor"), "2024-01-02T12:00:00Z");
        let own = two.ids(|path| two.poor("GET", path, None), done);
        assert!(own.rows.len() >= 5, "{own:?}");
        let before = two.seen(&own);
        assert!(before.len() > 60, "{}", before.len());
        two.work(|method, path, body| two.rich(method, path, body), ("rich", "again"), "2024-01-06T12:00:00Z");
        let after = two.seen(&own);
        for (path, shown) in &before {
            assert_eq!(shown, &after[path], "GET {path} shows what another project does");
        }
    }
}

// covers: POOL-08, POOL-18, POOL-120, MAP-C-19
on_both!(ids_of_another_project_are_unknown_to_every_route);
async fn ids_of_another_project_are_unknown_to_every_route(on: On) {
    for place in on.places() {
        let two = two_with(place, &[(WITH_COLLECTOR, "1")]);
        let done =
            two.work(|method, path, body| two.rich(method, path, body), ("rich", "again"), "2024-01-06T12:00:00Z");
        let foreign = two.ids(|path| two.rich("GET", path, None), done);
        assert!(foreign.rows.len() >= 5, "{foreign:?}");
        let never = Ids {
            source: "777777".into(),
            job: "never".into(),
            note: "never".into(),
            execution: "never".into(),
            rows: BTreeMap::new(),
        };
        let stock = |ids: &Ids| {
            let shown = ["jobs", "plans", "slices", "tasks", "runs", "items"]
                .map(|view| two.rich("GET", &format!("/api/v1/{view}"), None).body["data"].clone());
            (shown, two.rich("GET", &format!("/api/sources/{}", ids.source), None).body)
        };
        two.server.wait("the end of all work of the other project", || {
            let tasks = two.rich("GET", "/api/v1/tasks", None).body["data"]["items"].clone();
            let open = ["QUEUED", "DISPATCHED", "EXECUTING"];
            tasks.as_array().unwrap().iter().all(|task| !open.contains(&task["status_code"].as_str().unwrap()))
        });
        let before = stock(&foreign);
        let mut walked = 0;
        for (method, route) in two.operations().into_iter().filter(|(_, path)| path.contains('{')) {
            // A view has no id, and the id of a note is the platform's.
            if route == "/api/v1/{view}" || route == "/api/v1/crawler/notes/{note_id}" {
                continue;
            }
            let paths = |ids: &Ids| {
                filled(&route, ids).unwrap_or_else(|| panic!("{method} {route} is new: say in `filled` how to call it"))
            };
            for (theirs, unknown) in paths(&foreign).into_iter().zip(paths(&never)) {
                let body = body(&method, &route);
                let shown = two.poor(&method.to_uppercase(), &theirs, body.as_ref());
                let none = two.poor(&method.to_uppercase(), &unknown, body.as_ref());
                // A lock that is not held is refused with 409, whether or not it exists.
                let refused = if route.contains("{execution_id}") { 409 } else { 404 };
                assert!(
                    matches!(shown.status, 403 | 404) || shown.status == refused,
                    "{method} {theirs}: {}",
                    shown.text
                );
                let error = |answer: &Response, path: &str| {
                    let text = answer.body["error"]["message"].to_string();
                    let mut words: Vec<_> = path.split(['/', '?']).filter(|word| word.len() > 3).collect();
                    words.retain(|word| !route.contains(word));
                    let digits = |text: String| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
                    digits(words.iter().fold(text, |text, word| text.replace(word, "")))
                };
                let (theirs_error, none_error) = (error(&shown, &theirs), error(&none, &unknown));
                assert_eq!((shown.status, theirs_error), (none.status, none_error), "{method} {theirs}");
                walked += 1;
            }
        }
        assert!(walked > 25, "{walked}");
        assert!(before == stock(&foreign), "a refused call changes nothing");
    }
}
