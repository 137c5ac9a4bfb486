#!/bin/sh
# build.sh SOURCE OUTPUT TEMPLATE SCRIPT STYLE: bundles a page of viz/ into one HTML file. $ESBUILD names esbuild.
set -eu

source=$1
output=$2
template=$3

if [ -z "${ESBUILD:-}" ]; then
    shipped=$source/dist/${output##*/}
    if [ -f "$shipped" ]; then
        echo "$0: no esbuild: the page stays as shipped, changes in viz/ are not in it" >&2
        mkdir -p "$(dirname "$output")"
        [ "$shipped" -ef "$output" ] || cp "$shipped" "$output"
        touch "$output"
        exit 0
    fi
    echo "$0: building the page from git needs esbuild (Debian: apt-get install esbuild); a release tarball does not" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bundle()
{
    "$ESBUILD" "$source/$1" --bundle --minify --target=chrome109,firefox115 --charset=utf8 --log-level=warning \
        --outfile="$work/out$2"
    printf %s "$(cat "$work/out$2")" >"$work/$2"
}

# The hash by which the page's Content-Security-Policy names an element that may run.
hash_of()
{
    sha256sum <"$work/$1" | cut -c1-64 | tr a-f A-F | basenc --base16 -d | base64
}

bundle "$4" .js
bundle "$5" .css

mkdir -p "$(dirname "$output")"
SCRIPT_HASH=$(hash_of .js) STYLE_HASH=$(hash_of .css) SCRIPT="$work/.js" STYLE="$work/.css" awk '
function contents(path,    text, line) {
    text = ""
    while ((getline line < path) > 0) text = text (text == "" ? "" : "\n") line
    close(path)
    return text
}
BEGIN {
    value["@SCRIPT@"] = contents(ENVIRON["SCRIPT"])
    value["@STYLE@"] = contents(ENVIRON["STYLE"])
    value["@SCRIPT_HASH@"] = ENVIRON["SCRIPT_HASH"]
    value["@STYLE_HASH@"] = ENVIRON["STYLE_HASH"]
}
{
    rest = $0
    made = ""
    while (match(rest, /@[A-Z_]+@/)) {
        made = made substr(rest, 1, RSTART - 1) value[substr(rest, RSTART, RLENGTH)]
        rest = substr(rest, RSTART + RLENGTH)
    }
    print made rest
}' "$source/$template" >"$work/page.html"
mv "$work/page.html" "$output"
