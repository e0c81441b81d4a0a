//! Runs the simulator: as many seeds as time allows, one seed with its trace, or the mutants.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use patra_testkit::sim::{Mutant, Simulator, Violation, hunt, regression_seeds, simulate};

const USAGE: &str = "usage: patra-sim [--seconds S] [--threads T] [--start SEED] [--twice]
       patra-sim --seeds A..B [--twice]
       patra-sim --seed N [--trace] [--mutant NAME]
       patra-sim --mutants [--limit SEEDS]
       patra-sim --gate PERMITS [--start SEED]";

#[derive(Debug, Default)]
struct Arguments {
    seconds: u64,
    threads: u64,
    start: u64,
    limit: u64,
    seed: Option<u64>,
    seeds: Option<(u64, u64)>,
    mutant: Option<Mutant>,
    trace: bool,
    twice: bool,
    mutants: bool,
    gate: Option<u64>,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]
fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("error: {problem}\n\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    // A panic of the store is a finding and is reported as one.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(permits) = arguments.gate {
        return gate(permits as usize, arguments.start);
    }
    if arguments.mutants {
        return hunt_all(arguments.limit);
    }
    if let Some(seed) = arguments.seed {
        return match simulate(seed, arguments.mutant, arguments.trace) {
            Ok(schedule) => {
                println!("seed {seed}: passed, {} steps, hash {:016x}", schedule.steps, schedule.hash);
                ExitCode::SUCCESS
            }
            Err(violation) => {
                eprintln!("error: {violation}");
                ExitCode::FAILURE
            }
        };
    }
    for seed in regression_seeds() {
        if let Err(violation) = simulate(seed, None, false) {
            eprintln!("error: {violation}");
            return ExitCode::FAILURE;
        }
    }
    many(&arguments)
}

/// Simulates eight processes on one key of the rate gate, which crash now and then.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn gate(permits: usize, seed: u64) -> ExitCode {
    let mut held = true;
    for (per_sec, burst) in [(1_000.0, 100.0), (200.0, 20.0), (50.0, 1.0)] {
        let outcome = patra_testkit::gate::run(patra_testkit::gate::GateScenario::new(seed, per_sec, burst, permits));
        println!(
            "{per_sec}/s, burst {burst}: {} permits, {} kills, {:.1} % of the rate used, overshoot {}, {:.0} permits per question",
            outcome.permits,
            outcome.kills,
            100.0 * outcome.used,
            outcome.overshoot.max(0.0),
            outcome.per_question
        );
        held &= outcome.overshoot <= 0.0;
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs seeds in order, over all threads, until the time is up or the range is done.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]
#[expect(clippy::disallowed_methods, reason = "how long the tool itself has run; the worlds have a clock of their own")]
fn many(arguments: &Arguments) -> ExitCode {
    let (first, last) = arguments.seeds.unwrap_or((arguments.start, u64::MAX));
    let (next, steps, failures) = (AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let began = Instant::now();
    let limit = arguments.seeds.is_none().then(|| Duration::from_secs(arguments.seconds));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                let mut simulator = Simulator::default();
                while !done.load(Ordering::Relaxed) {
                    let from = next.fetch_add(64, Ordering::Relaxed);
                    if from >= last {
                        break;
                    }
                    for seed in from..last.min(from.saturating_add(64)) {
                        match once(&mut simulator, seed, arguments.twice) {
                            Ok(count) => {
                                steps.fetch_add(count, Ordering::Relaxed);
                            }
                            Err(violation) => {
                                eprintln!("error: {violation}");
                                if failures.fetch_add(1, Ordering::Relaxed) >= 9 {
                                    done.store(true, Ordering::Relaxed);
                                }
                            }
                        }
                    }
                    if limit.is_some_and(|limit| began.elapsed() >= limit) {
                        done.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (count, steps) = (next.into_inner().min(last) - first, steps.into_inner());
    let seconds = began.elapsed().as_secs_f64();
    let failures = failures.into_inner();
    println!(
        "{count} schedules, {steps} steps ({} each), {seconds:.1} s: {:.0} schedules per minute, {failures} violations",
        steps / count.max(1),
        count as f64 / seconds * 60.0,
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the seed again in fresh memory: an earlier world must not affect it.
fn once(simulator: &mut Simulator, seed: u64, twice: bool) -> Result<u64, Violation> {
    let first = simulator.run(seed, None, false)?;
    if twice && simulate(seed, None, false)? != first {
        return Err(Violation { seed, step: first.steps, rule: "the same seed took another course".to_owned() });
    }
    Ok(first.steps)
}

#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn hunt_all(limit: u64) -> ExitCode {
    let mut missed = 0;
    for mutant in Mutant::ALL {
        match hunt(*mutant, limit) {
            Some(violation) => {
                println!("caught  {:<22} seed {:<5} {}", mutant.as_str(), violation.seed, violation.rule);
            }
            None => {
                missed += 1;
                println!("MISSED  {:<22} {}", mutant.as_str(), mutant.describe());
            }
        }
    }
    println!("{} of {} caught within {limit} seeds", Mutant::ALL.len() - missed, Mutant::ALL.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse() -> Result<Arguments, String> {
    let mut arguments = Arguments { seconds: 10, threads: 2, limit: 10_000, ..Arguments::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
        match word.as_str() {
            "--seconds" => arguments.seconds = number(value()?)?,
            "--threads" => arguments.threads = number(value()?)?.max(1),
            "--start" => arguments.start = number(value()?)?,
            "--limit" => arguments.limit = number(value()?)?,
            "--seed" => arguments.seed = Some(number(value()?)?),
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once("..").ok_or_else(|| format!("`{text}` is no range A..B"))?;
                arguments.seeds = Some((number(from.to_owned())?, number(to.to_owned())?));
            }
            "--mutant" => {
                let name = value()?;
                let found = Mutant::ALL.iter().copied().find(|mutant| mutant.as_str() == name);
                arguments.mutant = Some(found.ok_or_else(|| format!("no mutant `{name}`"))?);
            }
            "--trace" => arguments.trace = true,
            "--twice" => arguments.twice = true,
            "--mutants" => arguments.mutants = true,
            "--gate" => arguments.gate = Some(number(value()?)?),
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    Ok(arguments)
}
