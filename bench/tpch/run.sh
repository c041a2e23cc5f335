#!/usr/bin/env bash
# The 22 queries of TPC-H on Coeval and on PostgreSQL in the same run, answers compared.
# bench/README.md describes the limits of the comparison.
#
#   bench/tpch/run.sh [--scale 0.2] [--repeat 3] [--only 1,5,19] [--limit 120]
#                     [--memory 1GB] [--coeval BINARY] [--folder DIR] [--no-record] [--trial]
#
# --limit: seconds that a query may take; --memory: work_mem of both. Each query runs once to
# warm up and then --repeat times by turns; the best time counts. Ends with 1 when an answer
# differs.
set -euo pipefail
tpch=$(cd "$(dirname "$0")" && pwd)
here=$(dirname "$tpch")
root=$(dirname "$here")
# shellcheck source=bench/common.sh
. "$here/common.sh"

scale=0.2
repeat=3
only=
limit=120
memory=1GB
coeval=
folder=${TMPDIR:-/tmp}
read_options "scale repeat only limit memory coeval folder" "$@"

# shellcheck source=bench/both.sh
. "$here/both.sh"

note "PostgreSQL: $("$pg_bin/postgres" --version); Coeval: $coeval"
python3 "$tpch/generate.py" --scale "$scale" "$work/data"
start_postgres
start_coeval
{
    facts
    echo "scale $scale, repetitions $repeat, work_mem $memory"
} >"$record/tpch-machine.txt"
export PGOPTIONS="-c work_mem=$memory -c statement_timeout=${limit}s"

for system in postgres coeval; do
    "$psql" -X -q -v ON_ERROR_STOP=1 -p "${port[$system]}" -f "$tpch/schema.sql"
    for table in region nation supplier part partsupp customer orders lineitem; do
        "$psql" -X -q -v ON_ERROR_STOP=1 -p "${port[$system]}" \
            -c "\\copy $table from '$work/data/$table.tbl'"
    done
    "$psql" -X -q -v ON_ERROR_STOP=1 -p "${port[$system]}" -f "$tpch/indexes.sql" 2>/dev/null
    note "$system: loaded"
done

# Milliseconds of one execution, as psql measures it; its rows go to a file.
run_once() {
    local system=$1 query=$2 out=$3
    "$psql" -X -q -A -t -v ON_ERROR_STOP=1 -p "${port[$system]}" -c '\timing on' \
        -f "$query" >"$out" 2>"$out.error" || { echo -; return; }
    sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$out" | tail -n 1
    sed -i '/^Time: /d' "$out"
}

results=$record/tpch.tsv
printf 'query\tpostgres ms\tcoeval ms\tratio\tanswer\n' >"$results"
differ=0
for query in "$tpch"/queries/q*.sql; do
    name=$(basename "$query" .sql)
    number=$((10#${name#q}))
    case ",$only," in ,,) ;; *,$number,*) ;; *) continue ;; esac
    declare -A best=([postgres]=- [coeval]=-)
    for turn in $(seq 0 "$repeat"); do
        for system in postgres coeval; do
            [ "$turn" -le 1 ] || [ "${best[$system]}" != - ] || continue
            took=$(run_once "$system" "$query" "$work/$name.$system")
            [ "$turn" -gt 0 ] && [ "$took" != - ] || continue
            best[$system]=$(awk -v a="${best[$system]}" -v b="$took" \
                'BEGIN { print (a == "-" || b < a) ? b : a }')
        done
    done
    answer=same
    if [ "${best[coeval]}" = - ]; then
        answer=$(head -c 100 "$work/$name.coeval.error" | tr '\n\t' '  ')
        differ=1
    elif ! cmp -s "$work/$name.postgres" "$work/$name.coeval"; then
        answer=differs
        differ=1
    fi
    ratio=$(awk -v a="${best[postgres]}" -v b="${best[coeval]}" \
        'BEGIN { if (a == "-" || b == "-") print "-"; else printf "%.2f", b / a }')
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "${best[postgres]}" "${best[coeval]}" "$ratio" "$answer" |
        tee -a "$results"
done
awk -F'\t' 'NR > 1 && $4 != "-" { sum += log($4); count += 1; if ($4 > most) most = $4 }
    END { if (count) printf "geometric mean %.2f, greatest %.2f, of %d queries\n", exp(sum / count), most, count }' \
    "$results" | tee -a "$record/tpch-machine.txt"
exit "$differ"
