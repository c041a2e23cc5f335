# shellcheck shell=bash
# pgbench, and whether the answers were right: what the scripts of this folder that run it
# have in common. It is sourced after both.sh, and takes
#
#   record, root   where outputs go, and the repository's folder
#   seconds        how long a run is
#
# and gives pgbench, run_once.

pgbench=$(command -v pgbench || printf '%s/pgbench' "$pg_bin")
[ -x "$pgbench" ] || fail "no pgbench found"

sums() {
    sql "$1" 'SELECT sum(abalance) FROM pgbench_accounts'
    sql "$1" 'SELECT sum(tbalance) FROM pgbench_tellers'
    sql "$1" 'SELECT sum(bbalance) FROM pgbench_branches'
    sql "$1" 'SELECT sum(delta) FROM pgbench_history'
}

# The invariant of TPC-B, on how far the run moved each sum: pgbench empties the
# history when a run starts.
check_balances() {
    local system=$1 script=$2 before=$3 after=$4 b=() a=() i moved=()
    mapfile -t b <<<"$before"
    mapfile -t a <<<"$after"
    for i in 0 1 2; do moved[i]=$((${a[i]:-0} - ${b[i]:-0})); done
    local history=${a[3]:-0}
    local expected="$history $history $history"
    [ "$script" = update ] && expected="$history 0 0"
    [ "$script" = select ] && expected="0 0 0"
    [ "${moved[*]}" = "$expected" ] ||
        fail "$system, $script: accounts, tellers, branches moved by ${moved[*]}, expected $expected"
}

# Runs one load once on one system and prints its transactions per second.
run_once() {
    local system=$1 name=$2 clients=$3 script=$4 turn=$5
    shift 5
    local output=$record/$name.$system.$turn.txt before after
    if [ "$script" = hot ]; then
        before=$(sql "$system" 'SELECT value FROM hot WHERE id = 1')
    else
        before=$(sums "$system")
    fi
    "$pgbench" -p "${port[$system]}" -c "$clients" -j 2 -T "$seconds" "$@" \
        >"$output" 2>&1 || { cat "$output" >&2; fail "$name on $system failed"; }
    # The record names a script by its place in the repository.
    sed -i "s#$root/##g" "$output"
    grep -q 'number of failed transactions: 0 ' "$output" ||
        { cat "$output" >&2; fail "$name on $system had failed transactions"; }
    if [ "$script" = hot ]; then
        after=$(sql "$system" 'SELECT value FROM hot WHERE id = 1')
        local processed
        processed=$(awk '/number of transactions actually processed/ { split($NF, n, "/"); print n[1] }' "$output")
        [ $((after - before)) -eq "$processed" ] ||
            fail "$name on $system: $processed transactions moved the row by $((after - before))"
    else
        after=$(sums "$system")
        check_balances "$system" "$script" "$before" "$after"
    fi
    awk '/^tps = / { printf "%.0f\n", $3 }' "$output"
}
