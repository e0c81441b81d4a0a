//! A Patra server with a platform of notes as its upstream, and a client.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use patra_upstream::{Dataset, MockApi, Script};
use serde_json::{Value, json};

use crate::support::{On, Workspace};

pub(crate) const MASTER_KEY: &str = "a text of more than thirty-two characters";
pub(crate) const GOOD: &str = "a1=CANARY-a1; web_session=CANARY-good";

/// A variable that makes the server collect sources too.
pub(crate) const WITH_COLLECTOR: &str = "WITH_COLLECTOR";

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) request_id: String,
    /// The raw body.
    pub(crate) text: String,
    pub(crate) retry_after: Option<String>,
}

pub(crate) struct TestServer {
    pub(crate) mock_api: MockApi,
    pub(crate) place: Workspace,
    child: Child,
    address: String,
    pub(crate) key: String,
    log: std::path::PathBuf,
    variables: Vec<(String, String)>,
}

/// The shipped manifest, for an upstream on this machine that needs no signature.
pub(crate) fn manifest(mock_api: &MockApi) -> String {
    let shipped = include_str!("../../../../../sources/xhs.yaml");
    shipped
        .replace("https://edith.xiaohongshu.com", mock_api.base_url())
        .replace("signing_hook: xhs, ", "")
        .replace("refill_rate_per_sec: 1, burst: 1", "refill_rate_per_sec: 10000, burst: 1000, demote_rate: 1")
        .replace("name: Xiaohongshu", "name: Xiaohongshu\nallow_http: true")
}

pub(crate) fn mock_api(script: Script) -> MockApi {
    MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 10), script).unwrap()
}

/// Runs the test on both stores.
pub(crate) fn everywhere(on: On, script: &Script, variables: &[(&str, &str)], test: impl Fn(&TestServer)) {
    for place in on.places() {
        test(&TestServer::open(place, mock_api(script.clone()), variables));
    }
}

impl TestServer {
    pub(crate) fn open(place: Workspace, mock_api: MockApi, variables: &[(&str, &str)]) -> TestServer {
        place.apply(&manifest(&mock_api));
        TestServer::open_with(place, mock_api, variables, None)
    }

    /// With an existing key; without one, the first start shows it.
    pub(crate) fn open_with(
        place: Workspace,
        mock_api: MockApi,
        variables: &[(&str, &str)],
        known: Option<String>,
    ) -> TestServer {
        let mut variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if !variables.iter().any(|(name, _)| name == "COOKIE_MASTER_KEY") {
            variables.push(("COOKIE_MASTER_KEY".to_owned(), MASTER_KEY.to_owned()));
        }
        let (child, log, address, key) = serve(&place, &variables);
        TestServer { mock_api, place, child, address, key: known.or(key).unwrap(), log, variables }
    }

    /// Kills the server and starts it again.
    pub(crate) fn restart(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        let (child, log, address, _) = serve(&self.place, &self.variables);
        (self.child, self.log, self.address) = (child, log, address);
    }

    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn change_variables(&mut self, variables: &[(&str, &str)]) {
        self.variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, mut until: impl FnMut() -> bool) {
        for _ in 0..600 {
            if until() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("not seen: {what}: {}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn call(&self, method: &str, path: &str, id: Option<&str>, body: Option<&Value>) -> Response {
        self.call_as(Some(&self.key), method, path, id, body.map(Value::to_string).as_deref())
    }

    pub(crate) fn call_as(
        &self,
        key: Option<&str>,
        method: &str,
        path: &str,
        id: Option<&str>,
        body: Option<&str>,
    ) -> Response {
        self.call_with(key, method, path, id, body, "")
    }

    /// With additional headers.
    pub(crate) fn call_with(
        &self,
        key: Option<&str>,
        method: &str,
        path: &str,
        id: Option<&str>,
        body: Option<&str>,
        head: &str,
    ) -> Response {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{head}", self.address);
        if let Some(key) = key {
            request.push_str(&format!("Authorization: Bearer {key}\r\n"));
        }
        if let Some(id) = id {
            request.push_str(&format!("X-Request-ID: {id}\r\n"));
        }
        let body = body.unwrap_or_default();
        request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let header = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        Response {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            request_id: header("x-request-id").unwrap_or_default(),
            body: serde_json::from_str(body).unwrap_or(Value::Null),
            text: body.to_owned(),
            retry_after: header("retry-after"),
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.call("POST", &format!("/api/v1/crawler{path}"), None, Some(body))
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.call("GET", &format!("/api/v1/crawler{path}"), None, None)
    }

    /// Returns the data of a response that must be a success.
    #[track_caller]
    pub(crate) fn data(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.call(method, &format!("/api/v1/crawler{path}"), None, body);
        assert_eq!((answer.status, &answer.body["success"]), (200, &true.into()), "{path}: {}", answer.body);
        answer.body["data"].clone()
    }

    pub(crate) fn add_cookie(&self, name: &str, value: &str, priority: i32) {
        let cookie = json!({ "cookie_name": name, "platform": "xhs", "cookie_value": value, "priority": priority });
        self.data("POST", "/cookies", Some(&cookie));
    }

    pub(crate) fn cookie(&self, name: &str) -> Value {
        let cookies = self.data("GET", "/cookies", None);
        let found = cookies["items"].as_array().unwrap().iter().find(|cookie| cookie["cookie_name"] == name);
        found.unwrap().clone()
    }

    pub(crate) fn lock(&self, workflow: &str) -> Value {
        self.data("POST", "/executions/acquire", Some(&json!({ "workflow_name": workflow })))
    }

    /// Searches, and adds the results to the candidates.
    pub(crate) fn candidates(&self, keyword: &str) -> Vec<Value> {
        let found =
            self.data("POST", "/search", Some(&json!({ "platform": "xhs", "keyword": keyword, "page_size": 50 })));
        let items = found["items"].as_array().unwrap().clone();
        let body = json!({ "platform": "xhs", "source_keyword": keyword, "items": items });
        self.data("POST", "/candidates", Some(&body));
        items
    }

    /// Moves a time column back by so many minutes.
    pub(crate) fn age(&self, table: &str, column: &str, minutes: i64) {
        let by = match self.place.database_url() {
            Some(_) => format!("interval '{minutes} minutes'"),
            None => format!("{}", minutes * 60_000_000),
        };
        self.place.sql(&format!("UPDATE {table} SET {column} = {column} - {by} WHERE {column} IS NOT NULL"));
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(place: &Workspace, variables: &[(String, String)]) -> (Child, std::path::PathBuf, String, Option<String>) {
    let log = place.folder.path().join(format!("serve-{}.log", crate::support::now_micros()));
    let mut command = place.patra();
    command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::null());
    if !variables.iter().any(|(name, _)| name == WITH_COLLECTOR) {
        command.arg("--no-collector");
    }
    command.envs(variables.iter().map(|(name, value)| (name, value))).stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let text = std::fs::read_to_string(&log).unwrap();
        let address = text.lines().find(|line| line.contains("the API listens"));
        if let Some(address) = address.and_then(|line| line.split("address=").nth(1)) {
            let key = text.lines().map(str::trim).find(|line| line.starts_with("patra_")).map(str::to_owned);
            return (child, log, address.trim().to_owned(), key);
        }
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
