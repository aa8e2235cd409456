//! What the driver asks of a row's program.

/// How often what is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Fresh indexes that are filled and emptied for the rates.
    pub rate_passes: usize,
    /// Fresh indexes that are filled and emptied for the slowest single operation.
    pub worst_passes: usize,
    /// Runs over all topics, of each kind of look-up.
    pub match_passes: usize,
    /// Rounds in which nine of ten filters leave and come back.
    pub churn_rounds: usize,
}

/// The arguments of a row's program: `ROW CASE [--quick]`.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The index to measure.
    pub row: String,
    /// The workload.
    pub case: String,
    /// Passes.
    pub effort: Effort,
}

impl Arguments {
    /// Reads the process's arguments, or ends it with a usage line.
    pub fn read() -> Self {
        let mut words: Vec<String> = std::env::args().skip(1).collect();
        let is_quick = words.iter().any(|word| word == "--quick");
        words.retain(|word| word != "--quick");
        let [row, case] = <[String; 2]>::try_from(words).unwrap_or_else(|_| {
            eprintln!("usage: ROW CASE [--quick]");
            std::process::exit(2);
        });
        // Ten million filters say the same in one pass, and take half a minute for it.
        let effort = match (is_quick, case.as_str()) {
            (true, "a" | "b") => {
                Effort { rate_passes: 1, worst_passes: 1, match_passes: 2, churn_rounds: 10 }
            }
            (true, _) => Effort { rate_passes: 1, worst_passes: 1, match_passes: 2, churn_rounds: 0 },
            (false, "e") => Effort { rate_passes: 1, worst_passes: 1, match_passes: 3, churn_rounds: 0 },
            (false, _) => Effort { rate_passes: 3, worst_passes: 3, match_passes: 5, churn_rounds: 10 },
        };
        Self { row, case, effort }
    }
}
