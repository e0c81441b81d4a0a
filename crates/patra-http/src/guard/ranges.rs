//! The special-purpose address registries of IANA that concern a client. Data, no policy.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The special purpose of the address; `None` for globally routable unicast.
pub(super) fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, kind)| *kind)
}

/// The special purpose of the address; `None` for globally routable unicast.
pub(super) fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let listed = V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, kind)| *kind);
    // Only 2000::/3 is allocated for global unicast; everything outside is denied.
    listed.or_else(|| (!GLOBAL_UNICAST.contains(&address)).then_some("outside of global unicast"))
}

/// The IPv4 address that a NAT64 translator or a 6to4 relay would send the packet to.
///
/// For the local-use prefix the usual /96 layout is assumed; shorter ones cannot be distinguished from outside.
pub(super) fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    if NAT64.contains(&address) || NAT64_LOCAL.contains(&address) {
        Some(Ipv4Addr::from_bits((bits & 0xffff_ffff) as u32))
    } else if SIX_TO_FOUR.contains(&address) {
        Some(Ipv4Addr::from_bits(((bits >> 80) & 0xffff_ffff) as u32))
    } else {
        None
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

/// Every prefix in the table except `::` and `::1` is given by its first three groups.
const fn v6(a: u16, b: u16, c: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), length)
}

const GLOBAL_UNICAST: Ipv6Net = v6(0x2000, 0, 0, 3);
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);
const NAT64_LOCAL: Ipv6Net = v6(0x64, 0xff9b, 1, 48);
const SIX_TO_FOUR: Ipv6Net = v6(0x2002, 0, 0, 16);

const V4: &[(Ipv4Net, &str)] = &[
    (v4(0, 0, 0, 0, 8), "in this network (0/8)"),
    (v4(10, 0, 0, 0, 8), "a private address"),
    (v4(100, 64, 0, 0, 10), "a shared (carrier NAT) address"),
    (v4(127, 0, 0, 0, 8), "a loopback address"),
    (v4(169, 254, 0, 0, 16), "a link-local address"),
    (v4(172, 16, 0, 0, 12), "a private address"),
    (v4(192, 0, 0, 0, 24), "a protocol assignment"),
    (v4(192, 0, 2, 0, 24), "a documentation address"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay address"),
    (v4(192, 168, 0, 0, 16), "a private address"),
    (v4(198, 18, 0, 0, 15), "a benchmarking address"),
    (v4(198, 51, 100, 0, 24), "a documentation address"),
    (v4(203, 0, 113, 0, 24), "a documentation address"),
    (v4(224, 0, 0, 0, 4), "a multicast address"),
    (v4(255, 255, 255, 255, 32), "the broadcast address"),
    (v4(240, 0, 0, 0, 4), "a reserved address"),
];

const V6: &[(Ipv6Net, &str)] = &[
    (Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 128), "the unspecified address"),
    (Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128), "the loopback address"),
    (v6(0, 0, 0, 96), "an IPv4-compatible address"),
    (NAT64, "a NAT64 address"),
    (NAT64_LOCAL, "a NAT64 address"),
    (v6(0x2001, 0, 0, 32), "a Teredo address"),
    (v6(0x2001, 0, 0, 23), "a protocol assignment"),
    (v6(0x2001, 0xdb8, 0, 32), "a documentation address"),
    (SIX_TO_FOUR, "a 6to4 address"),
    (v6(0x3fff, 0, 0, 20), "a documentation address"),
    (v6(0xfc00, 0, 0, 7), "a unique local address"),
    (v6(0xfe80, 0, 0, 10), "a link-local address"),
    (v6(0xfec0, 0, 0, 10), "a site-local address"),
    (v6(0xff00, 0, 0, 8), "a multicast address"),
];
