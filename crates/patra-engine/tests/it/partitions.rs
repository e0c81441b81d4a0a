//! Users and the posts of each: a trigger fans out to one per user, even while the store fails.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use patra_core::Ts;
use patra_core::params::{self, Params};
use patra_core::port::transport::{Error, HttpRequest, HttpResponse};
use patra_core::port::{BoxFuture, CommandsExt, Queries, Store, Transport};
use patra_core::state::{Operation, TriggerType};
use patra_core::tx::RequestJob;
use patra_engine::{Engine, Options, Ports};
use patra_testkit::memory::SharedMem;

use crate::support::{TokioClock, flaky, patient, stop};

const USERS: usize = 25;
const END: Ts = Ts::from_secs(120);

const MANIFEST: &str = r#"
provenance: far
allow_http: true
defaults: { rate_limit: { refill_rate_per_sec: 1000, burst: 1000 } }
endpoints:
  users:
    http: { base_url: "http://far.example", path: /users }
    query: { offset: "${ page.offset }" }
    pagination: { type: offset, page_size: 10 }
    window: { watermark_key: updated_at, safety_lag: PT0S, max_window: PT1H, initial: 1970-01-01 }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
  posts:
    params: { user: {}, lang: { default: en } }
    partitions: [{ param: user, parent: { endpoint: users } }]
    http: { base_url: "http://far.example", path: "/${ params.lang }/${ params.user }" }
    query: { offset: "${ page.offset }", from: "${ window.from | epoch }", to: "${ window.to | epoch }" }
    pagination: { type: offset, page_size: 10 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: PT1M, initial: 1970-01-01 }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;

/// Users `u0` to `u24`; user `n` has a post every `n + 1` seconds.
#[derive(Debug, Default)]
struct MockApi {
    urls: Mutex<Vec<String>>,
}

impl MockApi {
    fn answer(url: &str) -> String {
        let (path, query) = url.strip_prefix("http://far.example/").unwrap().split_once('?').unwrap();
        let get = |name: &str| -> usize {
            query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap().parse().unwrap()
        };
        let all: Vec<_> = match path.rsplit_once("/u") {
            None => (0..USERS).map(|user| (format!("u{user}"), user)).collect(),
            Some((_, user)) => {
                let step = user.parse::<usize>().unwrap() + 1;
                (get("from")..get("to")).filter(|at| at % step == 0).map(|at| (format!("u{user}-{at}"), at)).collect()
            }
        };
        let shown = all.iter().skip(get("offset")).take(10).map(|(id, at)| format!(r#"{{"id":"{id}","at":{at}}}"#));
        format!(r#"{{"items":[{}]}}"#, shown.collect::<Vec<_>>().join(","))
    }
}

impl Transport for MockApi {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, Error>> {
        self.urls.lock().unwrap().push(request.url.clone());
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(HttpResponse {
                status: 200,
                headers: Vec::new(),
                body: Bytes::from(MockApi::answer(&request.url)),
                redirected: None,
            })
        })
    }
}

struct World {
    store: SharedMem,
    port: Arc<dyn Store>,
    api: Arc<MockApi>,
    clock: Arc<TokioClock>,
}

impl World {
    async fn new(seed: Option<u64>) -> World {
        let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
        let store = SharedMem::new(clock.clone());
        let manifest = patra_spec::read("far.yaml", MANIFEST).unwrap();
        patra_engine::registry::apply(&store, &manifest).await.unwrap();
        let port = seed.map_or_else(|| Arc::new(store.clone()) as Arc<dyn Store>, |seed| flaky(&store, seed));
        World { store, port, api: Arc::default(), clock }
    }

    async fn start(&self, owner: &str) -> Engine {
        let ports = Ports { store: Arc::clone(&self.port), transport: self.api.clone(), clock: self.clock.clone() };
        let options = Options { lease: Duration::from_secs(10), concurrency: 4, run: patient(), ..Options::new(owner) };
        Engine::start(ports, options, Arc::new(())).await.unwrap()
    }

    async fn fire(&self, public_id: &str, endpoint: &str, given: &Params) {
        let fire = RequestJob {
            public_id: public_id.into(),
            trigger_type: TriggerType::Manual,
            project_key: "default".into(),
            provenance_code: "far".into(),
            endpoint_name: endpoint.into(),
            operation: Operation::Harvest,
            reason: None,
            activity: None,
            window_from: None,
            window_to: Some(END),
            priority: 0,
            params: params::to_text(given),
            overrides: "{}".into(),
        };
        self.store.run(fire).await.unwrap();
    }

    async fn finished(&self, public_id: &str) -> patra_core::port::query::JobProgress {
        for _ in 0..100_000 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let progress = self.store.progress(public_id).await.unwrap().unwrap();
            if progress.is_finished() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                return progress;
            }
        }
        panic!("the job does not end: {:?}", self.store.progress(public_id).await);
    }

    fn posts(&self) -> BTreeSet<String> {
        let store = self.store.lock();
        store.items.iter().filter(|item| item.endpoint_name == "posts").map(|item| item.key.clone()).collect()
    }
}

fn all_posts() -> BTreeSet<String> {
    let of = |user: usize| (0..120).filter(move |at| at % (user + 1) == 0).map(move |at| format!("u{user}-{at}"));
    (0..USERS).flat_map(of).collect()
}

/// The cursor values of the users.
fn cursors(world: &World) -> Vec<Option<Ts>> {
    let store = world.store.lock();
    let posts = store.cursors.iter().filter(|cursor| cursor.name.endpoint_name == "posts");
    posts.map(|cursor| cursor.value.as_ref()?.instant()).collect()
}

// covers: ING-15-08
#[tokio::test(start_paused = true)]
async fn every_user_is_a_partition_with_a_cursor_of_its_own() {
    let world = World::new(None).await;
    let engine = world.start("one").await;
    world.fire("users", "users", &Params::new()).await;
    engine.nudge();
    world.finished("users").await;
    world.fire("posts", "posts", &Params::new()).await;
    engine.nudge();
    let progress = world.finished("posts").await;
    assert_eq!((progress.partitions, progress.partitions_ended(), progress.tasks_succeeded), (25, 25, 50));
    assert_eq!((progress.inserted as usize, world.posts()), (all_posts().len(), all_posts()));
    assert_eq!(cursors(&world), [Some(END); USERS]);

    // Another parameter has a cursor of its own, and only this user is read.
    let asked = world.api.urls.lock().unwrap().len();
    let given = Params::from([("user".into(), "u3".into()), ("lang".into(), "de".into())]);
    world.fire("german", "posts", &given).await;
    engine.nudge();
    assert_eq!(world.finished("german").await.partitions, 0);
    assert!(world.api.urls.lock().unwrap()[asked..].iter().all(|url| url.contains("/de/u3?")));
    assert_eq!(world.store.lock().cursors.len(), 1 + USERS + 1);
    stop(engine).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_and_processes_that_come_and_go_lose_and_double_no_partition() {
    for seed in 0..6 {
        let world = World::new(Some(seed)).await;
        let first = world.start("one").await;
        world.fire("users", "users", &Params::new()).await;
        world.finished("users").await;
        world.fire("posts", "posts", &Params::new()).await;
        first.nudge();
        tokio::time::sleep(Duration::from_millis(300 * seed)).await;
        // The first ends without a word; the second takes over its tasks.
        drop(first);
        let second = world.start("two").await;
        let progress = world.finished("posts").await;
        assert_eq!((progress.partitions, progress.partitions_failed, progress.tasks_failed), (25, 0, 0), "seed {seed}");
        assert_eq!(world.posts(), all_posts(), "seed {seed}");
        // The next plan moves a cursor that could not be moved at the end of its task.
        assert_eq!(cursors(&world).len(), USERS);
        let posts = |task: &&patra_testkit::memory::Task| task.origin.endpoint_name == "posts";
        let tasks = world.store.lock().tasks.iter().filter(posts).count();
        assert_eq!(tasks, 2 * USERS, "seed {seed}");
        stop(second).await;
    }
}
