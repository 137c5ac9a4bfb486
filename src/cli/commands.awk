# Makes src/cli/commands.c, the table of commands in the order of --help. Variables: `core`, names of commands in that
# order; `commands`, those of parts as PART:NAME:OTHER, to stand after OTHER; `parts`, the parts that are built; `ways`,
# those of them that have further ways to run commands.
function place(name,    i) {
    order[++placed] = name
    for (i = 1; i <= count; i++)
        if (after[i] == name && (part[i] in built)) place(own[i])
}

BEGIN {
    count = split(parts, names, " ")
    for (i = 1; i <= count; i++)
        built[names[i]] = 1
    count = split(commands, rows, " ")
    for (i = 1; i <= count; i++) {
        split(rows[i], words, ":")
        part[i] = words[1]
        own[i] = words[2]
        after[i] = words[3]
        if (part[i] in built) wanted++
    }
    cores = split(core, names, " ")
    for (i = 1; i <= cores; i++)
        place(names[i])
    if (placed != cores + wanted) {
        print "commands.awk: a command of a part is to stand after one that is not there: " commands > "/dev/stderr"
        exit 1
    }
    print "#include \"cli/command.h\"\n"
    for (i = 1; i <= placed; i++)
        print "extern const struct mp_command mp_command_" order[i] ";"
    print "\nconst struct mp_command *const mp_commands[] = {"
    for (i = 1; i <= placed; i++)
        print "    &mp_command_" order[i] ","
    print "    NULL};\n\nconst struct mp_command_left_out mp_commands_left_out[] = {"
    for (i = 1; i <= count; i++)
        if (!(part[i] in built)) print "    {\"" own[i] "\", \"" part[i] "\"},"
    print "    {NULL, NULL}};\n"
    count = split(ways, names, " ")
    for (i = 1; i <= count; i++)
        print "extern const struct mp_command_way mp_command_ways_" names[i] "[];"
    print "const struct mp_command_way *const mp_command_ways[] = {"
    for (i = 1; i <= count; i++)
        print "    mp_command_ways_" names[i] ","
    print "    NULL};"
}
