#!/usr/bin/env bash
# `coeval bench` over the wire, on Coeval and on PostgreSQL in the same run: TPC-C, YCSB
# and SmallBank, both servers durable. bench/README.md describes the limits of the comparison.
#
#   bench/workloads.sh [--seconds 5] [--repeat 3] [--warehouses 2] [--clients 8]
#                      [--only NAME[,NAME…]] [--coeval BINARY] [--folder DIR] [--no-record] [--trial]
#
# Every run ends with its workload's own check, on both. Ends with 1 when one finds
# something wrong.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
# shellcheck source=bench/common.sh
. "$here/common.sh"

seconds=5
repeat=3
warehouses=2
clients=8
only=
coeval=
folder=${TMPDIR:-/tmp}
read_options "seconds repeat warehouses clients only coeval folder" "$@"

# name, isolation, arguments of coeval bench. Loads of one workload follow on each other:
# they share its tables.
LOADS=(
    "tpcc-rc            read-committed tpcc --warehouses $warehouses"
    "tpcc-serializable  serializable   tpcc --warehouses $warehouses"
    "ycsb-a-rc          read-committed ycsb --workload A"
    "ycsb-b-rc          read-committed ycsb --workload B"
    "ycsb-f-serializable serializable  ycsb --workload F"
    "smallbank-rc       read-committed smallbank"
    "smallbank-serializable serializable smallbank"
)

# shellcheck source=bench/both.sh
. "$here/both.sh"

note "PostgreSQL: $("$pg_bin/postgres" --version), as $user"
note "Coeval: $coeval"
start_postgres
start_coeval
{
    facts
    echo "seconds $seconds, repetitions $repeat, warehouses $warehouses, clients $clients"
} >"$record/workloads-machine.txt"

results=$record/workloads.tsv
printf 'load\tturn\tsystem\ttps\tcpu µs of the client\taborted\n' >"$results"
field() { grep -o -m1 "\"$1\": *[0-9.]*" "$2" | head -n 1 | sed 's/.*: *//'; }

run_once() {
    local system=$1 name=$2 isolation=$3 turn=$4 first=$5
    shift 5
    local json=$record/$name.$system.$turn.json fresh=()
    [ "$first" = yes ] || fresh=(--skip-load)
    "$coeval" bench "$@" --isolation "$isolation" --clients "$clients" --seconds "$seconds" \
        --warm-up 1 "${fresh[@]}" --json "$json" \
        --url "postgres://postgres@127.0.0.1:${port[$system]}/postgres" \
        >"$work/bench.log" 2>&1 ||
        { cat "$work/bench.log" >&2; fail "$name on $system: see above"; }
    if [ "$first" = yes ] && [ "$system" = postgres ]; then
        # As its own vacuum would in time.
        sql postgres 'VACUUM ANALYZE' && sql postgres CHECKPOINT
    fi
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$turn" "$system" \
        "$(field transactions_per_second "$json")" \
        "$(field cpu_microseconds_per_transaction "$json")" "$(field aborted "$json")"
}

names=()
loaded=
for load in "${LOADS[@]}"; do
    read -r name isolation workload arguments <<<"$load"
    [ -z "$only" ] || [[ ",$only," == *",$name,"* ]] || continue
    names+=("$name" -)
    for ((turn = 0; turn <= repeat; turn++)); do
        # Turn 0 fills the tables where they are not there yet, and does not count.
        if [ "$turn" -eq 0 ] && [ "$loaded" = "$workload" ]; then continue; fi
        order=(postgres coeval)
        [ $((turn % 2)) -eq 1 ] || order=(coeval postgres)
        for system in "${order[@]}"; do
            first=no
            [ "$turn" -gt 0 ] || first=yes
            # shellcheck disable=SC2086 — the arguments are words
            line=$(run_once "$system" "$name" "$isolation" "$turn" "$first" $workload $arguments)
            note "$line"
            [ "$turn" -eq 0 ] || printf '%s\n' "$line" >>"$results"
        done
    done
    loaded=$workload
done

{
    ratios "$results" "${names[@]}"
    echo
    echo "transactions per second, medians of $repeat; every run checked at its end"
} | tee "$record/workloads.txt"
[ "$keep_record" = no ] || note "raw results: $record"
