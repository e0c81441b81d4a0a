//! Slots for connections: a limit for all, a limit per client network, and a few slots that only health checks and
//! metrics may use. When a limit is reached, the connection that has waited for its client for longest is closed: slow
//! and idle clients cannot keep others out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::connection::{Peer, network_of};

/// Numbers of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// All connections, except those in reserved slots.
    pub(super) total: usize,
    /// Connections of one client network.
    pub(super) per_network: usize,
    /// Slots that only health checks and metrics may use.
    pub(super) reserved: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Slots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capacity: Capacity,
    peers: Mutex<BTreeMap<u64, Peer>>,
    /// Counts changes, to order connections by how long they have waited.
    clock: AtomicU64,
}

/// A connection in its slot. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    pub(super) peer: Peer,
    id: u64,
    slots: Slots,
}

/// How a new connection is received.
#[derive(Debug)]
pub(super) enum Admission {
    Free(ConnectionSlot),
    /// Another connection was closed for it.
    Evicted(ConnectionSlot),
    Refused,
}

impl Slots {
    pub(super) fn new(capacity: Capacity) -> Slots {
        Slots(Arc::new(Inner { capacity, peers: Mutex::default(), clock: AtomicU64::new(0) }))
    }

    pub(super) fn admit(&self, address: IpAddr) -> Admission {
        let (network, id) = (network_of(address), self.tick());
        let Capacity { total, per_network, reserved } = self.0.capacity;
        let mut peers = self.0.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinary = |peer: &Peer| !peer.is_reserved();
        let own = |peer: &Peer| !peer.is_reserved() && peer.network() == network;
        let (mut evicted, mut takes_reserved) = (false, false);
        for (limit, who) in
            [(per_network, &own as &dyn Fn(&Peer) -> bool), (total, &ordinary as &dyn Fn(&Peer) -> bool)]
        {
            if peers.values().filter(|peer| who(peer)).count() >= limit {
                let closed = close_one(&mut peers, who);
                evicted |= closed;
                takes_reserved |= !closed;
            }
        }
        if takes_reserved && peers.values().filter(|peer| peer.is_reserved()).count() >= reserved {
            if !close_one(&mut peers, &Peer::is_reserved) {
                return Admission::Refused;
            }
            evicted = true;
        }
        let peer = Peer::new(network, takes_reserved, id);
        peers.insert(id, peer.clone());
        let slot = ConnectionSlot { peer, id, slots: self.clone() };
        if evicted { Admission::Evicted(slot) } else { Admission::Free(slot) }
    }

    /// Closes the connection that has waited for its client for longest, when the process has no file descriptor left.
    pub(super) fn make_room(&self) -> bool {
        close_one(&mut self.0.peers.lock().unwrap_or_else(PoisonError::into_inner), &|_| true)
    }

    pub(super) fn tick(&self) -> u64 {
        self.0.clock.fetch_add(1, Ordering::Relaxed)
    }
}

/// Closes the first connection in closing order that waits for its client. Its slot is free at once.
fn close_one(peers: &mut BTreeMap<u64, Peer>, who: &dyn Fn(&Peer) -> bool) -> bool {
    let waiting = peers.iter().filter(|(_, peer)| who(peer) && peer.waits_for_client());
    let Some(id) = waiting.min_by_key(|(_, peer)| peer.closing_order()).map(|(id, _)| *id) else {
        return false;
    };
    if let Some(peer) = peers.remove(&id) {
        peer.close();
    }
    true
}

impl ConnectionSlot {
    /// Marks the connection as running a handler until the guard is dropped.
    pub(super) fn run(peer: &Peer, slots: &Slots) -> Running {
        peer.set_running(true, slots.tick());
        Running { peer: peer.clone(), slots: slots.clone() }
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.0.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// A running handler.
#[derive(Debug)]
pub(super) struct Running {
    peer: Peer,
    slots: Slots,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.peer.set_running(false, self.slots.tick());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Capacity = Capacity { total: 4, per_network: 2, reserved: 1 };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn admit(slots: &Slots, last: u8) -> (ConnectionSlot, &'static str) {
        match slots.admit(address(last)) {
            Admission::Free(slot) => (slot, "free"),
            Admission::Evicted(slot) => (slot, "evicted"),
            Admission::Refused => panic!("the connection was refused"),
        }
    }

    fn is_closed(slot: &ConnectionSlot) -> bool {
        !slot.slots.0.peers.lock().unwrap().contains_key(&slot.id)
    }

    #[test]
    fn network_at_its_limit_loses_its_own_oldest_connection() {
        let slots = Slots::new(CAPACITY);
        let (other, _) = admit(&slots, 1);
        let (first, second) = (admit(&slots, 2).0, admit(&slots, 2).0);
        let (third, how) = admit(&slots, 2);
        assert_eq!(how, "evicted");
        assert_eq!([&other, &first, &second, &third].map(is_closed), [false, true, false, false]);
    }

    #[test]
    fn connections_with_a_key_and_running_ones_are_closed_last() {
        let slots = Slots::new(Capacity { total: 3, per_network: 9, ..CAPACITY });
        let (known, running, stranger) = (admit(&slots, 1).0, admit(&slots, 2).0, admit(&slots, 3).0);
        known.peer.set_known();
        let work = ConnectionSlot::run(&running.peer, &slots);
        let (next, _) = admit(&slots, 4);
        assert_eq!([&known, &running, &stranger].map(is_closed), [false, false, true]);
        let busy = ConnectionSlot::run(&next.peer, &slots);
        let (last, _) = admit(&slots, 5);
        assert_eq!([&known, &running, &next].map(is_closed), [true, false, false]);
        drop((work, busy, last));
    }

    #[test]
    fn reserved_slot_is_given_when_every_handler_runs() {
        let slots = Slots::new(Capacity { total: 1, per_network: 9, reserved: 1 });
        let (first, _) = admit(&slots, 1);
        let _work = ConnectionSlot::run(&first.peer, &slots);
        let (second, _) = admit(&slots, 2);
        assert!(second.peer.is_reserved() && !first.peer.is_reserved());
        let _check = ConnectionSlot::run(&second.peer, &slots);
        assert!(matches!(slots.admit(address(3)), Admission::Refused));
        drop(second);
        assert!(admit(&slots, 3).0.peer.is_reserved());
    }
}
