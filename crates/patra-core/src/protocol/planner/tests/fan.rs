//! Triggers that stand for many partitions, and inventories that are full.

use super::*;
use crate::tx::{FannedOut, TakeTrigger};

/// A planner that has this trigger and waits for it to be compiled.
fn compiling(options: Options) -> Driver {
    let mut driver = Driver(Planner::new(options, Rng::new(1), HERE));
    driver.0.poll(HERE, &mut Vec::new());
    driver.ok(Done::FireDue(FiredDue { fired: 1, next_due: None, now: DB_NOW }));
    driver.ok(Done::TakeTrigger(Some(Box::new(trigger()))));
    driver
}

fn fan(users: &[&str], complete: bool) -> Got {
    let partitions = users.iter().map(|user| Params::from([("user".into(), (*user).into())])).collect();
    Got::Compiled(Ok(Compiled::Fan(Fan { partitions, place: r#"{"item":"b"}"#.into(), skipped: 2, complete })))
}

fn taking(wants: &[Want]) -> &TakeTrigger {
    match wants {
        [Want::Tx(Tx::TakeTrigger(take))] => take,
        other => panic!("expected to take the next trigger: {other:?}"),
    }
}

// covers: ING-15-08
#[test]
fn a_trigger_with_open_partitions_becomes_one_trigger_per_partition() {
    let options = Options { max_partitions: 7, ..Options::new("me") };
    let mut driver = compiling(options.clone());
    let wants = driver.on(fan(&["a", "b"], false));
    let [Want::Tx(Tx::FanOut(fan))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!((fan.instance, fan.fence), (InstanceId(1), Fence(2)));
    assert_eq!((fan.limit, fan.wait, fan.complete, fan.skipped), (7, options.inventory_wait, false, 2));
    assert_eq!(fan.place, r#"{"item":"b"}"#);
    let params: Vec<_> = fan.children.iter().map(|child| child.params.as_str()).collect();
    assert_eq!(params, [r#"{"user":"a"}"#, r#"{"user":"b"}"#]);
    assert!(fan.children.iter().all(|child| child.public_id.starts_with("t-1/")));
    assert_ne!(fan.children[0].public_id, fan.children[1].public_id);
    let wants = driver.ok(Done::FanOut(FannedOut { created: 2, existing: 0, children: 2 }));
    assert_eq!(taking(&wants).owner, "me", "the rest, or the first of the partitions, is taken like any trigger");
}

// covers: ING-12.4-01
#[test]
fn a_trigger_with_too_many_partitions_is_refused_with_the_reason() {
    let mut driver = compiling(Options::new("me"));
    driver.on(fan(&["a"], false));
    let wants = driver.err(TxError::Refused("more than 7 partitions".into()));
    let [Want::Tx(Tx::SettleTrigger(settle))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(settle.settlement, Settlement::Refused { error: "more than 7 partitions".into() });
}

#[test]
fn a_planner_that_lost_its_trigger_leaves_its_partitions_to_others() {
    let mut driver = compiling(Options::new("me"));
    driver.on(fan(&["a"], true));
    taking(&driver.err(TxError::Fenced));
    // And one that does not know whether they were made puts the trigger off, if it still has it.
    let mut driver = compiling(Options::new("me"));
    driver.on(fan(&["a"], true));
    let outcome = outcome(&driver.err(TxError::Unknown(String::new())));
    assert!(matches!(outcome, Err(Settlement::Later { .. })), "{outcome:?}");
    taking(&driver.err(TxError::Fenced));
}

// covers: ING-5.2-04
#[test]
fn while_an_inventory_is_full_its_triggers_are_left_alone() {
    let options = Options { inventory: 5, idle_poll: Duration::from_secs(10), ..Options::new("me") };
    let mut driver = Driver::reading(options.clone(), trigger());
    let wants = driver.covered(&Coverage { queued: 5, ..fresh() });
    assert!(matches!(&wants[..], [Want::Tx(Tx::SettleTrigger(_))]), "{wants:?}");
    let wants = driver.ok(Done::SettleTrigger(TriggerSettled));
    assert_eq!(taking(&wants).full, [trigger().inventory()]);
    assert!(driver.ok(Done::TakeTrigger(None)).is_empty());
    let mut wants = Vec::new();
    driver.0.poll(HERE + options.inventory_wait * 2, &mut wants);
    assert_eq!(taking(&wants).full, [], "after the wait it is looked at again");
}
