//! Times another index: `others-times ROW CASE [--quick]`.

use index_harness::{Arguments, Subject, times};

struct Measure<'a>(&'a Arguments);

impl index_others::Action for Measure<'_> {
    fn with<S: Subject>(self) {
        times::run::<S>(self.0);
    }
}

fn main() {
    let arguments = Arguments::read();
    index_others::with_row(&arguments.row, Measure(&arguments));
}
