#!/usr/bin/env bash
# Writes PostgreSQL's answers into the transcripts here. Their statements are kept,
# their answers are replaced: by what the PostgreSQL that psql connects to says.
#
#   PGHOST=… PGPORT=… crates/sql/tests/golden/record.sh [FILE…]
#
# It drops the schema public of that database first. PostgreSQL 15, initialised with
# --locale=C, in time zone UTC.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- "$here"/*.txt

for file in "$@"; do
    psql -qX -c 'drop schema if exists public cascade' -c 'create schema public' 2>/dev/null
    # Each statement is followed by a mark on both streams, which are then one.
    answers=$(
        {
            printf '\\set VERBOSITY verbose\n\\pset null NULL\n'
            grep -v -e '^> ' -e '^>$' -e '^! ' "$file" | awk '
                { print }
                /^--/ && !inside { next }
                /[^[:space:]]/ { inside = 1 }
                inside && /;[[:space:]]*$/ { print "\\echo \001"; inside = 0 }'
        } | psql -qAtX -f - 2>&1 | sed -E 's/^psql:[^ ]* ERROR:  ([0-9A-Z]{5}): /! \1 /; t; /^(LINE|DETAIL|HINT|CONTEXT|LOCATION|NOTICE|WARNING)/d; /^ +\^$/d'
    )
    # By the environment, because awk reads backslashes in -v as escapes.
    grep -v -e '^> ' -e '^>$' -e '^! ' "$file" | ANSWERS=$answers awk '
        BEGIN { count = split(ENVIRON["ANSWERS"], lines, "\n"); next_line = 1 }
        { print }
        /^--/ && !inside { next }
        /[^[:space:]]/ { inside = 1 }
        inside && /;[[:space:]]*$/ {
            inside = 0
            while (next_line <= count && lines[next_line] != "\001") {
                line = lines[next_line++]
                print (line ~ /^! /) ? line : "> " line
            }
            next_line++
        }' > "$file.new"
    mv "$file.new" "$file"
done
