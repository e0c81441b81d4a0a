use super::*;

fn base() -> Url {
    Url::parse("http://example.org/blog/feed.xml").unwrap()
}

#[track_caller]
fn feed(body: &str) -> Feed {
    read(body.as_bytes(), None, &base()).unwrap()
}

#[track_caller]
fn refused(body: &[u8]) -> String {
    read(body, None, &base()).unwrap_err().to_string()
}

#[test]
fn an_item_of_rss_is_read() {
    let feed = feed(
        "<rss xmlns:content='http://purl.org/rss/1.0/modules/content/' xmlns:dc='http://purl.org/dc/elements/1.1/'>\
         <channel><title>F</title><link>/</link><ttl>60</ttl><language>de_AT</language>\
         <atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='self' href='self.xml'/>\
         <image><title>not this</title><url>/i.png</url><link>/not-this</link></image>\
         <item><title>A &amp;amp; &lt;b&gt;B&lt;/b&gt;</title><link>a?x=1&amp;y=2</link><guid isPermaLink='false'>g1</guid>\
         <description>&lt;p onclick='x'&gt;s&lt;/p&gt;</description><content:encoded><![CDATA[<p>long</p>]]></content:encoded>\
         <dc:creator>C</dc:creator><pubDate>Thu, 01 Jan 2004 19:48:21 GMT</pubDate><category domain='d'>t</category>\
         <enclosure url='/e.mp3' type='audio/mpeg' length='12'/><comments>/c</comments></item></channel></rss>",
    );
    assert_eq!(feed.title.as_deref(), Some("F"));
    assert_eq!(feed.link.as_deref(), Some("http://example.org/"));
    assert_eq!(feed.self_url.as_deref(), Some("http://example.org/blog/self.xml"));
    assert_eq!(feed.icon.as_deref(), Some("http://example.org/i.png"));
    assert_eq!((feed.ttl_minutes, feed.language.as_deref()), (Some(60), Some("de-AT")));
    let entry = &feed.entries[0];
    assert_eq!(entry.title.as_deref(), Some("A & B"));
    assert_eq!(entry.link.as_deref(), Some("http://example.org/blog/a?x=1&y=2"));
    assert_eq!(entry.id.as_deref(), Some("g1"));
    assert_eq!(entry.summary.as_ref().unwrap().value, "<p>s</p>");
    assert_eq!(entry.content[0], FeedText { value: "<p>long</p>".to_owned(), html: true });
    assert_eq!(entry.author.as_deref(), Some("C"));
    assert_eq!(entry.date().unwrap().at.unwrap().to_short_text(), "2004-01-01T19:48:21Z");
    assert_eq!((entry.tags[0].term.as_deref(), entry.tags[0].scheme.as_deref()), (Some("t"), Some("d")));
    let enclosure = &entry.enclosures[0];
    assert_eq!((enclosure.href.as_str(), enclosure.length), ("http://example.org/e.mp3", Some(12)));
    assert_eq!(entry.comments.as_deref(), Some("http://example.org/c"));
}

#[test]
fn an_entry_of_atom_is_read() {
    let feed = feed(
        "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://a.test/x/' xml:lang='en'><id>urn:f</id>\
         <link rel='next' href='2'/><link rel='hub' href='http://hub.test/'/>\
         <entry xml:base='y/'><id>urn:1</id><title type='html'>T &amp;lt; U</title><link rel='related' href='no'/>\
         <link href='z'/><link rel='enclosure' href='e.ogg' length='3'/><published>2004-01-01</published>\
         <author><name>N</name><email>e@x</email></author><author><name>M</name></author>\
         <content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'>a <a href='q'>b</a><br/></div></content>\
         <category term='t' scheme='s' label='l'/></entry></feed>",
    );
    assert_eq!(feed.next_url.as_deref(), Some("http://a.test/x/2"));
    assert_eq!((feed.id.as_deref(), feed.hub.as_deref()), (Some("urn:f"), Some("http://hub.test/")));
    let entry = &feed.entries[0];
    assert_eq!(entry.title.as_deref(), Some("T < U"));
    assert_eq!(entry.link.as_deref(), Some("http://a.test/x/y/z"));
    assert_eq!(entry.enclosures[0].href, "http://a.test/x/y/e.ogg");
    assert_eq!(entry.author.as_deref(), Some("N (e@x), M"));
    assert_eq!(entry.content[0].value, "a <a href=\"http://a.test/x/y/q\">b</a><br>");
    assert_eq!(entry.tags[0].label.as_deref(), Some("l"));
}

#[test]
fn extensions_are_read() {
    let feed = feed(
        "<rss><channel><itunes:new-feed-url>http://n.test/</itunes:new-feed-url><itunes:image href='/p.jpg'/>\
         <item><itunes:author>A</itunes:author><itunes:summary>S</itunes:summary><itunes:keywords>a, b</itunes:keywords>\
         <media:group><media:content url='/m.mp4' type='video/mp4' fileSize='7'><media:title>T</media:title></media:content>\
         <media:thumbnail url='/t.jpg'/></media:group><feedburner:origLink>http://o.test/</feedburner:origLink>\
         <link>http://proxy.test/</link></item></channel></rss>",
    );
    assert_eq!(feed.moved_to.as_deref(), Some("http://n.test/"));
    assert_eq!(feed.icon.as_deref(), Some("http://example.org/p.jpg"));
    let entry = &feed.entries[0];
    assert_eq!((entry.author.as_deref(), entry.title.as_deref()), (Some("A"), Some("T")));
    assert_eq!(entry.description().unwrap().value, "S");
    assert_eq!(entry.tags.len(), 2);
    assert_eq!((entry.enclosures[0].length, entry.image.as_deref()), (Some(7), Some("http://example.org/t.jpg")));
    assert_eq!(entry.link.as_deref(), Some("http://o.test/"));
}

#[test]
fn texts_are_what_they_were_meant_to_be() {
    let atom = |content: &str| {
        let feed =
            feed(&format!("<feed version='0.3' xmlns='http://purl.org/atom/ns#'><entry>{content}</entry></feed>"));
        feed.entries[0].content[0].clone()
    };
    assert_eq!(atom("<content mode='base64' type='text/html'>PGI+eDwvYj4=</content>").value, "<b>x</b>");
    assert_eq!(atom("<content type='text/plain'>1 &lt; 2</content>"), FeedText::plain("1 < 2".to_owned()));
    assert_eq!(atom("<content type='text/plain'>1 &lt; 2</content>").to_html(), "1 &lt; 2");
    assert_eq!(atom("<content type='text/html' mode='escaped'>&lt;i&gt;x&lt;/i&gt;</content>").to_plain(), "x");
    let title = |title: &str| feed(&format!("<rss><channel><title>{title}</title></channel></rss>")).title.unwrap();
    assert_eq!(title("AT&amp;T &lt;3"), "AT&T <3");
    assert_eq!(title("&lt;b&gt;x&lt;/b&gt; &amp;#8211; y"), "x – y");
    assert_eq!(title("List&lt;String&gt; in Java"), "List<String> in Java");
}

// covers: COLL-125
#[test]
fn usual_malformations_are_read() {
    let titles =
        |body: &str| feed(body).entries.iter().map(|entry| entry.title.clone().unwrap_or_default()).collect::<Vec<_>>();
    let item = "<item><title>caf&eacute; &amp; caf&copy;</title></item>";
    for body in [
        format!("<rss><channel>{item}</channel></rss>"),
        format!(
            "Notice: something is wrong in line 3\n<?xml version='1.0'?><rss version='2.0'><channel>{item}</channel></rss>"
        ),
        format!(
            "\u{feff}\n\n<?xml version='1.0'?>\n<!DOCTYPE rss [<!ENTITY x 'y'>]><rss><channel>{item}</channel></rss>"
        ),
        format!("<rss><channel>{item}"),
        format!("<rss><channel>{item}</rss>"),
        format!("<rss><channel>\u{1}\u{8}{item}\u{b}</channel></rss>"),
        format!("<rss><channel><ttl>60</channel>{item}</rss>"),
        format!("<RSS><CHANNEL>{}</CHANNEL></RSS>", item.replace("item", "ITEM").replace("title", "TITLE")),
        format!("<?xml version='1.0'?><soap:Envelope><rss><channel>{item}</channel></rss></soap:Envelope>"),
        format!("<rdf:RDF xmlns='http://purl.org/rss/1.0/'><channel/>{item}</rdf:RDF>"),
        format!("<rss><channel><atom:link href=http://x.test rel=self>{item}</channel></rss>")
            .replace("self>", "self/>"),
    ] {
        assert_eq!(titles(&body), ["café & caf©"], "{body}");
    }
    assert_eq!(
        titles("<rss><channel><item><title>a & b &nosuch; <3</title></item></channel></rss>"),
        ["a & b &nosuch; <3"]
    );
}

// covers: COLL-125
#[test]
fn body_without_a_feed_is_an_error_with_the_reason() {
    let page = b"<!DOCTYPE html><html><head><link rel=alternate type='application/rss+xml' href='/rss'></head></html>";
    assert_eq!(refused(page), "this is an HTML page, not a feed; it names a feed at http://example.org/rss");
    assert_eq!(refused(b"<html><body>x"), "this is an HTML page, not a feed, and it names none");
    assert_eq!(refused(b" \n"), "the body is empty, so it is no feed");
    assert!(refused(b"Service unavailable").contains("`Service unavailable`"));
    assert!(refused(b"<opml version='2.0'></opml>").contains("`<opml version"));
    assert!(refused(b"<html><body><feed>x</feed></body></html>").starts_with("this is an HTML page"));
    assert!(refused(b"<rss></rss>").contains("hollow"));
    assert!(refused(b"{\"items\": [").starts_with("the JSON is broken"));
    assert!(refused(b"{\"data\": 1}").contains("no list `items`"));
    assert!(refused(b"[1]").contains("a list"));
    assert!(refused(b"{\"title\":\"x\",\"items\":[1]}").contains("items[0]"));
}

// covers: COLL-125
#[test]
fn a_feed_without_entries_is_a_feed() {
    assert_eq!(feed("<rss><channel><title>x</title></channel></rss>").entries, []);
}

// covers: COLL-125
#[test]
fn hostile_feeds_are_refused_with_the_limit() {
    let repeated = |what: &str| what.repeat(5_000_000 / what.len());
    assert!(refused(format!("<rss>{}", repeated("<a>")).as_bytes()).contains("deeper than 256"));
    assert!(refused(format!("<rss><channel>{}", repeated("<item/>")).as_bytes()).contains("more than"));
    assert!(refused(&vec![b' '; MAX_BYTES + 1]).contains("15728640"));
    let deep = format!("{{\"version\":\"https://jsonfeed.org/version/1\",\"items\":{}", "[".repeat(5_000_000));
    assert!(refused(deep.as_bytes()).starts_with("the JSON is broken"));
    let deep = format!("{{\"title\":\"x\",\"items\":[{{\"a\":{}{}}}]}}", "[".repeat(200_000), "]".repeat(200_000));
    assert!(refused(deep.as_bytes()).contains("deeper than 127"));
    let bomb = "<!DOCTYPE r [<!ENTITY a 'aaaaaaaaaaaaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'>\
                <!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;'><!ENTITY d '&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;'>\
                <!ENTITY e '&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;'><!ENTITY f '&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;'>]>";
    assert!(refused(format!("{bomb}<rss><channel><title>&f;</title></channel></rss>").as_bytes()).contains("1048576"));
}

/// Each of these once took the square of its length somewhere.
// covers: COLL-125
#[test]
fn hostile_feeds_take_linear_time() {
    let markup = [
        "<a",
        "<a b",
        "<!--",
        "<!A[>",
        "<a b='",
        "<a '",
        "<![CDATA[",
        "&",
        "&a;",
        "</a>",
        "<",
        "<a b=\"<",
        "<?",
        "]]>",
        "<!DOCTYPE [",
    ];
    for part in markup {
        let _ = read(format!("<rss><channel><title>{}", part.repeat(200_000 / part.len())).as_bytes(), None, &base());
    }
    let item = |inner: &str, times: usize| {
        read(format!("<rss><channel><item>{}</item>", inner.repeat(times)).as_bytes(), None, &base()).unwrap()
    };
    assert_eq!(item("<category>a</category>", 30_000).entries[0].tags.len(), 1);
    assert!(item("<author>a</author>", 30_000).entries[0].author.as_ref().unwrap().len() < 1_000);
    let many: String = (0..20_000).map(|at| format!("<category>{at}</category><enclosure url='{at}'/>")).collect();
    assert_eq!(item(&many, 1).entries[0].tags.len(), 200);
    let prefixes: String = (0..5_000).map(|at| format!(" xmlns:p{at}='u'")).collect();
    let names: String = (0..20_000).map(|at| format!("<p:n{at}/>")).collect();
    assert_eq!(feed(&format!("<rss><channel{prefixes}><item>{names}</item>")).entries.len(), 1);
}

#[test]
fn json_feeds_are_read() {
    let feed = feed(
        "{\"version\":\"https://jsonfeed.org/version/1.1\",\"title\":\"F\",\"home_page_url\":\"/\",\"next_url\":\"?p=2\",\"expired\":true,\
         \"hubs\":[{\"type\":\"WebSub\",\"url\":\"http://hub.test/\"}],\"items\":[{\"id\":17,\"external_url\":\"/e\",\
         \"content_text\":\"1 < 2\",\"authors\":[{\"name\":\"A\"},{\"name\":\"B\"}],\"tags\":[\"t\"],\"date_published\":\"2024-01-01T00:00:00Z\",\
         \"attachments\":[{\"url\":\"/a.mp3\",\"mime_type\":\"audio/mpeg\",\"size_in_bytes\":5}]},\
         {\"id\":\"2\",\"content_html\":\"<p onclick=x>h</p>\",\"title\":\"A &#8211; B\"}]}",
    );
    assert_eq!(feed.next_url.as_deref(), Some("http://example.org/blog/feed.xml?p=2"));
    assert!(feed.expired);
    assert_eq!(feed.hub.as_deref(), Some("http://hub.test/"));
    let [first, second] = &feed.entries[..] else { panic!("two entries") };
    assert_eq!((first.id.as_deref(), first.link.as_deref()), (Some("17"), Some("http://example.org/e")));
    assert_eq!(first.content[0].to_html(), "1 &lt; 2", "plain text is escaped before it is shown");
    assert_eq!((first.author.as_deref(), first.enclosures[0].length), (Some("A, B"), Some(5)));
    assert_eq!(second.content[0].value, "<p>h</p>");
    assert_eq!(second.title.as_deref(), Some("A – B"));
}

/// Cases that other parsers get wrong: an entry without id and link is kept, an Atom 0.3 entry is read, UTF-16 needs no
/// byte order mark.
// covers: COLL-123, COLL-125
#[test]
fn faults_of_peers_are_absent() {
    let lonely = feed("<rss><channel><item><description>only text</description></item></channel></rss>");
    let keys = identity(&lonely, IdentityRule::Guid);
    assert_eq!(keys, identity(&lonely, IdentityRule::Guid));
    assert!(keys[0].starts_with("v1:"), "{keys:?}");
    let wide: Vec<u8> = "<rss><channel><title>x</title></channel></rss>".bytes().flat_map(|byte| [byte, 0]).collect();
    assert_eq!(read(&wide, None, &base()).unwrap().title.as_deref(), Some("x"));
    let old = feed(
        "<feed version='0.3' xmlns='http://purl.org/atom/ns#'><entry><title>o</title><modified>2004</modified></entry></feed>",
    );
    assert_eq!(old.entries[0].title.as_deref(), Some("o"));
}

// covers: COLL-125
#[test]
fn truncated_feed_gives_its_complete_entries_and_says_so() {
    let whole = "<rss><channel><title>F</title><item><guid>1</guid><title>a</title></item>\
                 <item><guid>2</guid><title>b</title><description>long text</description></item></channel></rss>";
    let second = whole.find("<guid>2").unwrap();
    for end in [second + 3, whole.find("long").unwrap() + 2, whole.find("</item></channel>").unwrap()] {
        let feed = feed(&whole[..end]);
        assert!(feed.truncated);
        assert_eq!(feed.entries.iter().map(|entry| entry.id.as_deref().unwrap()).collect::<Vec<_>>(), ["1"]);
    }
    let feed = feed(&whole[..whole.find("</channel>").unwrap()]);
    assert_eq!((feed.truncated, feed.entries.len()), (true, 2));
    let first = whole.find("<title>a").unwrap();
    assert!(refused(&whole.as_bytes()[..first]).contains("ends inside its first entry"));
    // Entries without end tags, as some programs write them.
    let open = feed_ids("<rss><channel><item><guid>1</guid><item><guid>2</guid></channel></rss>");
    assert_eq!(open.len(), 1);
}

fn feed_ids(body: &str) -> Vec<Option<String>> {
    feed(body).entries.into_iter().map(|entry| entry.id).collect()
}

// covers: COLL-125
#[test]
fn entries_are_found_where_other_readers_find_them() {
    let rss11 = "<Channel xmlns='http://purl.org/net/rss1.1#' xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' \
                 rdf:about='http://a.test/rss'><title>F</title><link>http://a.test/</link><description>d</description>\
                 <items rdf:parseType='Collection'><item rdf:about='http://a.test/1'><title>one</title>\
                 <link>http://a.test/1</link></item></items></Channel>";
    let found = feed(rss11);
    assert_eq!(found.title.as_deref(), Some("F"));
    assert_eq!(found.entries[0].title.as_deref(), Some("one"));
    let stray =
        feed("<rss><channel><title>F</title><articles><item><title>one</title></item></articles></channel></rss>");
    assert_eq!(stray.entries[0].title.as_deref(), Some("one"));
}

// covers: COLL-125
#[test]
fn an_entry_with_only_one_time_was_published_then() {
    let at = |body: &str| {
        let feed = feed(body);
        let shown = |date: Option<&FeedDate>| date.and_then(|date| date.at).map(patra_core::Ts::to_short_text);
        (shown(feed.entries[0].date()), shown(feed.entries[0].changed()))
    };
    let both = |published: &str, changed: &str| (Some(published.to_owned()), Some(changed.to_owned()));
    let (first, later) = ("2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z");
    let atom =
        |dates: &str| format!("<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id>{dates}</entry></feed>");
    assert_eq!(at(&atom(&format!("<updated>{later}</updated>"))), both(later, later));
    assert_eq!(at(&atom(&format!("<published>{first}</published><updated>{later}</updated>"))), both(first, later));
    assert_eq!(
        at(&format!("<rss><channel><item><dc:date>{first}</dc:date></item></channel></rss>")),
        both(first, first)
    );
    let rdf = format!("<rdf:RDF xmlns='http://purl.org/rss/1.0/'><item><dc:date>{first}</dc:date></item></rdf:RDF>");
    assert_eq!(at(&rdf), both(first, first));
    let unreadable =
        format!("<rss><channel><item><pubDate>soon</pubDate><dc:date>{first}</dc:date></item></channel></rss>");
    assert_eq!(at(&unreadable), both(first, first));
}
