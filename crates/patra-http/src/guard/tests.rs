use url::Url;

use super::*;

fn check(guard: &AddressGuard, literal: &str) -> Result<(), DeniedAddress> {
    let url = Url::parse(&format!("http://{literal}/")).unwrap();
    let host = url.host().unwrap();
    assert!(!matches!(host, Host::Domain(_)), "{literal} is not seen as an address");
    guard.check_host(&host)
}

// covers: ING-4.2-09
#[test]
fn only_global_unicast_is_allowed_by_default() {
    let refused = "
        127.0.0.1 127.1 127.0.1 127.255.255.254 2130706433 0x7f000001 0x7f.1 0x7F.0.0.1 0177.0.0.1 0177.1 017700000001
        0 0.0.0.0 0.1.2.3 00 0x0
        10.0.0.0 10.0.0.1 10.255.255.255 167772161 012.1 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 0xc0a80001
        169.254.0.1 169.254.169.254 2852039166 0xa9fea9fe 169.254.170.2 100.64.0.1 100.127.255.255 100.100.100.200
        192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9
        224.0.0.1 239.255.255.255 240.0.0.1 254.1.2.3 255.255.255.255 4294967295
        127.0.0.1. 127\u{3002}0\u{3002}0\u{3002}1 \u{2460}\u{2461}\u{2466}.1 %31%32%37.0.0.1
        [::] [::1] [0:0:0:0:0:0:0:1] [::127.0.0.1] [::10.0.0.1] [::8.8.8.8]
        [::ffff:127.0.0.1] [::ffff:7f00:1] [::ffff:10.0.0.1] [::ffff:169.254.169.254] [::ffff:8.8.8.8] [::ffff:0:127.0.0.1]
        [fc00::1] [fd00::1] [fd00:ec2::254] [fdff:ffff::1] [fe80::1] [febf::1] [fec0::1] [feff::1]
        [ff02::1] [ff0e::1] [100::1] [2001::1] [2001:0:7f00:1::1] [2001:2::1] [2001:10::1] [2001:20::1]
        [2001:db8::1] [3fff::1] [5f00::1] [4000::1]
        [2002:7f00:1::1] [2002:a00:1::1] [2002:808:808::1] [2002:a9fe:a9fe::]
        [64:ff9b::127.0.0.1] [64:ff9b::10.0.0.1] [64:ff9b::8.8.8.8] [64:ff9b::a9fe:a9fe]
        [64:ff9b:1::127.0.0.1] [64:ff9b:1::8.8.8.8]";
    let open = "
        1.1.1.1 8.8.8.8 134744072 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1
        169.253.255.255 169.255.0.1 172.15.255.255 172.32.0.1 192.0.1.1 192.0.3.1 192.167.255.255 192.169.0.1
        198.17.255.255 198.20.0.1 198.51.99.1 198.51.101.1 203.0.112.1 203.0.114.1 223.255.255.255
        [2001:200::1] [2001:4860:4860::8888] [2001:db9::1] [2003::1] [2606:4700:4700::1111] [2a00:1450::1] [3ffe::1]";
    let guard = AddressGuard::default();
    for literal in refused.split_whitespace() {
        assert!(check(&guard, literal).is_err(), "{literal} got through");
    }
    for literal in open.split_whitespace() {
        assert_eq!(check(&guard, literal), Ok(()), "{literal}");
    }
}

#[test]
fn allowed_network_allows_only_itself() {
    #[rustfmt::skip]
    let cases: &[(&[&str], &str, bool)] = &[
        (&["127.0.0.0/8"], "127.0.0.1", true),
        (&["127.0.0.0/8"], "[::ffff:127.0.0.1]", true),
        (&["127.0.0.0/8"], "[::1]", false),
        (&["127.0.0.0/8"], "[::127.0.0.1]", false),
        (&["127.0.0.0/8"], "[64:ff9b::127.0.0.1]", false),
        (&["127.0.0.0/8"], "[2002:7f00:1::1]", false),
        (&["127.0.0.0/8"], "10.0.0.1", false),
        (&["10.1.2.3/32"], "10.1.2.3", true),
        (&["10.1.2.3/32"], "10.1.2.4", false),
        (&["::1/128"], "[::1]", true),
        (&["::1/128"], "127.0.0.1", false),
        (&["::/0"], "[fd00::1]", true),
        (&["::/0"], "[::ffff:127.0.0.1]", false),
        (&["::/0"], "[::ffff:8.8.8.8]", false),
        (&["64:ff9b::/96"], "[64:ff9b::8.8.8.8]", true),
        (&["64:ff9b::/96"], "[64:ff9b::10.0.0.1]", false),
        (&["64:ff9b::/96"], "[64:ff9b::169.254.169.254]", false),
        (&["64:ff9b::/96", "10.0.0.0/8"], "[64:ff9b::10.0.0.1]", true),
        (&["2002::/16"], "[2002:808:808::1]", true),
        (&["2002::/16"], "[2002:a00:1::1]", false),
    ];
    for (allow, literal, open) in cases {
        let guard = AddressGuard::new(allow.iter().map(|net| net.parse().unwrap()).collect());
        assert_eq!(check(&guard, literal).is_ok(), *open, "{literal} with {allow:?}");
    }
}

#[test]
fn dns_result_keeps_only_allowed_addresses() {
    let addresses_of =
        |addresses: &[&str]| addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
    let guard = AddressGuard::default();
    let mixed = guard.filter_allowed(addresses_of(&["127.0.0.1", "8.8.8.8", "fd00::1", "::ffff:10.0.0.1"]));
    assert_eq!(mixed, Ok(addresses_of(&["8.8.8.8"])));
    assert!(guard.filter_allowed(addresses_of(&["10.0.0.1", "::1"])).is_err());
    assert_eq!(guard.filter_allowed(Vec::new()), Ok(Vec::new()));
}
