# shellcheck shell=bash
# Runs of `coeval bench` in one process, beside each other; to be sourced by bench/tpcc and
# bench/ycsb, which say
#
#   runs     the runs: of each a name, and the arguments
#   aims     by the name of a run, the microseconds that a transaction should take
#   charts   which runs share a chart of bars: its name, and the pattern of theirs
#
# Runs that are far apart need charts of their own, for bars begin at 0.
set -euo pipefail
# shellcheck source=bench/common.sh
. "$(dirname "$(realpath "$0")")/common.sh"

seconds=5
rounds=3
coeval=
read_options "seconds rounds coeval" "$@"
[ -z "$coeval" ] || coeval=$(realpath "$coeval")
cd "$(dirname "$(dirname "$(realpath "$0")")")"
[ -n "$coeval" ] || coeval=$(built coeval-cli coeval)
refuse_other_profiles "$coeval"
# The program that draws bars, built from this source whichever binary is measured.
bars=$(built coeval-workload bars)

name=$(basename "$0")
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
{
    machine_facts
    printf 'coeval: %s\n' "$("$coeval" --version || echo unknown)"
} >"$output/$name-machine.txt"

fail() { printf '%s: %s\n' "$name" "$*" >&2; exit 1; }

# One number of a result.
number() { sed -n "s/^  \"$1\": \([0-9.]*\),\$/\1/p" "$2"; }
median() { sort -g | awk '{ all[NR] = $1 } END { print all[int(NR / 2) + 1] }'; }

# The table, from the results of every round of a run.
report() {
    printf '%-34s %14s %12s %10s\n' run 'per second' 'CPU µs each' aborted
    for run in "${runs[@]:?}"; do
        read -r label _ <<<"$run"
        for result in "$output/$name-$label".*.json; do
            grep -q '^  "violations": \[\],$' "$result" ||
                fail "$(basename "$result" .json) does not say that nothing was wrong"
        done
        for what in transactions_per_second cpu_microseconds_per_transaction aborted; do
            for result in "$output/$name-$label".*.json; do number $what "$result"; done | median
        done | xargs printf '%-34s %14.0f %12.2f %10.0f\n' "$label"
    done
}

# The results of every round of every run, a line for each kind of transactions.
table() {
    printf 'run,round,'
    head -n 1 "$output/${runs[0]%% *}.1.rows"
    for run in "${runs[@]}"; do
        read -r label _ <<<"$run"
        for round in $(seq "$rounds"); do
            sed "1d; s/^/$label,$round,/" "$output/$label.$round.rows"
        done
    done
}

# Processor time of each round of the runs whose names are so, beside their aims.
rounds_like() {
    local run label round
    printf 'run,microseconds,aim\n'
    for run in "${runs[@]}"; do
        read -r label _ <<<"$run"
        # shellcheck disable=SC2053
        [[ $label == $1 ]] || continue
        for round in $(seq "$rounds"); do
            printf '%s,%s,%s\n' "$label" \
                "$(number cpu_microseconds_per_transaction "$output/$name-$label.$round.json")" \
                "${aims[$label]:-}"
        done
    done
}

# Rounds are outside of runs, so that whatever else the machine does meets all of them.
for round in $(seq "$rounds"); do
    for run in "${runs[@]}"; do
        read -r label arguments <<<"$run"
        # shellcheck disable=SC2046,SC2086
        "$coeval" bench $(placed "$arguments" "$output/log") --seconds "$seconds" --seed "$round" \
            --json "$output/$name-$label.$round.json" --csv "$output/$label.$round.rows" \
            --plot "$output/$name-$label.svg" >"$output/said" 2>&1 ||
            { cat "$output/said" >&2; fail "$label, round $round: see above; no record is kept"; }
        rm -rf "$output/log"
    done
done
report | tee "$output/$name.txt"
printf 'load average after: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)" >>"$output/$name-machine.txt"
cat "$output/$name"-*.json >"$output/$name.json"
table >"$output/$name.csv"
for chart in "${charts[@]:?}"; do
    read -r label pattern <<<"$chart"
    rounds_like "$pattern" >"$output/bars.csv"
    "$bars" --title "$name, $label: medians, and the range, of $rounds rounds" \
        --axis 'µs of processor time for a transaction' \
        "$output/bars.csv" "$output/$name-bars-$label.svg"
done
# Charts that have the name of a run are of its last round, second by second.
keep "$output/$name".{txt,json,csv} "$output/$name-machine.txt" "$output/$name"-*.svg
