//! Hostile templates: each gives a clear error, quickly, with little memory, and without aborting the process. Fuel
//! does not limit memory, so each of these would be dangerous if one limit were missing.

use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Set in the child process that runs only the hostile templates.
const CHILD: &str = "PATRA_EXPR_ABUSE";
const MAX_TIME: Duration = Duration::from_secs(2);
const MAX_KIB: u64 = 64 * 1024;
/// A quarter of the stack size of our threads.
const STACK: usize = 512 * 1024;

const TOO_LONG: &str = "error: a value or the rendered text is longer than 65536 bytes";
const TOO_MUCH: &str = "error: rendering takes too much work: shorten the texts, or search with a simpler pattern";

fn hostile() -> RenderContext {
    let mut context = context();
    let mixed: String = (0..60_000u64).map(|at| if (at * at * 7 + at / 3) % 5 < 2 { 'a' } else { 'b' }).collect();
    for (name, value) in [
        ("long", json!("x".repeat(60_000))),
        ("aaa", json!("a".repeat(60_000))),
        ("mixed512", json!(mixed[..512])),
        ("mixed2k", json!(mixed[..2_000])),
        ("mixed8k", json!(mixed[..8_000])),
        ("mixed32k", json!(mixed[..32_000])),
        ("mixed", json!(mixed)),
        ("wide", json!("ŉ".repeat(30_000))),
        ("huge", json!("x".repeat(1_000_000))),
        ("list", json!(vec![1; 2_000])),
        ("hollow", json!(vec![json!([]); 50_000])),
        ("deep", (0..100).fold(json!(1), |inner, _| json!([inner]))),
    ] {
        context.params.insert(name.into(), value);
    }
    context
}

/// Templates with the beginning of the expected output or error.
fn cases() -> Vec<(String, String)> {
    let nested = |open: &str, close: &str, count| format!("${{ {}1{} }}", open.repeat(count), close.repeat(count));
    let search = |text: &str, pattern: &str| format!("${{ regex_search({text}, '{pattern}') }}");
    let patterns = "the patterns of a template take at most 256 KiB once compiled";
    let mut cases = vec![
        // The 484 bytes that abort an unbounded engine: statements are plain text here.
        (format!("{{% set s='x' %}}{}${{ s }}", "{% set s=s~s %}".repeat(30)), ": there is no variable `s`".into()),
        ("${ range(100000) | join(range(100000) | join('x')) }".into(), "3: there is no function `range`".into()),
        ("${ debug() }".into(), "3: there is no function `debug`".into()),
        ("${ params.long[0:5:-1] }".into(), "16: `:` is not allowed".into()),
        ("${ 'x' * 1000000000 }".into(), "7: `*` is not allowed".into()),
        ("${ 'x' ** 99 }".into(), "7: `*` is not allowed".into()),
        // Long values, alone and joined.
        ("${ params.huge }".into(), TOO_LONG.into()),
        ("${ params.huge | length }".into(), TOO_LONG.into()),
        ("${ params['huge'] | length }".into(), TOO_LONG.into()),
        ("${ params.hollow | length }".into(), TOO_LONG.into()),
        ("${ params.deep | length }".into(), TOO_LONG.into()),
        ("${ params.long }${ params.long }".into(), TOO_LONG.into()),
        ("${ params.long ~ params.long }".into(), TOO_LONG.into()),
        (format!("${{ {}params.long }}", "params.long ~ ".repeat(16)), TOO_LONG.into()),
        (format!("${{ ({}params.long) | lower }}", "params.long ~ ".repeat(16)), TOO_LONG.into()),
        (format!("${{ {}1 }}", "1 ~ ".repeat(17)), "69: an expression joins at most 16 times".into()),
        (format!("${{ {}params.list | length }}", "params.list + ".repeat(16)), "error: ".into()),
        // Growing functions, nested and chained.
        ("${ params.long | replace('x', 'yyyyyyyyyyyyyyyyyyyy') }".into(), TOO_LONG.into()),
        ("${ params.long | replace('', 'y') }".into(), "error: replace needs a non-empty search text".into()),
        (format!("${{ params.long{} }}", " | replace('x', 'xx')".repeat(40)), TOO_LONG.into()),
        (format!("${{ 'x'{} }}", " | replace('x', 'xx')".repeat(40)), TOO_LONG.into()),
        (format!("${{ 'é'{} }}", " | urlencode".repeat(70)), "= %25".into()),
        (format!("${{ 'x'{} }}", " | base64".repeat(90)), TOO_LONG.into()),
        ("${ concat(params.long, params.long) }".into(), TOO_LONG.into()),
        ("${ params.list | join(params.long) }".into(), TOO_LONG.into()),
        ("${ join(params.list, join(params.list, join(params.list, 'x'))) }".into(), TOO_LONG.into()),
        ("${ params.wide | upper }".into(), TOO_LONG.into()),
        (format!("${{ params.long{} }}", " | lower".repeat(100)), TOO_MUCH.into()),
        ("${ params.long | sha256 }".repeat(400), TOO_MUCH.into()),
        ("${ params.long | md5 }".repeat(400), TOO_MUCH.into()),
        ("${ length(params.long) }".repeat(400), TOO_MUCH.into()),
        // Sizes of the template itself.
        (nested("(", ")", 10_000), "0: the template has 20006 bytes, at most 16384 are allowed".into()),
        (nested("(", ")", 5_000), "0: an expression has at most 1024 bytes".into()),
        (nested("(", ")", 500), "35: brackets nest at most 32 deep".into()),
        (nested("params[", "]", 120), "233: brackets nest at most 32 deep".into()),
        (nested("lower(", ")", 120), "200: brackets nest at most 32 deep".into()),
        (nested("not ", "", 250), "131: an expression has `-` and `not` at most 32 times".into()),
        (nested("-", "", 1_000), "35: an expression has `-` and `not` at most 32 times".into()),
        (nested("1 if 1 else ", "", 80), "= 1".into()),
        (nested("1 == ", "", 200), "".into()),
        (format!("${{ page{} }}", ".no".repeat(300)), "error: ".into()),
        ("x".repeat(1_000_000), "0: the template has 1000000 bytes, at most 16384 are allowed".into()),
        ("${".repeat(8_000), "".into()),
        ("${ 1 }".repeat(2_700), "= 1111".into()),
        (format!("${{ format(now(), '{}') }}", "%255Y".repeat(190)), "= 00000".into()),
        ("${ now() | format('%99999999Y') }".into(), "19: \"%99999999Y\" is not a time pattern".into()),
        ("${ now() | add('P99999999999999999999D') }".into(), "16: ".into()),
        // Patterns: too large, and searches that would take long.
        (search("'x'", "(?:a{1000}){1000}"), format!("22: {patterns}")),
        (search("'x'", &r"\\w{1000}".repeat(20)), format!("21: {patterns}")),
        (search("'x'", "((((((a{20}){20}){20}){20}){20}){20})"), format!("22: {patterns}")),
        (search("'x'", "(?:){4294967295}"), "= ".into()),
        (search("'x'", &"(".repeat(400)), "22: the pattern cannot be read".into()),
        (search("'x'", &"(?:".repeat(100)), "22: the pattern cannot be read".into()),
        (search("'x'", "(a)\\\\1"), "21: the pattern cannot be read: backreferences are not supported".into()),
        (search("params.aaa", "(a+)+$"), "= aaa".into()),
        (search("params.aaa", "(x+x+)+y"), "omitted".into()),
        (search("params.aaa", "(?:a|a)*b"), "omitted".into()),
    ];
    for size in [8, 16, 50, 100, 200, 445, 874, 1_880, 3_335] {
        for text in ["aaa", "mixed", "mixed32k", "mixed8k", "mixed2k", "mixed512"] {
            let text = &format!("params.{text}");
            cases.push((search(text, &format!("(?:a?){{{size}}}a{{{size}}}$")), "".into()));
            cases.push((search(text, &format!("(?:a|b)*a(?:a|b){{{size}}}c")), "".into()));
            cases.push((search(text, &format!("(?:.?){{{size}}}c")), "".into()));
            cases.push((search(text, &format!("(?:a|b)*a(?:a|b){{{size}}}c")).repeat(20), "".into()));
        }
    }
    cases
}

// covers: ING-4.8-03
#[test]
fn hostile_templates_fail_fast_with_little_memory() {
    if std::env::var_os(CHILD).is_some() {
        let worker = std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap();
        return worker.join().unwrap();
    }
    // Runs alone in a process: its memory is that of the templates, and an abort would be noticed.
    let name = "expr::tests::abuse::hostile_templates_fail_fast_with_little_memory";
    let child =
        Command::new(std::env::current_exe().unwrap()).args([name, "--exact"]).env(CHILD, "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{}: {stdout}\n{}", child.status, String::from_utf8_lossy(&child.stderr));
    assert!(stdout.contains("1 passed"), "{stdout}");
}

fn run() {
    let context = hostile();
    let _ = show("${ now() | date } ${ regex_search('a', 'a') }", &context);
    let before = peak_kib();
    for (template, expected) in cases() {
        let start: String = template.chars().take(80).collect();
        let (shown, time) = timed(|| show(&template, &context));
        assert!(shown.contains(&expected), "{start}: {}", &shown[..shown.len().min(400)]);
        assert!(shown.starts_with('=') || shown.len() < 600, "{start}: a message of {} bytes", shown.len());
        assert!(time < MAX_TIME, "{start}: {time:?}");
    }
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < MAX_KIB, "{grown} KiB");
}

/// CPU time of the work.
fn timed<T>(work: impl Fn() -> T) -> (T, Duration) {
    let start = cpu_time();
    let done = work();
    (done, cpu_time() - start)
}

/// CPU time of this thread, so that a busy machine does not count; zero if the system does not report it.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(schedstat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// Peak memory of the process; 0 if the system does not report it.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:") || line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Tokens of expressions, valid or not.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "page.no",
        "page.token",
        "window.from",
        "params.user",
        "params.list",
        "params.filter",
        "params",
        "params.absent",
        "'a'",
        "'%Y'",
        "'PT1H'",
        "'$.a'",
        "'(a+)+'",
        "1",
        "0",
        "9223372036854775807",
        "2.5",
        "true",
        "none",
        "(",
        ")",
        "[",
        "]",
        ",",
        "|",
        "~",
        "+",
        "-",
        "/",
        "//",
        "%",
        "==",
        "<",
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "defined",
        ".",
    ];
    let words = words.into_iter().map(str::to_owned);
    let calls = functions().flat_map(|name| [name.to_owned(), format!("{name}("), format!("| {name}")]);
    prop::sample::select(words.chain(calls).collect::<Vec<_>>())
}

/// An operand and what may follow it.
fn operand() -> impl Strategy<Value = String> {
    let operands = [
        "1",
        "'a'",
        "-2",
        "page.no",
        "(3)",
        "params.n",
        "( 4 ~ 5 )",
        "lower('B' ~ 6)",
        "7 | string",
        "(8 if 9 is defined else 7)",
    ];
    let between = ["~", "~", "~", "+", "-", "/", "%", "==", "<", "and", "or", "in", "not in", "if 1 else", "and not"];
    (prop::sample::select(operands.to_vec()), prop::sample::select(between.to_vec()))
        .prop_map(|(one, two)| format!("{one} {two}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    // covers: ING-4.8-03
    #[test]
    fn no_mixture_of_words_panics(words in prop::collection::vec(word(), 1..12)) {
        let text = format!("${{ {} }}", words.join(" "));
        if let Ok(template) = Template::compile(&text) {
            let _ = template.dry_run();
            if let Ok(Some(out)) = template.render(&context()) {
                prop_assert!(out.len() <= MAX_OUTPUT);
            }
        }
    }

    /// Our `~` binds like the engine's.
    #[test]
    fn a_rewritten_join_means_the_same(words in prop::collection::vec(operand(), 1..10)) {
        let text = format!("${{ {} 9 }}", words.join(" "));
        let (ours, theirs) = match (Template::compile(&text), engine::compile(0, &text[2..text.len() - 1])) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (Err(syntax_error), Ok(_)) => {
                prop_assert!(syntax_error.message.contains("at most"), "{}: {}", text, syntax_error);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let scope = context().scope(&ours.reads, None, RenderState::new(context().now, &ours.prepared)).unwrap();
        if let (Ok(Some(ours)), Ok(theirs)) = (ours.render(&context()), engine::eval(&theirs, &scope)) {
            prop_assert_eq!(ours.to_lowercase(), theirs.to_string().to_lowercase());
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}", inner in "[ -~]{0,40}") {
        let _ = show(&text, &context());
        let _ = show(&format!("${{{inner}}}"), &context());
    }
}
