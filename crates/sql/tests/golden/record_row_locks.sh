#!/usr/bin/env bash
# Writes PostgreSQL's answers into row_locks.txt: for each pair of its statements, what the
# second says while a transaction that has run the first is open, and, if that is to wait,
# what it says when the first commits.
#
#   PGHOST=… PGPORT=… crates/sql/tests/golden/record_row_locks.sh
#
# It drops the table t of that database. PostgreSQL 15.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
file=$here/row_locks.txt
mapfile -t statements < <(grep '^statement ' "$file" | cut -d' ' -f3-)
sql() { psql -AtX -v VERBOSITY=sqlstate "$@"; }

# What one statement says, in one line.
line() { { grep -v '^SET$' || true; } | sed -E 's/^ERROR:  ([0-9A-Z]{5}).*/! \1/' | paste -sd';' -; }

grep -v '^pair ' "$file" > "$file.new"
for holder in "${!statements[@]}"; do
    for wanter in "${!statements[@]}"; do
        sql -q -c 'drop table if exists t' \
            -c 'create table t (a int primary key, b int, u int unique)' \
            -c 'insert into t values (1, 1, 1)' 2>/dev/null
        coproc HOLDER { sql -q 2>&1; }
        to=${HOLDER[1]} process=$HOLDER_PID
        printf 'begin;\n%s;\n\\echo held\n' "${statements[$holder]}" >&"$to"
        while read -r said <&"${HOLDER[0]}"; do [ "$said" != held ] || break; done
        want=${statements[$wanter]}
        said=$(sql -c "set lock_timeout = '150ms'" -c "$want" 2>&1 | line || true)
        if [ "$said" = '! 55P03' ]; then
            PGAPPNAME=wanter sql -c "$want" > "$file.said" 2>&1 &
            until [ "$(sql -c "select count(*) from pg_stat_activity
                where application_name = 'wanter' and wait_event_type = 'Lock'")" = 1 ]; do :; done
            printf 'commit;\n\\q\n' >&"$to"
            wait $! || true
            said="waits: $(line < "$file.said")"
        else
            printf 'commit;\n\\q\n' >&"$to"
        fi
        wait "$process" 2>/dev/null || true
        printf 'pair %s %s: %s\n' $((holder + 1)) $((wanter + 1)) "$said" >> "$file.new"
    done
done
rm -f "$file.said"
sed "s/ *$//" "$file.new" > "$file"
rm -f "$file.new"
