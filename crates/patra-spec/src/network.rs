//! Networks in the notation of CIDR.

use ipnet::IpNet;

/// Most networks that one endpoint, or one source, may name.
pub const MAX_NETWORKS: usize = 16;

/// Reads `10.0.0.0/8`, or an address, which is a network of one. An address with a prefix that leaves some of its bits
/// out is refused: it would allow more than it seems to.
pub fn parse(text: &str) -> Result<IpNet, String> {
    let network: IpNet = text
        .parse()
        .or_else(|error| text.parse::<std::net::IpAddr>().map(IpNet::from).map_err(|_| error))
        .map_err(|_| format!("{text:?} is not a network such as 10.0.0.0/8"))?;
    if network == network.trunc() {
        return Ok(network);
    }
    Err(format!(
        "{text} is an address with a prefix, not a network: write {} for the network, or {} for the address alone",
        network.trunc(),
        IpNet::from(network.addr())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_with_host_bits_is_refused_with_the_canonical_one() {
        assert_eq!(parse("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(parse("10.0.0.5").unwrap().to_string(), "10.0.0.5/32");
        let refused = parse("10.0.0.5/8").unwrap_err();
        assert!(refused.contains("10.0.0.0/8") && refused.contains("10.0.0.5/32"), "{refused}");
        assert!(parse("fd00::1/8").unwrap_err().contains("fd00::/8"));
        assert!(parse("all").is_err());
    }
}
