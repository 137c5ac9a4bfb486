#!/bin/sh
# Compares the page's data layer with brute force, in node.
case $(node --version 2>/dev/null) in
v1[89].* | v[2-9][0-9].*) ;;
*)
    echo "needs node 18 or later"
    exit 77
    ;;
esac
exec node --test "${srcdir:-.}"/viz/test/*.test.js
