//! Time to read a manifest, to compile it (target: less than a millisecond), and to rebuild it from rows.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use patra_spec::{Operation, Overrides, compile, explain, read, registry};

const SOURCES: &[(&str, &str, &str)] = &[
    ("works", include_str!("../tests/it/works.yaml"), "works"),
    ("everything", include_str!("../tests/it/everything.yaml"), "search"),
];

fn manifests(c: &mut Criterion) {
    for (name, yaml, endpoint) in SOURCES {
        let Ok(manifest) = read(name, yaml) else { continue };
        let rows = registry::rows(&manifest);
        c.bench_function(&format!("read {name}"), |b| b.iter(|| read(name, black_box(yaml))));
        c.bench_function(&format!("compile {name}"), |b| {
            b.iter(|| compile(black_box(&manifest), endpoint, Operation::Harvest));
        });
        c.bench_function(&format!("explain {name}"), |b| {
            b.iter(|| explain(black_box(&manifest), endpoint, Operation::Harvest, &Overrides::default()));
        });
        c.bench_function(&format!("rows to manifest {name}"), |b| {
            b.iter(|| registry::manifest(&manifest.provenance, black_box(&rows)));
        });
        c.bench_function(&format!("write {name}"), |b| b.iter(|| patra_spec::to_yaml(black_box(&manifest))));
    }
}

criterion_group!(benches, manifests);
criterion_main!(benches);
