#!/usr/bin/env bash
# Builds the agent's jar twice, in two folders, and compares the digests: a jar that was
# downloaded can be checked against its source.
#
#   agents/cassandra/reproducible.sh
#
# Ends with an error when the two jars differ.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for build in first second/longer; do
    mkdir -p "$scratch/$build/agents"
    cp -r "$here" "$scratch/$build/agents/cassandra"
    cp "$here/../../LICENSE" "$scratch/$build/"
    mvn -B -ntp -q -DskipTests -f "$scratch/$build/agents/cassandra" package
done
digests=$(sha256sum "$scratch"/{first,second/longer}/target/agents/cassandra/coeval-cassandra-agent-*.jar |
    awk '{ print $1 }')
printf '%s\n' "$digests"
if [ "$(sort -u <<<"$digests" | wc -l)" -ne 1 ]; then
    echo "the two jars differ" >&2
    exit 1
fi
echo "the two jars are the same"
