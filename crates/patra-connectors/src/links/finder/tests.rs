use super::*;
use crate::links::MAX_URL_BYTES;

fn found(text: &str) -> FoundLinks {
    let mut finder = LinkFinder::new(LinkOptions::default());
    finder.text(text);
    finder.finish()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let found = found(text);
    let urls: Vec<_> = found.links.iter().map(|link| link.url.as_str()).collect();
    assert_eq!(urls, expected, "{text}");
}

// covers: POOL-45
#[test]
fn links_come_once_in_the_order_of_their_first_finding() {
    let mut finder = LinkFinder::new(LinkOptions::default());
    finder.text("http://b.example/ http://a.example HTTP://B.example:80/#x");
    finder.text("http://c.example, then http://a.example/.");
    let links = finder.finish().links;
    let urls: Vec<_> = links.iter().map(|link| (link.url.as_str(), link.domain.as_str())).collect();
    assert_eq!(
        urls,
        [("http://b.example/", "b.example"), ("http://a.example/", "a.example"), ("http://c.example/", "c.example")]
    );
}

// covers: POOL-45
#[test]
fn only_http_and_https_count_and_the_sentence_is_no_part_of_them() {
    check("ftp://a.example/ mailto:a@b.example www.a.example //a.example git+https://a.example/", &[]);
    check("(see “https://a.example/x”, or http://b.example/y!)", &["https://a.example/x", "http://b.example/y"]);
    check(
        "https://a.example/?b='c' 'https://a.example/d', https://a.example/e'.",
        &["https://a.example/?b=%27c%27", "https://a.example/d", "https://a.example/e"],
    );
    check("https://a.example/?b='c','d'.", &["https://a.example/?b=%27c%27,%27d%27"]);
    check("https://a.example/x_(y)) https://a.example/z]", &["https://a.example/x_(y)", "https://a.example/z"]);
}

// covers: POOL-122
#[test]
fn no_secret_is_found() {
    check("https://me:top-secret@a.example/x https://token@b.example", &["https://a.example/x", "https://b.example/"]);
    check("https://me:1234,5!6@a.example/", &["https://a.example/"]);
    check("http://a.example,me@b.example", &["http://a.example/"]);
    for odd in [
        "us!er:pw",
        "(user:pw",
        "a,b:pw",
        "user,x",
        "用户:密码",
        "us$er",
        "a=b",
        "me.you!",
        "näme",
        "u.ü:p",
        "a:b@c",
        "us|er",
    ] {
        check(&format!("see https://{odd}@a.example/x."), &["https://a.example/x"]);
    }
    for none in ["http://user:pa#ss@a.example/", "http://user:pa/ss@a.example/ x", "http://user:pa?ss@a.example/"] {
        check(none, &[]);
    }
    check("http://a.example查看me@b.example", &["http://a.example/"]);
    check("http://localhost:8080/@me http://localhost:/@me", &["http://localhost:8080/@me", "http://localhost/@me"]);
    let token = format!("https://x-access-token:{}@a.example/x", "t".repeat(1500));
    check(&token, &["https://a.example/x"]);
}

// covers: POOL-45
#[test]
fn defanged_address_is_no_link() {
    for text in [
        "https://evil[.]com/a",
        "https://evil[.]com",
        "https://www[.]evil[.]com/a",
        "https://www.evil[.]com/a",
        "https://evil(.)com/a",
        "https://evil{.}com",
        "https://evil[dot]com/a",
        "https://evil(DOT)com/a",
        "https://evil [.] com/a",
        r"https://evil\[.\]com/a",
        "https://evil[.com/a",
        "https://evil.]com/a",
        "<a href=\"https://evil[.]com/a\">https://evil[.]com/a</a>",
        "'https://evil[.]com/a'",
        "[https://evil[.]com/a](https://evil[.]com/a)",
    ] {
        check(text, &[]);
        let mut finder = LinkFinder::new(LinkOptions::default());
        finder.string(text);
        assert_eq!(finder.finish().links, [], "{text}");
    }
    check("http://a.example[1] http://b.example (x) http://c.example(.)", &["http://a.example/", "http://b.example/"]);
    check("(http://a.example.) [http://b.example.] c", &["http://a.example/", "http://b.example/"]);
}

// covers: POOL-123
#[test]
fn too_long_url_is_left_out_and_counted() {
    let of = |bytes: usize| format!("http://a.example/{}", "x".repeat(bytes - 17));
    let text = format!("{} {} http://b.example/", of(MAX_URL_BYTES), of(MAX_URL_BYTES + 1));
    let found = found(&text);
    assert_eq!((found.links.len(), found.too_long, found.partial), (2, 1, false));
    let huge = format!("<a href=\"{}\">{}</a> http://b.example/", of(1_000_000), of(10_000));
    let mut finder = LinkFinder::new(LinkOptions::default());
    finder.text(&huge);
    finder.string(&of(1_000_000));
    let found = finder.finish();
    assert_eq!((found.links.len(), found.too_long), (1, 3));
}

#[test]
fn beyond_the_limit_the_result_is_partial() {
    let text: String = (0..10).map(|at| format!("http://a.example/{at} ")).collect();
    for (limit, expected) in [(0, 0), (9, 9), (10, 10), (11, 10)] {
        let mut finder = LinkFinder::new(LinkOptions::default()).at_most(limit);
        finder.text(&text);
        finder.text(&text);
        assert_eq!(finder.is_partial(), limit < 10);
        let found = finder.finish();
        assert_eq!((found.links.len(), found.partial), (expected, limit < 10));
        assert!(found.links.iter().enumerate().all(|(at, link)| link.url == format!("http://a.example/{at}")));
    }
}

#[test]
fn as_many_as_the_limit_fit_into_one_value() {
    let mut text = String::new();
    for at in 0..=MAX_LINKS {
        text.push_str(&format!("http://a.example/{at} "));
    }
    let found = found(&text);
    assert_eq!((found.links.len(), found.partial), (MAX_LINKS, true));
}

// covers: POOL-124
#[test]
fn tracking_goes_when_asked() {
    let text = "http://a.example/?id=1&utm_source=x http://a.example/?gclid=2&id=1 http://a.example/?id=1";
    assert_eq!(found(text).links.len(), 3);
    let mut finder = LinkFinder::new(LinkOptions { remove_tracking: true });
    finder.text(text);
    let links = finder.finish().links;
    assert_eq!(links.len(), 1);
    assert_eq!(links[0].url, "http://a.example/?id=1");
}

/// If any of it were searched again and again, this would not end today.
#[test]
fn hostile_texts_cost_no_more_than_their_size() {
    let pieces = [
        "http:",
        ":",
        "://",
        "http://a",
        "http://a/",
        "http://a/http://a",
        "http://$/",
        "http://a@",
        "http://a:1@",
        "http://a,",
        "http://a.",
        "http://a/(",
        "http://a/)",
        "http://a/([{",
        "href=\"http://a ",
        "href='http://a\"",
        "http://a&amp;",
        "http:&#x2F;&#x2F;",
        "&amp;",
        "\\",
        "http:\\/\\/",
        "http://例",
        "http://a例",
        "http://a/例",
        "http://[",
        "http://[::1]",
        "http://1.",
        "http://%41",
        "http://a/%",
        "\u{1}",
        "http://a\u{0}",
        "http://a/?",
        "http://xn--a/",
        "http://a/:1:1:",
    ];
    let texts = pieces.into_iter().map(|piece| piece.repeat(100_000 / piece.len()));
    for text in texts.chain(["http://".repeat(150_000)]) {
        let mut finder = LinkFinder::new(LinkOptions::default());
        finder.text(&text);
        finder.string(&text);
        finder.json(&text);
        let found = finder.finish();
        assert!(found.links.len() < 10, "{}: {} links", &text[..7], found.links.len());
    }
}

#[test]
fn a_url_of_all_escapes_is_read() {
    check("http:&#47;&#x2f;a.example&#47;b&amp;quot;", &["http://a.example/b"]);
    check(r#"http:\u002f\/a.example\/b\u003fc=\u00e9\u0022"#, &["http://a.example/b?c=%C3%A9"]);
}
