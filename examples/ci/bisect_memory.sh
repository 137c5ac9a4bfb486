#!/bin/sh
# For git bisect: which commit made a command need more memory?
#
#   memprof snapshot -o /tmp/good.mp -- python3 train.py          at a commit that was good
#   git bisect start BAD GOOD
#   git bisect run PATH/bisect_memory.sh /tmp/good.mp python3 train.py
#
# A commit is bad if its peak or outstanding memory is more than $MAX_GROWTH (5%) above that of the recording. It is
# skipped if the command fails or nothing was recorded. Without memprof or the recording the bisection ends. Keep this
# script outside of the tree that git changes.
memprof=${MEMPROF:-memprof}
good=$1
shift
command -v "$memprof" > /dev/null || { echo "bisect_memory.sh: there is no $memprof" >&2; exit 255; }
[ -f "$good" ] || { echo "bisect_memory.sh: there is no $good" >&2; exit 255; }
folder=$(mktemp -d) || exit 125
trap 'rm -rf "$folder"' EXIT
"$memprof" snapshot --quiet --no-symbols -o "$folder/now.mp" -- "$@" || exit 125
"$memprof" compare "$good" "$folder/now.mp" --fail --max-growth "${MAX_GROWTH:-5%}"
case $? in
0 | 4) exit 0 ;;
3) exit 1 ;;
*) exit 125 ;;
esac
