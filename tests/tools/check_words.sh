#!/bin/sh
# tools/check-words passes on this tree, and finds each fault of a sentence, in every kind of comment.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
check="${PYTHON3:-python3} $source/tools/check-words"
. "$source/tests/asserted.sh"
tree=$(mktemp -d)
at_end() { rm -rf "$tree"; }

echo "the tree itself:"
held $check "$source"

# listed FILE TEXT FAULT: FILE with TEXT has one faulty sentence, with FAULT; without a FAULT it has none.
listed() {
    printf '%b\n' "$2" > "$tree/$1"
    said=$($check --list "$tree/$1")
    echo "$1: $2: $said"
    case $3,$said in ,) held true ;; ,*) held [ "$said" = "" ] ;; *) case $said in *"[$3] "*) held true ;; *) held [ "$said" = "$3" ] ;; esac ;; esac
    held [ "$(printf '%s' "$said" | grep -c '' || :)" -le 1 ]
}

long='The collector drains the ring and one and two and three and four and five and six and seven and eight and nine'
listed good.c '/* The collector drains the ring. Each entry has a stack. */' ''
listed code.c 'int told, beside, what, of, those; char *text = "Of what is told beside it";' ''
listed late.c '/* The ring is full. Of two entries one is dropped. */' 'begins with "Of"'
listed line.h '// Those who write wait for it.' 'begins with "Those"'
listed word.py '"""Entries are told by their number."""' '"told"'
listed hash.py '# An entry lies\n# beside the ring.' '"beside"'
listed long.md "$long and ten and eleven and twelve and more and less." '33 words'
listed clauses.md 'The ring has entries, stacks, names, times, and counts.' 'more than 3 commas'
listed program.py 'PROGRAM = """Of two entries one is told.\n# Of two lines one is told.\n"""' ''
listed table.h '/* The table has\n *\n *     Of two entries told beside it\n */' ''
listed item.md '* The ring has entries, stacks and names\n* Of two entries one is dropped' 'begins with "Of"'
listed shown.md 'A page shows output:\n\n    Of two entries told beside it' ''

# A room above its bound is named, and one that is gone.
cp -r "$source/include" "$tree/include"
chmod -R u+w "$tree/include"
yes '/* Of two entries one is dropped. */' | head -n 100 >> "$tree/include/memprof.h"
said=$($check "$tree") && held false
held [ "$(printf '%s\n' "$said" | grep -c '^include: 1.* sentences are hard to read, more than ')" = 1 ]
held [ "$(printf '%s\n' "$said" | grep -c '^src/wire: has no sentences; is it gone?$')" = 1 ]
