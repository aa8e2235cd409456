#!/usr/bin/env bash
# Runs a suite against Meridian and its peers side by side, and prints its tables.
#   bench/run.sh SUITE [--quick] [options]     SUITE: mqtt latency memory storm idle-peers, or index
#   bench/run.sh all [--quick]                 the five that need peers, one after the other
#   bench/run.sh SUITE --help                  the options
# Builds what is missing: Meridian and the sketch by cargo, Mosquitto by apt, NATS by go, rumqttd by cargo.
# A suite may also be a script of its own, bench/SUITE.sh, which gets the remaining arguments.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suites="mqtt latency memory storm idle-peers"
usage() { sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
suite=${1:-}
[ -n "$suite" ] || usage
shift
command -v python3 >/dev/null || { echo "bench/run.sh: needs python3" >&2; exit 1; }

case $suite in
all)
    for each in $suites; do "$here/run.sh" "$each" "$@"; done ;;
mqtt | latency | memory | storm | idle-peers)
    for argument; do
        case $argument in -h | --help) exec python3 "$here/suites.py" --help ;; esac
    done
    python3 "$here/suites.py" "$suite" "$@"
    python3 "$here/table.py" "$here/out/$suite.json" ;;
-h | --help)
    usage ;;
*)
    [ -x "$here/$suite.sh" ] || { echo "bench/run.sh: no suite $suite; there are: $suites, and bench/*.sh" >&2; exit 2; }
    exec "$here/$suite.sh" "$@" ;;
esac
