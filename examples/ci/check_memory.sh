#!/bin/sh
# check_memory.sh BASELINE COMMAND...: records COMMAND, and fails if it needs more memory than BASELINE did.
#
# BASELINE is a recording (.mp). If it does not exist yet, this run becomes it. The comparison, as Markdown, goes to
# $GITHUB_STEP_SUMMARY if that is set, else to stdout. $MAX_GROWTH: the allowed growth (5%).
#
# Exit status: the command's own if it failed; 3 if peak or outstanding grew; else 0.
set -eu

[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
baseline=$1
shift
memprof=${MEMPROF:-memprof}
summary=${GITHUB_STEP_SUMMARY:-/dev/stdout}
now=${baseline%.mp}.now.mp
rm -f "$now"

"$memprof" snapshot --quiet --no-symbols -o "$now" -- "$@"
if [ ! -e "$baseline" ]; then
    mv "$now" "$baseline"
    "$memprof" report "$baseline" --format markdown >>"$summary"
    exit 0
fi
status=0
"$memprof" compare "$baseline" "$now" --fail --max-growth "${MAX_GROWTH:-5%}" --format markdown >>"$summary" ||
    status=$?
exit $status
