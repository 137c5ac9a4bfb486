#!/bin/sh
# tools/check-layers passes on this tree, and finds every kind of forbidden include in a copy that has one.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
check="${PYTHON3:-python3} $source/tools/check-layers"
. "$source/tests/asserted.sh"
tree=$(mktemp -d)
at_end() { rm -rf "$tree"; }

echo "the tree itself:"
held $check "$source"

# refused FILE TEXT: a copy of the tree with TEXT at FILE's end is refused, in one line: $said.
refused() {
    rm -rf "$tree/src"
    cp -r "$source/src" "$tree/src"
    chmod -R u+w "$tree/src"
    mkdir -p "$(dirname "$tree/src/$1")"
    echo "src/$1 with $2"
    printf '%s\n' "$2" >> "$tree/src/$1"
    found=no
    said=$($check "$tree") || found=yes
    echo "  $said"
    held [ "$found" = yes ]
    held [ "$(printf '%s\n' "$said" | wc -l)" = 1 ]
}

# must_fail FILE INCLUDE REASON: an include that no layer or room there may have.
must_fail() {
    refused "$1" "# include \"$2\""
    case $said in "src/$1:"*"\"$2\": "*"$3"*) ;; *) held [ "$said" = "src/$1: ... \"$2\": ... $3" ] ;; esac
}

must_fail base/units.h format/recording.h 'base may not include format'
must_fail base/hash.h base/vec.h 'NEVER_ALLOCATING'
must_fail base/words.c base/buffer.h 'NEVER_ALLOCATING'
must_fail wire/new.c base/vec.h 'wire may include only'
must_fail wire/new.c capture/core/recorder.h 'wire may not include capture'
must_fail capture/core/new.c base/map.h 'capture may include only'
must_fail capture/native/new.c collect/symbols/symbols.h 'capture may not include collect'
must_fail format/new.c wire/spool.h 'format may not include wire'
must_fail model/new.c analysis/sites/peak.h 'model may not include analysis'
must_fail analysis/sites/new.c format/reader.h 'analysis may not include format'
must_fail exchange/common/new.c output/page/page.h 'exchange may not include output'
must_fail output/page/new.c exchange/load/load.h 'output may not include exchange'
must_fail collect/session/new.c cli/command.h 'collect may not include cli'
must_fail cli/new.c wire/spool.h 'cli may not include wire'
must_fail cli/new.c capture/core/recorder.h 'cli may not include capture'
must_fail cli/new.c attach/attach.h 'cli may not include attach'
must_fail cli/new.c plan/devices.h 'cli may not include plan'
must_fail cli/commands/new.c jobs/query.h 'cli may not include jobs'
must_fail exchange/common/new.c export/sink.h 'exchange may not include export'
must_fail model/new.c model.h 'does not begin with a layer'
must_fail model/new.c memprof.h 'only capture'

# no_room FILE REASON: a source file at this place is refused, whatever it includes.
no_room() {
    refused "$1" ''
    held [ "$said" = "src/$1: $2" ]
}

no_room exchange/new.c 'lies in no room of exchange'
no_room collect/attic/new.c 'collect has no room attic'
no_room format/attic/new.c 'format has no room attic'

# circle FILE INCLUDE OTHER: rooms that include each other are refused, and the files that do are named.
circle() {
    refused "$1" "#include \"$2\""
    case $said in "src/${1%%/*}: rooms in a circle: "*"src/$1 includes "*) ;; *) held [ "$said" = "src/$1" ] ;; esac
    case $said in *"$3"*) ;; *) held [ "$said" = "$3" ] ;; esac
}

circle capture/core/views.c capture/native/walk.h 'includes core'
circle capture/python/utf8.h capture/torch/torch.h 'src/capture/torch/'
circle analysis/sites/live.c analysis/allocator/frag.h 'includes sites'
circle cli/term.c cli/commands/new.h 'src/cli/commands/'

# Units of one room that include each other are refused, too.
refused base/buffer.h '#include "base/json.h"'
case $said in "units in a circle: "*"src/base/buffer.h includes base/json.h"*) ;; *) held [ "$said" = "units" ] ;; esac

# More functions than today that a header declares for another file are refused, with each name.
refused base/units.h 'void mp_json_start(struct mp_json *json, struct mp_buffer *out);'
case $said in *"src/base/units.h declares mp_json_start() of base/json.c"*) ;; *) held [ "$said" = "units.h" ] ;; esac

# A struct of more than 40 members is refused.
refused base/units.h "struct crowd { $(for i in $(seq 41); do printf 'int m%d; ' "$i"; done)
};"
case $said in *"src/base/units.h: struct crowd has 41 members"*) ;; *) held [ "$said" = "struct" ] ;; esac

# named FILE TEXT: a string that names PyTorch's code is refused there, but not in a comment.
named() {
    refused "$1" "/* \"$2\" */ static const char name[] = \"$2\";"
    held [ "$said" = "src/$1: \"$2\" names PyTorch's code: ask model/stack_facts.h" ]
}

named analysis/sites/live.c 'torch/optim/adam.py'
named model/spans.c 'at::native::add'
named output/report/sites.c 'ProfilerStep#'
named exchange/common/save.c '_call_impl'

# A folder with more than 40 files is two rooms.
rm -rf "$tree/src"
cp -r "$source/src" "$tree/src"
mkdir -p "$tree/src/wire"
for number in $(seq 41); do : >"$tree/src/wire/file_$number.h"; done
count=$(find "$tree/src/wire" -name '*.[ch]' | wc -l)
said=$($check "$tree") || :
held [ "$said" = "src/wire: $count files, more than 40" ]
