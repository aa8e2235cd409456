//! Times rmqtt's tree: `rmqtt-times ROW CASE [--quick]`.

use index_harness::{Arguments, times};
use index_rmqtt::Rmqtt;

fn main() {
    times::run::<Rmqtt>(&Arguments::read());
}
