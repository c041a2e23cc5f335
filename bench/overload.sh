#!/usr/bin/env bash
# Throughput at 1, 2 and 4 times saturation, at READ COMMITTED and at SERIALIZABLE.
# What it does: crates/workload/src/overload.rs.
#
#   bench/overload.sh [--seconds 5] [--coeval BINARY] [--no-record]
#
# Ends with 1 when the server collapses, fails a transfer, or loses money.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

seconds=5
coeval=()
keep_record=yes
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=$2; shift 2 ;;
        --coeval) coeval=(--binary "$2"); shift 2 ;;
        --no-record) keep_record=no; shift ;;
        *) sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
    esac
done

cd "$root"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
ended=0
{
    uname -srm
    grep -m1 'model name' /proc/cpuinfo || true
    printf 'cores %s, load before %s\n\n' "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg)"
} >>"$output"
# Few accounts, so that transfers meet.
for arguments in "read committed:1000" "serializable:1000" "serializable:50"; do
    cargo run --release --quiet -p coeval-workload --bin overload -- \
        --seconds "$seconds" --isolation "${arguments%%:*}" --accounts "${arguments##*:}" \
        "${coeval[@]}" | tee -a "$output" || ended=1
    printf '\n' | tee -a "$output"
done
if [ "$keep_record" = yes ]; then
    record=bench/record/$(date -u +%F)-$(git rev-parse --short=10 HEAD)
    mkdir -p "$record"
    cp "$output" "$record/overload.txt"
    printf 'kept as %s\n' "$record/overload.txt"
fi
exit "$ended"
