//! The URL pool: two libraries, their combined view by project, and totals from counters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use patra_core::port::pool::{PoolUrl, UrlFilter, UrlPage};
use patra_core::project::{Library, LibraryScope};
use patra_core::tx::{AddUrls, FoundUrl, MAX_URLS, TxError, UrlSource};

use super::Fixture;
use super::concurrent::at_once;

pub(super) const OWN: &str = "one";
const TICK: Duration = Duration::from_millis(5);

pub(super) fn found(url: &str) -> FoundUrl {
    let host = url.split('/').nth(2).unwrap_or("a.example");
    let domain = host.strip_prefix("www.").unwrap_or(host).to_owned();
    FoundUrl { url: url.into(), domain, source_ref: r#"{"document_id":42}"#.into() }
}

fn add(library: Library, project_key: &str, urls: &[&str]) -> Arc<AddUrls> {
    Arc::new(AddUrls {
        library,
        project_key: project_key.into(),
        source: UrlSource::Document,
        urls: urls.iter().map(|url| found(url)).collect(),
    })
}

pub(super) fn ask(project_key: &str, sight: LibraryScope) -> UrlFilter {
    UrlFilter { project_key: project_key.into(), scope: sight, limit: 10_000, ..UrlFilter::default() }
}

impl Fixture {
    pub(super) async fn pool(&self, ask: UrlFilter) -> UrlPage {
        self.subject.store.pool_urls(ask).await.expect("URLs")
    }

    /// The URLs of a page, checked against the total when it is the only one.
    pub(super) async fn urls(&self, ask: UrlFilter) -> Vec<String> {
        let (offset, limit) = (ask.offset, ask.limit);
        let page = self.pool(ask).await;
        if offset == 0 && limit == 10_000 {
            assert_eq!(page.total, page.items.len() as u64);
        }
        page.items.into_iter().map(|item| item.url).collect()
    }
}

// covers: POOL-58, POOL-86, POOL-107, POOL-108
pub(super) async fn url_is_stored_once_per_library_with_its_first_sighting(fx: Fixture) {
    let urls = ["https://a.example/1", "https://www.b.example/2"];
    assert_eq!(fx.ok(add(Library::Project, OWN, &urls)).await.new, 2);
    let now = fx.now().await;
    fx.pass(TICK).await;
    let mut again = AddUrls::clone(&add(Library::Project, OWN, &[urls[0], "https://c.example/"]));
    again.source = UrlSource::Task;
    again.urls[0].source_ref = r#"{"task_id":"t"}"#.into();
    assert_eq!(fx.ok(Arc::new(again)).await.new, 1);
    assert_eq!(fx.ok(add(Library::Shared, OWN, &urls)).await.new, 2, "each library has its own");
    assert_eq!(fx.ok(add(Library::Project, "two", &urls[..1])).await.new, 1);
    assert_eq!(fx.ok(add(Library::Project, OWN, &[])).await.new, 0);
    let page = fx.pool(ask(OWN, LibraryScope::Project)).await;
    assert_eq!(page.total, 3);
    let first = page.items.iter().find(|item| item.url == urls[0]).expect("the URL");
    let PoolUrl { domain, source, source_ref, library, created_at, .. } = first;
    let source_ref: serde_json::Value = serde_json::from_str(source_ref).expect("JSON");
    assert_eq!(source_ref, serde_json::json!({ "document_id": 42 }));
    assert_eq!((&**domain, *source, *library), ("a.example", UrlSource::Document, Library::Project));
    assert!(*created_at <= now, "the time of the first finding");
    let shared = fx.pool(ask("", LibraryScope::Shared)).await;
    assert_eq!(shared.items.iter().map(|item| item.library).collect::<Vec<_>>(), [Library::Shared; 2]);
    let mut ids: Vec<_> = page.items.iter().chain(&shared.items).map(|item| item.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

// covers: POOL-02, POOL-04, POOL-08, POOL-09, POOL-AC-03, POOL-AC-04
pub(super) async fn project_entry_covers_the_shared_one_before_filtering(fx: Fixture) {
    let task = |library, project: &str, urls: &[&str]| {
        Arc::new(AddUrls { source: UrlSource::Task, ..AddUrls::clone(&add(library, project, urls)) })
    };
    fx.ok(task(Library::Shared, "", &["https://s.example/", "https://x.example/"])).await;
    fx.pass(TICK).await;
    fx.ok(add(Library::Project, OWN, &["https://x.example/"])).await;
    fx.pass(TICK).await;
    fx.ok(add(Library::Project, "two", &["https://secret.example/"])).await;
    let both = fx.pool(ask(OWN, LibraryScope::Effective)).await;
    let shown: Vec<_> = both.items.iter().map(|item| (&*item.url, item.library)).collect();
    assert_eq!(shown, [("https://x.example/", Library::Project), ("https://s.example/", Library::Shared)]);
    assert_eq!(both.total, 2);
    // A filter that only the covered entry matches does not list it.
    let from_tasks = UrlFilter { source: Some(UrlSource::Task), ..ask(OWN, LibraryScope::Effective) };
    assert_eq!(fx.urls(from_tasks.clone()).await, ["https://s.example/"]);
    assert_eq!(fx.urls(UrlFilter { domain: Some("x.ex".into()), ..from_tasks }).await, Vec::<String>::new());
    assert_eq!(fx.urls(ask("two", LibraryScope::Effective)).await.len(), 3);
    assert_eq!(fx.urls(ask("two", LibraryScope::Project)).await, ["https://secret.example/"]);
    assert_eq!(fx.urls(ask("nobody", LibraryScope::Effective)).await.len(), 2);
    assert_eq!(fx.urls(ask("nobody", LibraryScope::Project)).await, Vec::<String>::new());
    assert_eq!(fx.urls(ask("", LibraryScope::Effective)).await.len(), 2);
    assert_eq!(fx.urls(ask("", LibraryScope::Project)).await, Vec::<String>::new());
    // A shared entry that is added later is covered too.
    fx.ok(add(Library::Shared, "", &["https://secret.example/"])).await;
    assert_eq!(fx.urls(ask("two", LibraryScope::Effective)).await.len(), 3);
    assert_eq!(fx.urls(ask(OWN, LibraryScope::Effective)).await.len(), 3);
}

// covers: POOL-59
pub(super) async fn pages_are_ordered_newest_first(fx: Fixture) {
    for no in 0..7 {
        let (library, project) = if no % 3 == 0 { (Library::Shared, "") } else { (Library::Project, OWN) };
        fx.ok(add(library, project, &[&format!("https://a.example/{no}")])).await;
        fx.pass(TICK).await;
    }
    // At equal times, the later entry is first.
    fx.ok(add(Library::Project, OWN, &["https://b.example/1", "https://b.example/2"])).await;
    let all = fx.pool(ask(OWN, LibraryScope::Effective)).await;
    let mut sorted = all.items.clone();
    sorted.sort_by_key(|item| std::cmp::Reverse((item.created_at, item.id)));
    assert_eq!(all.items, sorted);
    let own: Vec<_> = all.items[2..].iter().map(|item| item.url.clone()).collect();
    assert_eq!(own, [6, 5, 4, 3, 2, 1, 0].map(|no| format!("https://a.example/{no}")));
    let mut paged = Vec::new();
    for page in 0..4 {
        let page = fx.pool(UrlFilter { offset: page * 3, limit: 3, ..ask(OWN, LibraryScope::Effective) }).await;
        assert_eq!(page.total, 9);
        paged.extend(page.items);
    }
    assert_eq!(paged, all.items);
    let beyond = fx.pool(UrlFilter { offset: 1_000_000, limit: 3, ..ask(OWN, LibraryScope::Shared) }).await;
    assert_eq!((beyond.items.len(), beyond.total), (0, 3));
    // Behind a position, the pages stay the same whatever is added meanwhile.
    let domain =
        |domain: Option<&str>| UrlFilter { domain: domain.map(str::to_owned), ..ask(OWN, LibraryScope::Effective) };
    for filter in [domain(None), domain(Some("a.ex"))] {
        let all = fx.pool(filter.clone()).await;
        let (mut paged, mut before, mut no) = (Vec::new(), None, 0);
        loop {
            let page = fx.pool(UrlFilter { before, limit: 2, ..filter.clone() }).await;
            assert_eq!(page.total, all.total + no, "the total counts all, not those behind the position");
            let Some(last) = page.items.last() else { break };
            before = Some(last.position());
            paged.extend(page.items);
            no += 1;
            let (library, project) = if no % 2 == 0 { (Library::Shared, "") } else { (Library::Project, OWN) };
            fx.ok(add(library, project, &[&format!("https://a.example/{}/{no}", filter.domain.is_some())])).await;
        }
        assert_eq!(paged, all.items);
    }
}

// covers: POOL-56
pub(super) async fn domain_filter_takes_its_characters_literally(fx: Fixture) {
    let hosts = ["news.example", "100%.example", "a_b.example", "axb.example", r"back\slash.example"];
    let urls: Vec<_> = hosts.iter().map(|host| format!("https://{host}/")).collect();
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    fx.ok(add(Library::Project, OWN, &urls[..3])).await;
    fx.ok(add(Library::Shared, "", &urls[3..])).await;
    for (part, hits) in [("news", 1), ("%", 1), ("_", 1), (r"\", 1), (".example", 5), ("a_b", 1), ("", 5), ("none", 0)]
    {
        let filter = UrlFilter { domain: Some(part.into()), ..ask(OWN, LibraryScope::Effective) };
        assert_eq!(fx.urls(filter.clone()).await.len(), hits, "{part}");
        let page = fx.pool(UrlFilter { limit: 1, ..filter }).await;
        assert_eq!(page.total, hits as u64, "{part}");
    }
    let both =
        UrlFilter { source: Some(UrlSource::Task), domain: Some("news".into()), ..ask(OWN, LibraryScope::Project) };
    assert_eq!(fx.pool(both).await, UrlPage::default());
}

pub(super) async fn list_with_an_invalid_url_is_refused_as_a_whole(fx: Fixture) {
    let many: Vec<_> = (0..=MAX_URLS).map(|no| format!("https://a.example/{no:05}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let refused = |answer| assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    refused(fx.run(add(Library::Project, OWN, &many)).await);
    refused(fx.run(add(Library::Project, "", &many[..1])).await);
    let mut long = AddUrls::clone(&add(Library::Project, OWN, &many[..2]));
    long.urls[1].domain = "d".repeat(256);
    refused(fx.run(Arc::new(long)).await);
    let mut odd = AddUrls::clone(&add(Library::Project, OWN, &many[..2]));
    odd.urls[1].source_ref = "[]".into();
    refused(fx.run(Arc::new(odd)).await);
    assert_eq!(fx.pool(ask(OWN, LibraryScope::Effective)).await, UrlPage::default());
    assert_eq!(fx.ok(add(Library::Project, OWN, &many[..MAX_URLS])).await.new, MAX_URLS as u32);
    assert_eq!(fx.pool(ask(OWN, LibraryScope::Project)).await.total, MAX_URLS as u64);
}

// covers: POOL-109, POOL-AC-14
pub(super) async fn fifty_concurrent_writers_of_one_url_make_one_row_and_no_error(fx: Fixture) {
    let writers = (0..50).map(|_| add(Library::Project, OWN, &["https://a.example/", "https://b.example/"])).collect();
    let mut new = 0;
    for answer in at_once(&fx, writers).await {
        new += answer.expect("no error").new;
    }
    assert_eq!(new, 2);
    let page = fx.pool(ask(OWN, LibraryScope::Project)).await;
    assert_eq!((page.items.len(), page.total), (2, 2));
}

/// Totals without a filter come from counters, and must equal a count.
async fn totals_are_right(fx: &Fixture, projects: &[&str]) {
    let all = async |project: &str, sight| -> BTreeSet<String> {
        let page = fx.pool(ask(project, sight)).await;
        assert_eq!(page.total, page.items.len() as u64, "{project} {}", sight.as_str());
        page.items.into_iter().map(|item| item.url).collect()
    };
    let shared = all("", LibraryScope::Shared).await;
    for project in projects {
        let own = all(project, LibraryScope::Project).await;
        let both = all(project, LibraryScope::Effective).await;
        assert_eq!(both, own.union(&shared).cloned().collect(), "{project}");
        assert_eq!(fx.pool(ask(project, LibraryScope::Effective)).await.total, both.len() as u64);
    }
}

pub(super) async fn totals_agree_with_a_count_after_many_random_inserts(fx: Fixture) {
    let projects = ["one", "two", "three"];
    let mut state = 7_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for _ in 0..60 {
        let urls: BTreeSet<_> = (0..below(12)).map(|_| format!("https://a.example/{:03}", below(90))).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let op = match below(4) {
            0 => add(Library::Shared, "", &urls),
            no => add(Library::Project, projects[no as usize - 1], &urls),
        };
        fx.ok(op).await;
    }
    totals_are_right(&fx, &projects).await;
}

pub(super) async fn concurrent_writers_of_both_libraries_lose_no_count(fx: Fixture) {
    let projects = ["one", "two"];
    for round in 0..4 {
        let urls: Vec<_> = (0..20).map(|no| format!("https://a.example/{round}/{no:02}")).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let mut writers = Vec::new();
        for at in 0..6 {
            writers.push(add(Library::Shared, "", &urls[at..at + 12]));
            writers.push(add(Library::Project, projects[at % 2], &urls[at..at + 10]));
        }
        for answer in at_once(&fx, writers).await {
            answer.expect("no error");
        }
        totals_are_right(&fx, &projects).await;
    }
}
