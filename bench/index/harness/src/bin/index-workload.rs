//! Prints a workload for rows in other languages: `index-workload CASE` writes a line `FILTER TOPIC` for each filter.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let case = std::env::args().nth(1).unwrap_or_default();
    if !index_harness::CASES.contains(&case.as_str()) {
        eprintln!("usage: index-workload CASE, one of {:?}", index_harness::CASES);
        std::process::exit(2);
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut outcome = Ok(());
    index_harness::visit(&case, |filter, topic| {
        if outcome.is_ok() {
            outcome = writeln!(out, "{filter} {topic}");
        }
    });
    outcome.and_then(|()| out.flush())
}
