# shellcheck shell=bash
# Runs the program of crates/measure that has the name of the script that sources this, and
# keeps what it leaves.
set -euo pipefail
cd "$(dirname "$(dirname "$(realpath "$0")")")"
. bench/common.sh

program=$(basename "$0")
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
keep_record=yes
trial=no
arguments=()
for argument in "$@"; do
    case $argument in
        --no-record) keep_record=no ;;
        --trial)
            trial=yes
            keep_record=no
            arguments+=(--trial)
            ;;
        *) arguments+=("$argument") ;;
    esac
done
binary=$(built coeval-measure "$program")
machine_facts >"$output/$program-machine.txt"
"$binary" --output "$output" ${arguments[@]+"${arguments[@]}"}
printf 'load average after: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)" \
    >>"$output/$program-machine.txt"
keep "$output"/*
