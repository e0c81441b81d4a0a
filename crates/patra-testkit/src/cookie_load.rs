//! Measures picks of cookies from a large pool by many clients. It prints figures and is run by hand:
//! `cargo test --release -p patra-store-sqlite --test it -- --ignored cookie_load`, and the same for PostgreSQL.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures, and is run by hand")]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use patra_core::Ts;
use patra_core::cookie::COOKIE_LEASE;
use patra_core::credential::Binding;
use patra_core::port::crawl::CookieFilter;
use patra_core::port::{BoxFuture, Clock, CommandsExt as _, Store};
use patra_core::registry::WHOLE;
use patra_core::tx::{CookiePicked, PickCookie, SaveCookie, SealedText};

/// The clock of this machine.
#[derive(Debug)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Ts {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ts::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn cookie(at: usize, max_parallel: Option<u32>) -> SaveCookie {
    let alias = format!("account_{at:06}");
    SaveCookie {
        value: Some(SealedText { text: format!("v1.k1.{}", "x".repeat(200)), key_id: "k1".into() }),
        binding: Binding { alias, provenance_code: "xhs".into(), endpoint_name: WHOLE.into() },
        version: 1,
        priority: Some(at as i32 % 3),
        daily_limit: Some(1_000_000),
        expires_at: None,
        max_parallel,
    }
}

/// Picks by many clients. With a rate, each waits until its next pick is due, and late picks do not change that.
async fn pick(store: &Arc<dyn Store>, clients: usize, picks: usize, rate: Option<usize>) {
    let began = Instant::now();
    let client = |client: usize| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut times = Vec::new();
            for at in 0..picks / clients {
                let pick = PickCookie {
                    provenance_code: "xhs".into(),
                    endpoint_name: "search".into(),
                    name: None,
                    exclude: Vec::new(),
                    day: Ts::from_secs(1_772_064_000),
                    check: false,
                    holder: format!("{}-{client}-{at}", rate.unwrap_or(0)),
                    lease: COOKIE_LEASE,
                };
                let mut sent = Instant::now();
                if let Some(rate) = rate {
                    sent = began + Duration::from_secs_f64((at * clients + client) as f64 / rate as f64);
                    tokio::time::sleep_until(sent.into()).await;
                }
                let picked = store.run(pick).await;
                times.push(sent.elapsed());
                assert!(matches!(picked, Ok(CookiePicked::Picked { .. })), "{picked:?}");
            }
            times
        })
    };
    let mut times: Vec<Duration> = Vec::new();
    let pickers: Vec<_> = (0..clients).map(client).collect();
    for picker in pickers {
        times.extend(picker.await.unwrap_or_default());
    }
    let reached = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
    println!(
        "{} picks by {clients} clients{}: {reached:.0}/s, median {:?}, p95 {:?}, p99 {:?}, longest {:?}",
        times.len(),
        rate.map(|rate| format!(", {rate}/s wanted")).unwrap_or_default(),
        at(0.5),
        at(0.95),
        at(0.99),
        times.last().copied().unwrap_or_default()
    );
}

/// Fills a pool and picks from it: as fast as possible, and 500 times a second. `PATRA_BENCH_COOKIES`,
/// `PATRA_BENCH_CLIENTS`, `PATRA_BENCH_PICKS` and `PATRA_BENCH_RATE` change the scene.
pub async fn measure(store: Arc<dyn Store>) {
    let (cookies, clients) = (setting("PATRA_BENCH_COOKIES", 10_000), setting("PATRA_BENCH_CLIENTS", 50));
    let picks = setting("PATRA_BENCH_PICKS", 20_000);
    let began = Instant::now();
    let one = |client: usize| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for at in (client..cookies).step_by(clients) {
                let saved = store.run(cookie(at, (at % 10 == 0).then_some(2))).await;
                assert!(saved.is_ok(), "{saved:?}");
            }
        })
    };
    let savers: Vec<_> = (0..clients).map(one).collect();
    for saver in savers {
        assert!(saver.await.is_ok(), "a client failed");
    }
    let rate = cookies as f64 / began.elapsed().as_secs_f64();
    println!("{cookies} cookies stored by {clients} clients: {rate:.0}/s");

    pick(&store, clients, picks, None).await;
    pick(&store, clients, picks / 4, Some(setting("PATRA_BENCH_RATE", 500))).await;

    let timed = async |name: &str, work: &mut dyn FnMut() -> BoxFuture<'static, ()>| {
        let began = Instant::now();
        for _ in 0..20 {
            work().await;
        }
        println!("{name}: {:?} each", began.elapsed() / 20);
    };
    let reader = Arc::clone(&store);
    timed("numbers of all cookies, as in /health", &mut || {
        let store = Arc::clone(&reader);
        Box::pin(async move { drop(store.cookie_totals(None).await) })
    })
    .await;
    timed("a page of 100", &mut || {
        let store = Arc::clone(&reader);
        Box::pin(async move { drop(store.cookies(CookieFilter { limit: 100, ..CookieFilter::default() }).await) })
    })
    .await;
}
