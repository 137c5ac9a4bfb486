# Makes stand-ins in C from a list of names, one a line. These stubs are weak: functions written by hand take their
# place.
#
#   awk -v library=libcublas -v result=0 -v quiet='Set|...' -v launches='[Gg]emm|...' -v makes='^cudnnCreate' \
#     -f stubs.awk names/cublas
#
# `quiet`: names that compute and do nothing else, so that doing nothing is right. `makes`: names whose first argument
# gets a new handle. `launches`: names that launch a kernel, with a handle as the first argument.
BEGIN {
    print "#include \"softgpu/stub.h\""
    if (launches != "") print "int soft_launched(void *handle);"
    printf "int soft_stub_result(void);\nint soft_stub_result(void)\n{\n    return %d;\n}\n", result
}
/^[A-Za-z_]/ {
    kind = launches != "" && $1 ~ launches ? "LAUNCHING_STUB" : makes != "" && $1 ~ makes ? "MAKING_STUB" : quiet != "" && $1 ~ quiet ? "QUIET_STUB" : "STUB"
    printf "%s(\"%s\", %s)\n", kind, library, $1
}
