#!/bin/sh
# check_memory.sh BASELINE COMMAND...: records COMMAND and fails where it needs more memory than BASELINE did.
#
# BASELINE is a recording (.mp). Where it is not there yet, this run becomes it. What changed goes, as Markdown, to
# $GITHUB_STEP_SUMMARY where that is set, else to stdout. $MAX_GROWTH: what may pass (5%).
#
# Exit status: the command's own where it failed; 3 where peak or outstanding grew; else 0.
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
