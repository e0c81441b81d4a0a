//! An upstream with feeds. It listens on all of 127.0.0.0/8, so that every address there is a host of its own.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) host: String,
    pub(crate) path: String,
    /// Lower-case names.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) at: Instant,
}

#[derive(Debug, Default)]
struct State {
    hits: Vec<Hit>,
    active: BTreeMap<String, usize>,
    most: usize,
    most_of_a_host: usize,
    released: bool,
    /// Answers to requests for robots.txt, by host: status, headers, body. Other hosts have none.
    robots: BTreeMap<String, (String, String, String)>,
    robots_hits: Vec<Hit>,
}

#[derive(Clone, Debug)]
pub(crate) struct FeedServer {
    port: u16,
    state: Arc<Mutex<State>>,
}

/// Serves each connection on a thread of its own, on all of 127.0.0.0/8. Returns the port, which each call gets too.
pub(crate) fn listen(serve: impl Fn(u16, TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let (port, serve) = (listener.local_addr().unwrap().port(), Arc::new(serve));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(port, stream));
        }
    });
    port
}

/// The head of a request; nothing if the connection ended before.
pub(crate) fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// Sends a whole response with these headers, each of which ends its line.
pub(crate) fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

impl FeedServer {
    pub(crate) fn start() -> FeedServer {
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let port = listen(move |port, stream| FeedServer { port, state: Arc::clone(&shared) }.serve(stream));
        FeedServer { port, state }
    }

    /// The address of a path on the host with this number.
    pub(crate) fn url(&self, host: u8, path: &str) -> String {
        format!("http://127.0.0.{host}:{}{path}", self.port)
    }

    /// Sets the robots.txt of the host with this number.
    pub(crate) fn robots(&self, host: u8, status: &str, headers: &str, body: &str) {
        let answer = (status.to_owned(), headers.to_owned(), body.to_owned());
        self.state.lock().unwrap().robots.insert(format!("127.0.0.{host}:{}", self.port), answer);
    }

    /// How often the robots.txt of the host with this number was requested.
    pub(crate) fn robots_hits(&self, host: u8) -> usize {
        let host = format!("127.0.0.{host}:{}", self.port);
        self.state.lock().unwrap().robots_hits.iter().filter(|hit| hit.host == host).count()
    }

    /// All requests except those for robots.txt.
    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.state.lock().unwrap().hits.clone()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.hits().into_iter().map(|hit| hit.path).collect()
    }

    pub(crate) fn forget(&self) {
        let mut state = self.state.lock().unwrap();
        state.hits.clear();
        (state.most, state.most_of_a_host) = (0, 0);
    }

    /// Most requests at once, of all and of one host.
    pub(crate) fn most(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.most, state.most_of_a_host)
    }

    /// Releases the delayed responses.
    pub(crate) fn release(&self) {
        self.state.lock().unwrap().released = true;
    }

    pub(crate) fn wait_for(&self, hits: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.hits().len() < hits {
            assert!(Instant::now() < end, "{hits} requests wanted, only these came: {:?}", self.paths());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn serve(&self, mut stream: TcpStream) {
        let Some(head) = read_head(&mut stream) else { return };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let headers: BTreeMap<_, _> = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        let host = headers.get("host").cloned().unwrap_or_default();
        {
            let mut state = self.state.lock().unwrap();
            let hit = Hit { host: host.clone(), path: path.clone(), headers: headers.clone(), at: Instant::now() };
            match path == "/robots.txt" {
                true => state.robots_hits.push(hit),
                false => state.hits.push(hit),
            }
            *state.active.entry(host.clone()).or_default() += 1;
            let (all, one) = (state.active.values().sum(), state.active[&host]);
            (state.most, state.most_of_a_host) = (state.most.max(all), state.most_of_a_host.max(one));
        }
        match path == "/robots.txt" {
            true => self.answer_robots(&mut stream, &host),
            false => self.answer(&mut stream, &path, &headers),
        }
        *self.state.lock().unwrap().active.get_mut(&host).unwrap() -= 1;
    }

    fn answer_robots(&self, stream: &mut TcpStream, host: &str) {
        let none = || ("404 Not Found".to_owned(), String::new(), String::new());
        let (status, headers, body) = self.state.lock().unwrap().robots.get(host).cloned().unwrap_or_else(none);
        reply(stream, &status, &headers, body.as_bytes());
    }

    fn answer(&self, stream: &mut TcpStream, path: &str, headers: &BTreeMap<String, String>) {
        let mut send = |status: &str, more: &str, body: &[u8]| reply(stream, status, more, body);
        let feed = feed(path);
        match path.split(['/', '?']).nth(1).unwrap_or_default() {
            "feed" | "hn" if headers.get("if-none-match").is_some_and(|tag| tag == "\"v1\"") => {
                send("304 Not Modified", "ETag: \"v1\"\r\n", b"");
            }
            "feed" => send("200 OK", "ETag: \"v1\"\r\nContent-Type: application/rss+xml\r\n", feed.as_bytes()),
            // Without validators, only the body shows that nothing is new.
            "bare" => send("200 OK", "", feed.as_bytes()),
            "held" => {
                while !self.state.lock().unwrap().released {
                    std::thread::sleep(Duration::from_millis(10));
                }
                send("200 OK", "", feed.as_bytes());
            }
            "slow" => {
                let millis = path.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(500);
                std::thread::sleep(Duration::from_millis(millis));
                send("200 OK", "", feed.as_bytes());
            }
            // A different id for every reader.
            "guids" => {
                let feed = feed.replace("<guid>", &format!("<guid>{}-", self.hits().len()));
                send("200 OK", "", feed.as_bytes());
            }
            // Cut in its second entry; then whole, with a correction of the first one.
            "story" => {
                let is_first = self.paths().iter().filter(|known| *known == path).count() == 1;
                let text = if is_first { "first text" } else { "corrected text" };
                let story = STORY.replace("TEXT", text);
                let end = if is_first { story.find("second").unwrap() } else { story.len() };
                send("200 OK", "Content-Location: /elsewhere/\r\n", &story.as_bytes()[..end]);
            }
            "rules" => send("200 OK", "Content-Type: text/plain\r\n", b"User-agent: *\nDisallow: /plain\n"),
            "hurried" => send("429 Too Many Requests", "", b""),
            "token" => send("200 OK", "Content-Type: application/json\r\n", TOKEN),
            "oauth" => match headers.get("authorization").map(String::as_str) {
                Some("Bearer a-token") => send("200 OK", "Content-Type: application/json\r\n", POSTS),
                _ => send("401 Unauthorized", "", b""),
            },
            "public" => send("200 OK", "Content-Type: application/atom+xml\r\n", PUBLIC),
            "error" => send("500 Internal Server Error", "", b"no"),
            "gone" => send("410 Gone", "", b""),
            "moved" => send("301 Moved Permanently", "Location: /feed/moved\r\n", b""),
            "found" => send("302 Found", "Location: /feed/found\r\n", b""),
            "loop" => send("302 Found", "Location: /loop\r\n", b""),
            "private" => send("302 Found", "Location: http://10.255.255.1/feed\r\n", b""),
            "busy" => {
                let seconds = path.rsplit('/').find_map(|word| word.parse::<u32>().ok()).unwrap_or(3_600);
                send("429 Too Many Requests", &format!("Retry-After: {seconds}\r\n"), b"");
            }
            "rss11" => send("200 OK", "Content-Type: application/rdf+xml\r\n", RSS_1_1),
            // Two entries share a guid; the next time one of them is left.
            "twins" => {
                let is_first = self.paths().iter().filter(|known| *known == path).count() == 1;
                let item = |link: &str| {
                    format!(
                        "<item><guid isPermaLink='false'>g</guid><link>http://x.test/{link}</link><title>{link}</title></item>"
                    )
                };
                let items = if is_first { item("a") + &item("b") } else { item("b") };
                let feed = format!("<rss version='2.0'><channel><title>T</title>{items}</channel></rss>");
                send("200 OK", "", feed.as_bytes());
            }
            "page" => send("200 OK", "Content-Type: text/html\r\n", PAGE),
            "plain" => send("200 OK", "Content-Type: text/html\r\n", PLAIN),
            "hits" => send("200 OK", "Content-Type: application/json\r\n", HITS),
            "json" => send("200 OK", "Content-Type: application/json\r\n", LIST),
            "divs" => send("200 OK", "Content-Type: text/html\r\n", &"<div>".repeat(900_000).into_bytes()),
            "entities" => send("200 OK", "Content-Type: application/rss+xml\r\n", BOMB),
            "deep" => send("200 OK", "Content-Type: application/json\r\n", &"{\"a\":".repeat(1_000_000).into_bytes()),
            "endless" => {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/rss+xml\r\n\r\n<rss>";
                let _ = stream.write_all(head.as_bytes());
                while stream.write_all(&[b' '; 65_536]).is_ok() {}
            }
            "gzip" => {
                send("200 OK", "Content-Encoding: gzip\r\nContent-Type: application/rss+xml\r\n", &GZIP_BOMB);
            }
            _ => send("404 Not Found", "", b""),
        }
    }
}

/// A quarter of a gigabyte of blanks, compressed. Made once, because it takes longer than a source waits on a loaded
/// machine.
pub(super) static GZIP_BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let blanks = vec![b' '; 1 << 20];
    for _ in 0..256 {
        packer.write_all(&blanks).unwrap();
    }
    packer.finish().unwrap()
});

fn feed(path: &str) -> String {
    let item = |n: u32| {
        format!(
            "<item><title>Entry {n} of {path}</title><link>http://x.test{path}/{n}</link><guid>{path}-{n}</guid>\
             <author>A. Writer</author><pubDate>Mon, 16 Nov 2026 0{n}:00:00 GMT</pubDate>\
             <description>&lt;p&gt;Text {n}&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;</description></item>"
        )
    };
    format!("<rss version=\"2.0\"><channel><title>Feed {path}</title>{}{}</channel></rss>", item(1), item(2))
}

const PAGE: &[u8] =
    b"<html><head><title>Site</title><link rel=alternate type=application/rss+xml href=/feed/site></head>\
    <body><p>Welcome</p></body></html>";
const PLAIN: &[u8] =
    b"<html><head><title>A page</title></head><body><article><h1>A page</h1><p>This is the text of the page, \
    and it is long enough to be taken for what the page is about.</p></article></body></html>";
const TOKEN: &[u8] = br#"{"access_token":"a-token","token_type":"bearer","expires_in":3600}"#;
const POSTS: &[u8] = br#"{"kind":"Listing","data":{"children":[
    {"kind":"t3","data":{"name":"t3_a","title":"A post","url":"http://x.test/a","author":"someone","selftext":"Text",
        "created_utc":1794790800,"score":42,"num_comments":7,"permalink":"/r/rust/a","stickied":false}},
    {"kind":"t3","data":{"name":"t3_b","title":"Rules","created_utc":1794790800,"stickied":true}}]}}"#;
const PUBLIC: &[u8] =
    br#"<feed xmlns="http://www.w3.org/2005/Atom"><title>rust</title><entry><id>t3_a</id><title>A post</title>
    <link href="http://x.test/a"/><published>2026-11-16T01:00:00Z</published></entry></feed>"#;
const HITS: &[u8] = br#"{"hits":[{"objectID":"7","title":"A story","url":"http://x.test/7","author":"pg",
    "created_at":"2026-11-16T01:00:00Z","points":12,"num_comments":3}]}"#;
const LIST: &[u8] =
    br#"{"data":[{"n":1,"t":"One","at":"2026-11-16T01:00:00Z"},{"n":2,"t":"Two","at":"2026-11-16T02:00:00Z"}]}"#;
const BOMB: &[u8] = b"<?xml version=\"1.0\"?><!DOCTYPE rss [<!ENTITY a \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\">\
    <!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\">\
    <!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;\"><!ENTITY e \"&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;\">\
    <!ENTITY f \"&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;\"><!ENTITY g \"&f;&f;&f;&f;&f;&f;&f;&f;&f;&f;\">]>\
    <rss version=\"2.0\"><channel><title>&g;</title></channel></rss>";

const RSS_1_1: &[u8] = b"<Channel xmlns='http://purl.org/net/rss1.1#' xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' \
rdf:about='http://x.test/rss'><title>F</title><link>http://x.test/</link><description>d</description>\
<items rdf:parseType='Collection'><item rdf:about='http://x.test/1'><title>one</title><link>http://x.test/1</link></item></items></Channel>";

const STORY: &str = "<rss xmlns:dc='http://purl.org/dc/elements/1.1/'><channel><title>S</title>\
<item><guid>1</guid><title>a</title><link>a</link><dc:date>2026-01-02T03:04:05Z</dc:date><description>TEXT</description></item>\
<item><guid isPermaLink='false'>2</guid><title>b</title><link>ms-msdt:/id</link><description>second</description></item></channel></rss>";
