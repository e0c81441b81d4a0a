//! The address guard: which addresses a request may reach. By default only globally routable unicast addresses, so that
//! no source can be used to reach the machine or the network Patra runs in (SSRF).
//!
//! It is checked twice: by the resolver for every DNS result, and before sending for hosts that are IP literals,
//! because those never reach a resolver.

mod ranges;
pub(crate) mod resolver;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use url::Host;

/// Denies every address that is not globally routable unicast, except those in `allow`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressGuard {
    /// Networks that the operator allows in addition. An IPv4 network also allows its IPv4-mapped form.
    pub allow: Vec<IpNet>,
}

/// The kind of address that was denied. The address itself is left out: the author of a URL must not learn what a
/// private name resolves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct DeniedAddress {
    kind: &'static str,
}

impl DeniedAddress {
    /// A local name that only the proxy could resolve, so that its address cannot be checked.
    pub(crate) const UNKNOWN_LOCAL_NAME: DeniedAddress =
        DeniedAddress { kind: "a local name that cannot be looked up here" };
}

impl AddressGuard {
    pub fn new(allow: Vec<IpNet>) -> AddressGuard {
        AddressGuard { allow }
    }

    /// Allows every address, for services that the operator configured.
    pub(crate) fn open() -> AddressGuard {
        let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        AddressGuard { allow: [v4, v6].into_iter().filter_map(|any| IpNet::new(any, 0).ok()).collect() }
    }

    pub fn check(&self, address: IpAddr) -> Result<(), DeniedAddress> {
        match address {
            IpAddr::V4(v4) => self.check_v4(v4),
            IpAddr::V6(v6) => self.check_v6(v6),
        }
    }

    /// Checks a host without DNS: IP literals only. The `url` crate has already normalised every spelling of an IPv4
    /// address (`2130706433`, `0x7f.1`, `0177.0.0.1`).
    pub(crate) fn check_host(&self, host: &Host<&str>) -> Result<(), DeniedAddress> {
        match host {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(v4) => self.check_v4(*v4),
            Host::Ipv6(v6) => self.check_v6(*v6),
        }
    }

    /// Keeps the allowed addresses of a DNS result. If none is left, the result is a denial, not a missing name.
    pub(crate) fn filter_allowed(&self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DeniedAddress> {
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

    fn check_v4(&self, address: Ipv4Addr) -> Result<(), DeniedAddress> {
        if self.allows(address.into()) {
            return Ok(());
        }
        ranges::special_v4(address).map_or(Ok(()), |kind| Err(DeniedAddress { kind }))
    }

    fn check_v6(&self, address: Ipv6Addr) -> Result<(), DeniedAddress> {
        // The kernel connects a mapped address over IPv4, so only an IPv4 network can allow it: `::/0` must not.
        if let Some(v4) = address.to_ipv4_mapped() {
            return if self.allows(v4.into()) { Ok(()) } else { Err(DeniedAddress { kind: "an IPv4-mapped address" }) };
        }
        // A translator or relay would forward the packet to the embedded address: allowing its prefix, as an IPv6-only
        // network must, does not allow the private addresses behind it.
        if let Some(v4) = ranges::embedded_v4(address) {
            self.check_v4(v4)?;
        }
        if self.allows(address.into()) {
            return Ok(());
        }
        ranges::special_v6(address).map_or(Ok(()), |kind| Err(DeniedAddress { kind }))
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|net| net.contains(&address))
    }
}

#[cfg(test)]
mod tests;
