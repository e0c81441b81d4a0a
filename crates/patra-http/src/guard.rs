//! The address guard: which addresses a request may reach. By default only globally routable unicast, so that no source
//! can be used to look into the machine or the network Patra runs in (SSRF).
//!
//! It is asked twice: by the resolver about every answer of DNS, and before sending about hosts that are IP literals,
//! because those never reach a resolver.

mod ranges;
pub(crate) mod resolver;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use url::Host;

/// Refuses every address that is not globally routable unicast, except those in `allow`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Networks the operator opens in spite of the default. An IPv4 network also opens its IPv4-mapped form.
    pub allow: Vec<IpNet>,
}

/// The kind of address that was refused. The address itself is left out: what a private name resolves to is no business
/// of whoever wrote the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {kind}")]
pub struct Denied {
    kind: &'static str,
}

impl Denied {
    /// A name that a proxy would look up where we cannot see what it stands for.
    pub(crate) const UNKNOWN_LOCAL_NAME: Denied = Denied { kind: "a local name that cannot be looked up here" };
}

impl Guard {
    pub fn new(allow: Vec<IpNet>) -> Guard {
        Guard { allow }
    }

    /// Every address, for what the operator named himself.
    pub(crate) fn open() -> Guard {
        let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        Guard { allow: [v4, v6].into_iter().filter_map(|any| IpNet::new(any, 0).ok()).collect() }
    }

    pub fn check(&self, address: IpAddr) -> Result<(), Denied> {
        match address {
            IpAddr::V4(v4) => self.check_v4(v4),
            IpAddr::V6(v6) => self.check_v6(v6),
        }
    }

    /// Judges a host as far as it can be judged without DNS. The `url` crate has already turned every spelling of an
    /// IPv4 address (`2130706433`, `0x7f.1`, `0177.0.0.1`) into the one form.
    pub(crate) fn check_host(&self, host: &Host<&str>) -> Result<(), Denied> {
        match host {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(v4) => self.check_v4(*v4),
            Host::Ipv6(v6) => self.check_v6(*v6),
        }
    }

    /// Keeps the permitted addresses of a DNS answer. An answer with none left is a refusal, not a missing name.
    pub(crate) fn permitted(&self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Denied> {
        let mut denied = None;
        let permitted: Vec<_> = found
            .into_iter()
            .filter(|address| self.check(address.ip()).map_err(|error| denied = Some(error)).is_ok())
            .collect();
        match denied {
            Some(denied) if permitted.is_empty() => Err(denied),
            _ => Ok(permitted),
        }
    }

    fn check_v4(&self, address: Ipv4Addr) -> Result<(), Denied> {
        if self.allows(address.into()) {
            return Ok(());
        }
        ranges::special_v4(address).map_or(Ok(()), |kind| Err(Denied { kind }))
    }

    fn check_v6(&self, address: Ipv6Addr) -> Result<(), Denied> {
        // The kernel connects a mapped address over IPv4, so only an IPv4 network can open it: `::/0` must not.
        if let Some(v4) = address.to_ipv4_mapped() {
            return if self.allows(v4.into()) { Ok(()) } else { Err(Denied { kind: "an IPv4-mapped address" }) };
        }
        // A translator or relay would carry the packet on to the embedded address: opening its prefix, as an IPv6-only
        // network must, does not open the private addresses behind it.
        if let Some(v4) = ranges::embedded_v4(address) {
            self.check_v4(v4)?;
        }
        if self.allows(address.into()) {
            return Ok(());
        }
        ranges::special_v6(address).map_or(Ok(()), |kind| Err(Denied { kind }))
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|net| net.contains(&address))
    }
}

#[cfg(test)]
mod tests;
