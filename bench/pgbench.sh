#!/usr/bin/env bash
# Coeval beside PostgreSQL under the same loads, in the same run, on this machine.
# What it does, and what makes the comparison unfair: bench/README.md.
#
#   bench/pgbench.sh [--seconds 10] [--scale 10] [--repeat 3] [--only NAME[,NAME…]]
#                    [--coeval BINARY] [--folder DIR] [--no-record]
#
# Ends with 0 when every answer was right, also when an aim was missed: a ratio is a
# measurement, a wrong balance is a fault.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
# shellcheck source=bench/common.sh
. "$here/common.sh"

seconds=10
scale=10
repeat=3
only=
coeval=
folder=${TMPDIR:-/tmp}
read_options "seconds scale repeat only coeval folder" "$@"

# name, least ratio aimed at (- for none), clients, script, pgbench arguments
LOADS=(
    "tpcb-prepared-8    2.5  8 tpcb   -M prepared"
    "tpcb-prepared-32   2.0 32 tpcb   -M prepared"
    "tpcb-simple-8        -  8 tpcb   -M simple"
    "select-simple-8    2.0  8 select -M simple -S"
    "select-prepared-8  1.5  8 select -M prepared -S"
    "update-prepared-8    -  8 update -M prepared -N"
    "hot-row-32         3.0 32 hot    -M prepared -n -f $here/hot-row.sql"
)

# shellcheck source=bench/both.sh
. "$here/both.sh"
# shellcheck source=bench/balances.sh
. "$here/balances.sh"

run_facts() {
    facts "$work"
    echo "pgbench: $("$pgbench" --version)"
    echo "seconds $seconds, scale $scale, repetitions $repeat"
}

note "PostgreSQL: $("$pg_bin/postgres" --version), as $user"
note "Coeval: $coeval"
start_postgres
start_coeval
run_facts >"$record/machine.txt"
for system in postgres coeval; do
    note "filling $system, scale $scale"
    "$pgbench" -p "${port[$system]}" -i -q -s "$scale" >"$record/initialize.$system.txt" 2>&1 ||
        { cat "$record/initialize.$system.txt" >&2; fail "pgbench -i failed on $system"; }
    sql "$system" 'CREATE TABLE hot (id int PRIMARY KEY, value bigint NOT NULL)'
    sql "$system" 'INSERT INTO hot VALUES (1, 0)'
    # The first run of all pays for cold caches; it is not counted.
    "$pgbench" -p "${port[$system]}" -c 8 -j 2 -T 2 -S >/dev/null 2>&1
done
sql postgres 'CHECKPOINT'

results=$record/results.tsv
printf 'load\tturn\tsystem\ttps\n' >"$results"
for ((turn = 1; turn <= repeat; turn++)); do
    for load in "${LOADS[@]}"; do
        read -r name aim clients script arguments <<<"$load"
        [ -z "$only" ] || [[ ",$only," == *",$name,"* ]] || continue
        # Who goes first alternates, so that neither always meets the warmer machine.
        order=(postgres coeval)
        [ $((turn % 2)) -eq 1 ] || order=(coeval postgres)
        for system in "${order[@]}"; do
            # shellcheck disable=SC2086 — the arguments are words
            tps=$(run_once "$system" "$name" "$clients" "$script" "$turn" $arguments)
            printf '%s\t%s\t%s\t%s\n' "$name" "$turn" "$system" "$tps" >>"$results"
            note "$(printf '%-18s turn %s/%s %-9s %8s tps' "$name" "$turn" "$repeat" "$system" "$tps")"
        done
    done
done

aims=()
for load in "${LOADS[@]}"; do
    read -r name aim _ <<<"$load"
    aims+=("$name" "$aim")
done
{
    ratios "$results" "${aims[@]}"
    echo
    echo "transactions per second, medians of $repeat; balances verified after each run"
} | tee "$record/summary.txt"
[ "$keep_record" = no ] || note "raw results: $record"
