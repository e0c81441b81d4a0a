//! How fast pages come in; to be read, not to pass or fail: `cargo test --release -p patra-http -- --ignored speed
//! --nocapture`.

use patra_core::port::transport::Transport;
use tokio::time::Instant;

use crate::server::{Server, answer, chunked, client, get};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn speed_of_pages_of_one_megabyte() {
    const PAGES: usize = 2_000;
    let body = vec![b'x'; 1 << 20];
    for (name, steps) in [("length", answer("200 OK", "", &body)), ("chunked", chunked("", body.chunks(64 << 10)))] {
        for parallel in [1, 4] {
            let server = Server::fixed(steps.clone()).await;
            let client = client();
            let started = Instant::now();
            let tasks: Vec<_> = (0..parallel)
                .map(|_| {
                    let (client, url) = (client.clone(), server.url("/"));
                    tokio::spawn(async move {
                        for _ in 0..PAGES / parallel {
                            assert_eq!(client.send(get(&*url)).await.unwrap().body.len(), 1 << 20);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let seconds = started.elapsed().as_secs_f64();
            println!("{name}, {parallel} at a time: {:.0} MB/s", (PAGES << 20) as f64 / 1e6 / seconds);
        }
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn speed_of_starting_up() {
    let started = Instant::now();
    let client = client();
    println!("client built in {:?}", started.elapsed());
    let started = Instant::now();
    client.send(get("https://127.0.0.1:1/")).await.unwrap_err();
    println!("first https request, certificates read, in {:?}", started.elapsed());
}
