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

/// The arguments of a row's program: `ROW CASE [--quick] [--no-churn]`.
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
        let (options, words): (Vec<String>, Vec<String>) =
            std::env::args().skip(1).partition(|word| word.starts_with("--"));
        let has = |name: &str| options.iter().any(|option| option == name);
        let [row, case] = <[String; 2]>::try_from(words).unwrap_or_else(|_| {
            eprintln!("usage: ROW CASE [--quick] [--no-churn]");
            std::process::exit(2);
        });
        // Ten million filters say the same in one pass, and take half a minute for it.
        let passes = if has("--quick") || case == "e" { 1 } else { 2 };
        let churn_rounds = if has("--no-churn") { 0 } else { 10 };
        let effort =
            Effort { rate_passes: passes, worst_passes: passes, match_passes: passes + 1, churn_rounds };
        Self { row, case, effort }
    }
}
