//! Times Meridian's index: `meridian-times ROW CASE [--quick]`.

use index_harness::{Arguments, times};
use index_meridian::Meridian;

fn main() {
    times::run::<Meridian>(&Arguments::read());
}
