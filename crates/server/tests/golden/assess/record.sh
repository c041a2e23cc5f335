#!/bin/sh
# Writes bank.sql anew: what pg_dump says of source.sql. Wants the URL of an empty
# PostgreSQL database of one's own, and pg_dump of the same version.
set -eu
cd "$(dirname "$0")"
psql -X -q -v ON_ERROR_STOP=1 -f source.sql "$1"
pg_dump --no-owner --restrict-key=sample "$1" > bank.sql
