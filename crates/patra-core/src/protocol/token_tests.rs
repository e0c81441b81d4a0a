//! The machine alone; `patra-testkit` runs several of them against each other.

use super::*;
use crate::tx::{RefreshFailed, TokenStored};

const CREDENTIAL: CredentialId = CredentialId(3);
const HERE: TokenTime = TokenTime { steady: Ts::from_secs(500), wall: Ts::from_secs(10_000) };

fn state(version: i64, expires_at: Option<i64>) -> CredentialRuntime {
    let sealed = (version > 0).then(|| format!("sealed {version}"));
    CredentialRuntime { version, sealed, expires_at: expires_at.map(Ts::from_secs), ..CredentialRuntime::default() }
}

fn later(secs: u64) -> TokenTime {
    TokenTime { steady: HERE.steady + Duration::from_secs(secs), wall: HERE.wall + Duration::from_secs(secs) }
}

fn fresh() -> NewToken {
    NewToken { sealed: "new".into(), key_id: "k".into(), expires_at: Some(Ts::from_secs(20_000)) }
}

fn refused(level: Level) -> TokenRefused {
    Fault::new(Code::UpstreamAuthFailed, level, "the upstream returned 400: invalid_grant").into()
}

struct Driver(TokenMachine);

impl Driver {
    fn start(need: TokenNeed, state: CredentialRuntime) -> (Driver, Vec<Want>) {
        let mut driver = Driver(TokenMachine::new(Options::new("me"), CREDENTIAL, need, state, Rng::new(1), HERE));
        let mut wants = Vec::new();
        driver.0.start(HERE, &mut wants);
        (driver, wants)
    }

    /// A machine that has its lease and waits for the upstream.
    fn requesting(state: CredentialRuntime) -> Driver {
        let (mut driver, wants) = Driver::start(TokenNeed::Good, state.clone());
        assert!(matches!(wants[..], [Want::Permit]), "{wants:?}");
        let wants = driver.on(TokenInput::Permit(GateDecision::Allow));
        assert!(matches!(wants[..], [Want::Tx(Tx::LeaseRefresh(_))]), "{wants:?}");
        let wants = driver.leased(RefreshLeased::Go { fence: Fence(7), state, now: HERE.wall });
        assert!(matches!(wants[..], [Want::Request { .. }]), "{wants:?}");
        driver
    }

    /// A machine that has a token and is storing it.
    fn storing() -> Driver {
        let mut driver = Driver::requesting(state(2, Some(9_000)));
        let wants = driver.on(TokenInput::Response(Ok(fresh())));
        let [Want::Tx(Tx::StoreToken(store))] = &wants[..] else { panic!("{wants:?}") };
        assert_eq!((store.fence, store.sealed.as_str(), store.owner.as_str()), (Fence(7), "new", "me"));
        driver
    }

    fn on(&mut self, got: TokenInput) -> Vec<Want> {
        self.at(HERE, got)
    }

    fn at(&mut self, now: TokenTime, got: TokenInput) -> Vec<Want> {
        let mut wants = Vec::new();
        self.0.on(now, got, &mut wants);
        wants
    }

    fn leased(&mut self, result: RefreshLeased) -> Vec<Want> {
        self.on(TokenInput::Tx(Ok(Done::LeaseRefresh(result))))
    }

    fn err(&mut self, error: TxError) -> Vec<Want> {
        self.on(TokenInput::Tx(Err(error)))
    }

    /// Waits until the timer and returns what follows.
    fn wake(&mut self) -> (TokenTime, Vec<Want>) {
        let mut wants = Vec::new();
        let now = TokenTime { steady: self.0.wake_at(), ..HERE };
        assert!(now.steady < Ts::MAX, "it does not wait");
        self.0.poll(now, &mut wants);
        (now, wants)
    }
}

fn used(wants: &[Want]) -> Option<i64> {
    if let [Want::Done(Ok(state))] = wants { Some(state.version) } else { None }
}

fn fault(wants: &[Want]) -> &Fault {
    let [Want::Done(Err(refused))] = wants else { panic!("no refusal: {wants:?}") };
    &refused.fault
}

// covers: G-12
#[test]
fn a_token_is_used_while_it_lasts_and_replaced_ahead_of_its_end() {
    assert_eq!(used(&Driver::start(TokenNeed::Good, state(2, Some(10_061))).1), Some(2));
    assert_eq!(used(&Driver::start(TokenNeed::Good, state(2, None)).1), Some(2), "its expiry is unknown");
    for old in [state(2, Some(10_060)), state(2, Some(9_000)), state(0, None)] {
        let mut driver = Driver::requesting(old);
        driver.on(TokenInput::Response(Ok(fresh())));
        let wants = driver.on(TokenInput::Tx(Ok(Done::StoreToken(TokenStored { version: 3 }))));
        let [Want::Done(Ok(state))] = &wants[..] else { panic!("{wants:?}") };
        assert_eq!((state.version, state.sealed.as_deref()), (3, Some("new")));
    }
}

#[test]
fn a_token_of_a_short_life_is_used_for_half_of_it() {
    let short =
        |stored_at, end| CredentialRuntime { updated_at: Some(Ts::from_secs(stored_at)), ..state(2, Some(end)) };
    assert_eq!(used(&Driver::start(TokenNeed::Good, short(9_990, 10_015)).1), Some(2));
    assert!(matches!(Driver::start(TokenNeed::Good, short(9_980, 10_010)).1[..], [Want::Permit]));
}

// covers: C-38, MAP-X-07
#[test]
fn a_token_that_was_refused_is_replaced_however_long_it_would_last() {
    let (_, wants) = Driver::start(TokenNeed::Other { than: 2 }, state(2, Some(99_000)));
    assert!(matches!(wants[..], [Want::Permit]));
    let (_, wants) = Driver::start(TokenNeed::Other { than: 2 }, state(3, Some(99_000)));
    assert_eq!(used(&wants), Some(3), "another process has replaced it already");
}

#[test]
fn while_another_refreshes_the_old_token_serves_as_long_as_it_lasts() {
    let busy = RefreshLeased::Busy { until: HERE.wall + Duration::from_secs(40), now: HERE.wall };
    let (mut driver, _) = Driver::start(TokenNeed::Good, state(2, Some(10_030)));
    driver.on(TokenInput::Permit(GateDecision::Allow));
    assert_eq!(used(&driver.leased(busy.clone())), Some(2));

    let (mut driver, _) = Driver::start(TokenNeed::Good, state(2, Some(9_999)));
    driver.on(TokenInput::Permit(GateDecision::Allow));
    assert!(driver.leased(busy.clone()).is_empty());
    let (now, wants) = driver.wake();
    assert!(now.steady <= HERE.steady + Duration::from_secs(1), "it looks again soon");
    assert!(matches!(wants[..], [Want::Tx(Tx::LeaseRefresh(_))]));
    let wants = driver.leased(RefreshLeased::Newer { state: state(3, Some(20_000)), now: HERE.wall });
    assert_eq!(used(&wants), Some(3));

    // The other process never comes back.
    let (mut driver, _) = Driver::start(TokenNeed::Good, state(2, Some(9_999)));
    driver.on(TokenInput::Permit(GateDecision::Allow));
    let wants = driver.at(later(120), TokenInput::Tx(Ok(Done::LeaseRefresh(busy))));
    assert_eq!(fault(&wants).level, Level::L1);
}

#[test]
fn token_lease_with_unknown_outcome_is_repeated_under_the_same_owner() {
    let (mut driver, _) = Driver::start(TokenNeed::Good, state(0, None));
    let first = driver.on(TokenInput::Permit(GateDecision::Allow));
    assert!(driver.err(TxError::Unknown("lost".into())).is_empty());
    let (_, again) = driver.wake();
    let owner = |wants: &[Want]| match wants {
        [Want::Tx(Tx::LeaseRefresh(lease))] => lease.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(owner(&first), owner(&again));
}

#[test]
fn received_token_is_stored_until_the_outcome_is_known() {
    let mut driver = Driver::storing();
    for _ in 0..200 {
        assert!(driver.err(TxError::Unknown("lost".into())).is_empty());
        let (_, wants) = driver.wake();
        assert!(matches!(&wants[..], [Want::Tx(Tx::StoreToken(store))] if store.sealed == "new"));
        driver.0.began = HERE.steady - Duration::from_secs(3_600);
    }
    assert_eq!(used(&driver.on(TokenInput::Tx(Ok(Done::StoreToken(TokenStored { version: 3 }))))), Some(3));
}

#[test]
fn token_fetched_under_a_lost_lease_is_stored_unless_a_newer_exists() {
    let mut driver = Driver::storing();
    let wants = driver.err(TxError::Fenced);
    assert!(matches!(&wants[..], [Want::Tx(Tx::LeaseRefresh(lease))] if lease.seen_version == 2));
    // The other process holds the lease now: our token is not given up.
    let busy = RefreshLeased::Busy { until: HERE.wall + Duration::from_secs(40), now: HERE.wall };
    driver.0.began = HERE.steady - Duration::from_secs(3_600);
    assert!(driver.leased(busy).is_empty());
    driver.wake();
    let wants = driver.leased(RefreshLeased::Go { fence: Fence(9), state: state(2, Some(9_000)), now: HERE.wall });
    let [Want::Tx(Tx::StoreToken(store))] = &wants[..] else { panic!("requests a token again: {wants:?}") };
    assert_eq!((store.fence, store.sealed.as_str()), (Fence(9), "new"));

    let mut driver = Driver::storing();
    driver.err(TxError::Fenced);
    let wants = driver.leased(RefreshLeased::Newer { state: state(4, Some(20_000)), now: HERE.wall });
    assert_eq!(used(&wants), Some(4));
}

// covers: G-12, ING-3.6-03
#[test]
fn a_refusal_is_final_and_leaves_its_reason() {
    let mut driver = Driver::requesting(state(2, Some(9_000)));
    let wants = driver.on(TokenInput::Response(Err(refused(Level::L4))));
    let [Want::Tx(Tx::FailRefresh(fail))] = &wants[..] else { panic!("{wants:?}") };
    assert!(fail.rejected && fail.error.contains("invalid_grant"));
    let wants = driver.on(TokenInput::Tx(Ok(Done::FailRefresh(RefreshFailed { recorded: true }))));
    assert_eq!(fault(&wants).level, Level::L4);

    // The next caller does not ask the upstream again at once.
    let rejected = |at| CredentialRuntime {
        status: TokenStatus::Rejected,
        last_error: Some("invalid_grant".into()),
        updated_at: Some(Ts::from_secs(at)),
        ..state(2, Some(9_000))
    };
    let wants = Driver::start(TokenNeed::Good, rejected(9_950)).1;
    assert!(fault(&wants).message.contains("invalid_grant"), "{wants:?}");
    assert!(matches!(Driver::start(TokenNeed::Good, rejected(9_940)).1[..], [Want::Permit]));
}

#[test]
fn transient_token_failure_is_retried_without_the_lease() {
    let mut driver = Driver::requesting(state(0, None));
    for attempt in 1..=3 {
        let wants = driver.on(TokenInput::Response(Err(refused(Level::L1))));
        assert!(matches!(&wants[..], [Want::Tx(Tx::FailRefresh(fail))] if !fail.rejected));
        let wants = driver.on(TokenInput::Tx(Ok(Done::FailRefresh(RefreshFailed { recorded: true }))));
        if attempt == 3 {
            assert_eq!(fault(&wants).level, Level::L1);
            return;
        }
        assert!(matches!(driver.wake().1[..], [Want::Permit]));
        driver.on(TokenInput::Permit(GateDecision::Allow));
        let go = RefreshLeased::Go { fence: Fence(8), state: state(0, None), now: HERE.wall };
        assert!(matches!(driver.leased(go)[..], [Want::Request { .. }]));
    }
}

#[test]
fn a_request_does_not_leave_under_a_lease_that_may_end_before_it() {
    let (mut driver, _) = Driver::start(TokenNeed::Good, state(0, None));
    driver.on(TokenInput::Permit(GateDecision::Allow));
    let go = RefreshLeased::Go { fence: Fence(7), state: state(0, None), now: HERE.wall };
    let wants = driver.at(later(41), TokenInput::Tx(Ok(Done::LeaseRefresh(go.clone()))));
    assert!(matches!(wants[..], [Want::Tx(Tx::LeaseRefresh(_))]), "the lease is extended first: {wants:?}");
    let wants = driver.at(later(42), TokenInput::Tx(Ok(Done::LeaseRefresh(go))));
    let [Want::Request { until, .. }] = wants[..] else { panic!("{wants:?}") };
    assert_eq!(until, later(41 + 60).steady, "counted from before the lease was requested");
    let wants = driver.at(later(90), TokenInput::Late);
    assert!(matches!(wants[..], [Want::Tx(Tx::LeaseRefresh(_))]), "the shell was too slow: {wants:?}");
}

#[test]
fn token_request_waits_for_the_gate() {
    let (mut driver, _) = Driver::start(TokenNeed::Good, state(0, None));
    let soon = HERE.steady + Duration::from_secs(3);
    assert!(driver.on(TokenInput::Permit(GateDecision::WaitUntil(soon))).is_empty());
    assert_eq!(driver.0.wake_at(), soon);
    assert!(matches!(driver.wake().1[..], [Want::Permit]));
    let later_time = HERE.steady + Duration::from_secs(3_600);
    let wants = driver.on(TokenInput::Permit(GateDecision::WaitUntil(later_time)));
    let [Want::Done(Err(refused))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!((refused.fault.level, refused.retry_after), (Level::L1, Some(Duration::from_secs(3_600))));
}

#[test]
fn a_revoked_credential_gives_no_token() {
    let (mut driver, _) = Driver::start(TokenNeed::Good, state(0, None));
    driver.on(TokenInput::Permit(GateDecision::Allow));
    assert_eq!(fault(&driver.leased(RefreshLeased::Gone)).level, Level::L4);
}
