//! Results.

use std::io::Write;

/// Writes a row's results of one case, one JSON record per line.
#[derive(Clone, Debug)]
pub struct Report {
    row: String,
    case: String,
}

impl Report {
    /// For one row and case; neither may hold quotes or backslashes.
    pub fn new(row: &str, case: &str) -> Self {
        Self { row: row.to_owned(), case: case.to_owned() }
    }

    /// Writes one figure.
    ///
    /// # Panics
    /// If the standard output is closed: nobody waits for the results.
    pub fn add(&self, metric: &str, value: f64, unit: &str) {
        let Self { row, case } = self;
        let mut out = std::io::stdout().lock();
        let line = format!(
            r#"{{"case":"{case}","broker":"{row}","metric":"{metric}","value":{value:.4},"unit":"{unit}"}}"#
        );
        writeln!(out, "{line}").expect("the driver reads the results");
    }

    /// Says on the standard error what a figure lacks.
    pub fn note(&self, text: &str) {
        eprintln!("{} {}: {text}", self.row, self.case);
    }
}
