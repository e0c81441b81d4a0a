//! Mutates manifests, from a seed.

const EVERYTHING: &str = include_str!("../it/everything.yaml");

/// SplitMix64: a seed always gives the same case.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn pick<'t, T: ?Sized>(&mut self, of: &[&'t T]) -> &'t T {
        of[self.below(of.len())]
    }
}

/// The initial manifests. The one with every key is split into its endpoints, because checking it as a whole takes
/// long.
pub(crate) fn sources() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sources");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut sources = vec![EVERYTHING.to_owned()];
    sources.extend(files.iter().map(|path| std::fs::read_to_string(path).unwrap()));
    let (head, rest) = EVERYTHING.split_once("endpoints:\n").unwrap();
    let (endpoints, tests) = rest.split_once("tests:\n").unwrap();
    let mut parts: Vec<String> = Vec::new();
    for line in endpoints.lines() {
        let begins = line.starts_with("  ") && !line.starts_with("   ");
        match parts.last_mut() {
            Some(part) if !begins => *part += &format!("{line}\n"),
            _ => parts.push(format!("{line}\n")),
        }
    }
    sources.extend(parts.iter().map(|part| format!("{head}endpoints:\n{part}tests:\n{tests}")));
    sources
}

pub(crate) fn mutated(sources: &[String], rng: &mut Rng) -> String {
    // The large one rarely, because it is slow.
    let source = if rng.below(40) == 0 { 0 } else { 1 + rng.below(sources.len() - 1) };
    let mut text = sources[source].clone();
    for _ in 0..=rng.below(3) {
        text = once(&text, rng);
    }
    text
}

fn once(text: &str, rng: &mut Rng) -> String {
    match rng.below(40) {
        0..=5 => flip(text, rng),
        6..=8 => lines(text, rng, |lines, at, _| drop(lines.remove(at))),
        9..=10 => lines(text, rng, |lines, at, _| lines.insert(at, lines[at].clone())),
        11..=13 => lines(text, rng, |lines, at, other| lines.swap(at, other)),
        14..=19 => value(text, rng),
        20..=22 => swap_keys(text, rng),
        23..=25 => lines(text, rng, |lines, at, other| {
            lines[at] = format!("{}{}", " ".repeat(other % 9), lines[at].trim_start());
        }),
        26..=27 => insert(text, rng),
        28..=29 => text.chars().take(rng.below(text.chars().count())).collect(),
        30..=33 => template(text, rng),
        34..=36 => anchors(text, rng),
        37 => large(text, rng),
        _ => text.to_owned(),
    }
}

fn flip(text: &str, rng: &mut Rng) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << rng.below(8);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn lines(text: &str, rng: &mut Rng, change: impl Fn(&mut Vec<String>, usize, usize)) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if !lines.is_empty() {
        let (at, other) = (rng.below(lines.len()), rng.below(lines.len()));
        change(&mut lines, at, other);
    }
    lines.join("\n")
}

/// Values that are too large, of the wrong type, or unusual.
const VALUES: &[&str] = &[
    "18446744073709551616",
    "-1",
    "1e400",
    "-1e400",
    ".nan",
    ".inf",
    "0x7fffffffffffffff",
    "99999999999999999999999999",
    "0",
    "1e-320",
    "true",
    "null",
    "~",
    "[]",
    "{}",
    "''",
    "\"\\0\"",
    "[[[[[[[[[[]]]]]]]]]]",
    "{a: {b: {c: {d: {e: {}}}}}}",
    "PT99999999999H",
    "P1000000D",
    "PT0S",
    "P1M",
    "9999-12-31",
    "-9999-01-01",
    "0000-00-00",
    "2024-13-45T99:99:99Z",
    "!!binary aGk=",
    "!!int 5",
    "!!str 5",
    "!custom x",
    "&a x",
    "*a",
    "|",
    ">",
    "%",
    "@",
    "$..*",
    "$[-1]",
    "$['\\u0000']",
    "$",
    "https://user:pw@x.org",
    "http://[::1]/",
    "file:///etc/passwd",
    "https://",
    "//",
    "ж",
    "\u{202e}",
    "(((((((((((((",
    "[a-z",
    "(a+)+$",
    "*",
    "?",
    "-",
    "- a",
];

fn value(text: &str, rng: &mut Rng) -> String {
    let new = rng.pick(VALUES).to_owned();
    lines(text, rng, |lines, at, other| {
        let line = lines[at].clone();
        let colons: Vec<_> = line.match_indices(": ").map(|(at, _)| at).collect();
        if colons.is_empty() {
            return;
        }
        let from = colons[other % colons.len()] + 2;
        let end = line[from..].find([',', '}']).map_or(line.len(), |end| from + end);
        lines[at] = format!("{}{new}{}", &line[..from], &line[end..]);
    })
}

const KEYS: &[&str] = &[
    "http",
    "query",
    "body",
    "pagination",
    "window",
    "response",
    "record",
    "fields",
    "retry",
    "rate_limit",
    "auth",
    "params",
    "expr",
    "batching",
    "two_phase",
    "partitions",
    "defaults",
    "endpoints",
    "tests",
    "type",
    "path",
    "<<",
    "",
    "a.b",
    "*",
    "json",
    "form",
    "raw",
    "headers",
    "errors",
    "filter",
    "csv",
];

fn swap_keys(text: &str, rng: &mut Rng) -> String {
    let new = rng.pick(KEYS).to_owned();
    lines(text, rng, |lines, at, _| {
        let line = &lines[at];
        let indent = line.len() - line.trim_start().len();
        if let Some(colon) = line.find(':') {
            lines[at] = format!("{}{new}{}", &line[..indent.min(colon)], &line[colon..]);
        }
    })
}

const PIECES: &[&str] = &[
    "\t",
    "\u{feff}",
    "\u{0}",
    "---\n",
    "...\n",
    "# ",
    ": ",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|",
    ">",
    "&a ",
    "*a ",
    "!!map ",
    "%YAML 9\n",
    "\r",
    "\u{2028}",
    "é",
    "🦀",
    "\n\n",
    "  ",
];

fn insert(text: &str, rng: &mut Rng) -> String {
    let at = text.char_indices().nth(rng.below(text.chars().count())).map_or(0, |(at, _)| at);
    format!("{}{}{}", &text[..at], rng.pick(PIECES), &text[at..])
}

const TEMPLATES: &[&str] = &[
    "${ page.token",
    "${",
    "${}",
    "${ }",
    "${ page.token }}",
    "${ nope }",
    "${ page.size | nope }",
    "${ 1/0 }",
    "${ 9**9**9 }",
    "${ 'a' * 1000000000 }",
    "${ [1,2,3] }",
    "${ {} }",
    "${ page.no + window.from }",
    "${ window.from | date | date | iso }",
    "${ params.x }",
    "${ credential.key }",
    "${ id }${ ids }",
    "${ (((((((((((((((((((((1))))))))))))))))))))) }",
    "${ not not not not not 1 }",
    "${ page['no'] }",
    "${ page.__class__ }",
    "{% for a in b %}",
    "{{ x }}",
    "${ 'unclosed }",
    "${ \"\\u{0}\" }",
    "${ window.from | format('%Q') }",
    "${ window.from | format('%Y' ~ page.no) }",
    "${ md5(page.token) }",
    "${ 1 if true else 2 }",
    "${ range(100000000) }",
    "\u{1}credential.x\u{1}",
];

fn template(text: &str, rng: &mut Rng) -> String {
    let mut new = rng.pick(TEMPLATES).to_owned();
    if rng.below(10) == 0 {
        new = new.repeat(1 + rng.below(300));
    }
    let texts: Vec<_> = text.match_indices("${").map(|(at, _)| at).collect();
    let Some(from) = texts.get(rng.below(texts.len())).copied() else { return text.to_owned() };
    let end = text[from..].find('}').map_or(text.len(), |end| from + end + 1);
    format!("{}{new}{}", &text[..from], &text[end..])
}

fn anchors(text: &str, rng: &mut Rng) -> String {
    match rng.below(5) {
        0 => text.replacen("endpoints:", "x: &a {b: 1}\nendpoints: &e", 1) + "\ny: *a\nz: *e\n",
        1 => text.replacen("defaults:", "defaults: &d", 1).replacen("  retry:", "  <<: *d\n  retry:", 1),
        2 => text.replacen("http: {", "http: &h {", 1).replace("response: {", "response: &r {") + "\nw: {<<: *h}\n",
        3 => {
            // Few deep ones: each uses up the parser's budget.
            let deep = if rng.below(8) == 0 { 12 } else { 2 + rng.below(3) };
            let bomb = (1..deep).fold("b0: &b0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |yaml, n| {
                format!("{yaml}b{n}: &b{n} [{}]\n", vec![format!("*b{}", n - 1); 9].join(","))
            });
            format!("{bomb}{text}")
        }
        _ => format!("a: &a [*a]\n{text}"),
    }
}

fn large(text: &str, rng: &mut Rng) -> String {
    // Few of the largest ones, for the same reason.
    let most = if rng.below(8) == 0 { 1 } else { 20 };
    let mut below = |end: usize| rng.below(end / most);
    let kind = below(12 * most);
    let many = |n: usize, line: &str| (0..n).map(|n| line.replace('N', &n.to_string())).collect::<String>();
    let new = match kind {
        0 => format!("x: {}", "[".repeat(1 + below(20_000))),
        1 => format!("x: {}", "{a: ".repeat(1 + below(20_000))),
        2 => many(40, " ").trim_end().to_owned() + &many(1 + below(60), "-N ") + "a",
        3 => format!("description: {}", "long ".repeat(below(150_000))),
        4 => format!("description: \"{}\"", "\\u00e4".repeat(below(100_000))),
        5 => format!("tests: [{}]", "1,".repeat(below(60_000))),
        6 => format!("x:\n{}", many(below(30_000), "  kN: v\n")),
        7 => {
            return text.replacen(
                "    query:",
                &format!("    query:\n{}", many(below(12_000), "      qN: \"${ page.size }\"\n")),
                1,
            );
        }
        8 => {
            return text.replacen(
                "    fields:",
                &format!("    fields:\n{}", many(below(12_000), "      fN: $.a.b[0]\n")),
                1,
            );
        }
        9 => return text.replacen("endpoints:\n", &format!("endpoints:\n{}", many(below(3_000), "  eN: {}\n")), 1),
        10 => {
            return text.replacen(
                "  rate_limit:",
                &format!("  query:\n{}  rate_limit:", many(below(2_000), "    pN: x\n")),
                1,
            );
        }
        _ => format!("{}: 1", "k".repeat(below(200_000))),
    };
    format!("{text}\n{new}\n")
}
