#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/mcp/serve.h"

static int run(const struct mp_invocation *invocation)
{
    const char *folder = invocation->operands[0];
    char root[PATH_MAX];
    if (!realpath(folder, root) || chdir(root)) {
        mp_message("%s cannot be entered: %s; name a folder with recordings", folder, strerror(errno));
        return MP_EXIT_COULD_NOT;
    }
    unsetenv("MEMPROF_CONF"); /* the commands do what the client asks for, and no more */
    signal(SIGPIPE, SIG_IGN); /* a client that is gone is an error of writing */
    return mp_mcp_serve(root);
}

extern const struct mp_command mp_command_mcp;
const struct mp_command mp_command_mcp = {
    .name = "mcp",
    .summary = "answer an agent's questions about recordings (MCP)",
    .usage = "FOLDER",
    .about =
        "A server of the Model Context Protocol on stdin and stdout: a client starts it and calls its tools, which are "
        "memprof's commands that read: report, peak, leaks, holders, steps, frag, advise, info, size and compare, and "
        "`recordings`, which lists the files. They read recordings below FOLDER and nothing else, wherever links "
        "lead, write nothing, and run no program. An answer has at most 64 KiB.",
    .example = "memprof mcp ~/runs",
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
