# For tests in shell, to be read first: `held COMMAND...` is an assertion, and a test that ends well without one fails.
# A test redefines at_end(), which is called at the end, to clean up.
held_so_far=0
held() {
    held_so_far=$((held_so_far + 1))
    "$@" || { echo "does not hold: $*" >&2; exit 1; }
}
at_end() { :; }
trap 'status=$?; at_end; if [ "$status" = 0 ] && [ "$held_so_far" = 0 ]; then echo "this test has asserted nothing" >&2; status=1; fi; exit "$status"' EXIT
