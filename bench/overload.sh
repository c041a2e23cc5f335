#!/usr/bin/env bash
# Throughput at 1, 2 and 4 times saturation, at READ COMMITTED and at SERIALIZABLE.
# Its steps are described in crates/workload/src/overload.rs.
#
#   bench/overload.sh [--seconds 5] [--coeval BINARY] [--no-record] [--trial]
#
# Ends with 1 when the server collapses, fails a transfer, or loses money.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

# shellcheck source=bench/common.sh
. "$here/common.sh"

seconds=5
coeval=
read_options "seconds coeval" "$@"
[ -z "$coeval" ] || coeval=$(realpath "$coeval")
cd "$root"
[ -n "$coeval" ] || coeval=$(built coeval-cli coeval)
refuse_other_profiles "$coeval"
overload=$(built coeval-workload overload)
trial_too=()
[ "$trial" = no ] || trial_too=(--trial)
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
    "$overload" --seconds "$seconds" --isolation "${arguments%%:*}" --accounts "${arguments##*:}" \
        --binary "$coeval" ${trial_too[@]+"${trial_too[@]}"} | tee -a "$output" || ended=1
    printf '\n' | tee -a "$output"
done
if [ "$keep_record" = yes ]; then
    record=bench/record/$(date -u +%F)-$(git rev-parse --short=10 HEAD)
    mkdir -p "$record"
    cp "$output" "$record/overload.txt"
    printf 'kept as %s\n' "$record/overload.txt"
fi
exit "$ended"
