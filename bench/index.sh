#!/usr/bin/env bash
# Measures routing indexes side by side, and prints the tables: bench/run.sh index [--quick] [--cases ..] [--rows ..].
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for argument; do
    case $argument in -h | --help) exec python3 "$here/index/run.py" --help ;; esac
done
python3 "$here/index/run.py" "$@"
python3 "$here/table.py" "$here/out/index.json"
