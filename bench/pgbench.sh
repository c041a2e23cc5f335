#!/usr/bin/env bash
# Coeval beside PostgreSQL under the same loads, in the same run, on this machine.
# bench/README.md describes its steps, and the limits of the comparison.
#
#   bench/pgbench.sh [--seconds 10] [--scale 10] [--repeat 3] [--only NAME[,NAME…]]
#                    [--coeval BINARY] [--ceiling BINARY] [--folder DIR] [--no-record] [--trial]
#
# Beside the two runs a server that does nothing at all (crates/workload/src/bin/ceiling.rs):
# its result is the most that pgbench and this machine's loopback allow.
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
ceiling=
folder=${TMPDIR:-/tmp}
read_options "seconds scale repeat only coeval ceiling folder" "$@"

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

[ -n "$ceiling" ] || ceiling=$(built coeval-workload ceiling)
ceiling_trial=()
[ "$trial" = no ] || ceiling_trial=(--trial)

# Prints the transactions per second of one load of the server that does nothing, which has
# no tables: pgbench's own scripts would look for them. Nothing for a load it has none for.
run_ceiling() {
    local name=$1 clients=$2 script=$3 mode=$4 turn=$5 output
    [ "$script" = tpcb ] || [ "$script" = select ] || return 0
    output=$record/$name.ceiling.$turn.txt
    "$pgbench" -p "${port[ceiling]}" -n -M "$mode" -c "$clients" -j 2 -T "$seconds" \
        -D "scale=$scale" -f "$here/$script.sql" >"$output" 2>&1 ||
        { cat "$output" >&2; fail "$name on the server that does nothing failed"; }
    sed -i "s#$root/##g" "$output"
    awk '/^tps = / { printf "%.0f\n", $3 }' "$output"
}

# The most that each ratio could be, and how much of it is reached.
ceilings() {
    local name least most ours
    printf '%-22s %12s %16s %22s\n' load 'does nothing' 'most ratio' 'coeval reaches of it'
    for load in "${LOADS[@]}"; do
        read -r name _ <<<"$load"
        grep -q "^$name	.*	ceiling	" "$results" || continue
        least=$(tps_of "$name" postgres) most=$(tps_of "$name" ceiling) ours=$(tps_of "$name" coeval)
        awk -v name="$name" -v least="$least" -v most="$most" -v ours="$ours" 'BEGIN {
            printf "%-22s %12.0f %16.2f %20.0f %%\n", name, most, most / least, 100 * ours / most }'
    done
}
tps_of() { awk -F'\t' -v n="$1" -v s="$2" '$1 == n && $3 == s { print $4 }' "$results" | median; }

run_facts() {
    facts "$work"
    echo "pgbench: $("$pgbench" --version)"
    echo "seconds $seconds, scale $scale, repetitions $repeat"
}

note "PostgreSQL: $("$pg_bin/postgres" --version), as $user"
note "Coeval: $coeval"
start_postgres
start_coeval
port[ceiling]=$(free_port)
"$ceiling" --listen "127.0.0.1:${port[ceiling]}" ${ceiling_trial[@]+"${ceiling_trial[@]}"} >"$work/ceiling.log" 2>&1 &
processes+=($!)
wait_for ceiling
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
        # The first system alternates, so that neither always gets the warmer machine.
        order=(postgres coeval)
        [ $((turn % 2)) -eq 1 ] || order=(coeval postgres)
        for system in "${order[@]}"; do
            # shellcheck disable=SC2086 — the arguments are words
            tps=$(run_once "$system" "$name" "$clients" "$script" "$turn" $arguments)
            printf '%s\t%s\t%s\t%s\n' "$name" "$turn" "$system" "$tps" >>"$results"
            note "$(printf '%-18s turn %s/%s %-9s %8s tps' "$name" "$turn" "$repeat" "$system" "$tps")"
        done
        read -r _ mode _ <<<"$arguments"
        tps=$(run_ceiling "$name" "$clients" "$script" "$mode" "$turn")
        [ -z "$tps" ] || printf '%s\t%s\t%s\t%s\n' "$name" "$turn" ceiling "$tps" >>"$results"
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
    ceilings
    echo
    echo "transactions per second, medians of $repeat; balances verified after each run"
} | tee "$record/summary.txt"
[ "$keep_record" = no ] || note "raw results: $record"
