//! Records that appear after their window was read.

use std::sync::atomic::Ordering::Relaxed;

use patra_core::Ts;
use patra_core::port::CommandsExt;
use patra_core::tx::RequestJob;

use crate::support::{MANIFEST, MockApi, World, fire, stop};

// covers: ING-11.7-03, G-13, ING-4.4-23
#[tokio::test(start_paused = true)]
async fn late_records_are_read_by_the_next_overlapping_window() {
    for (lookback, caught) in [("", 0), (", lookback: PT1M", 1)] {
        let world = World::new(MockApi::with(200));
        world.transport.hidden.store(110, Relaxed);
        world.apply(&MANIFEST.replace("safety_lag: PT0S", &format!("safety_lag: PT0S{lookback}"))).await;
        let engine = world.start("one").await;
        world.ask("first").await;
        engine.nudge();
        assert_eq!(world.finished("first").await.inserted, 119);
        world.transport.hidden.store(0, Relaxed);

        let end = Ts::from_secs(180);
        world.store.run(RequestJob { window_to: Some(end), ..fire("second") }).await.unwrap();
        engine.nudge();
        let progress = world.finished("second").await;
        stop(engine).await;
        assert_eq!((progress.inserted, world.items()), (60 + caught, 179 + caught as usize), "{lookback}");
        assert_eq!(world.cursor(), Some(end), "the watermark goes on as ever");
    }
}
