#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/invocation.h"
#include "collect/session/launch.h"

static int run_mcp(const struct mp_invocation *invocation)
{
    static char python[] = "python3", self[PATH_MAX];
    char root[PATH_MAX], *folder = mp_launch_find_python();
    if (!realpath(invocation->operands[0], root) || chdir(root))
        return mp_give_up("%s cannot be entered: %s; name a folder with recordings", invocation->operands[0],
                          strerror(errno));
    if (!folder || readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return mp_give_up("libmemprof_mcp.py, the server, is not installed with memprof: install memprof anew");
    char *server = mp_text_make("%s/libmemprof_mcp.py", folder), *arguments[] = {python, server, self, root, NULL};
    execvp(python, arguments);
    return mp_give_up("python3 cannot be run: %s; install Python 3.10 or newer, and its package mcp", strerror(errno));
}

const struct mp_command mp_command_mcp = {
    .name = "mcp",
    .summary = "answer an agent's questions about recordings (MCP)",
    .usage = "FOLDER",
    .about =
        "A server of the Model Context Protocol on stdin and stdout, which a client starts. Its tools are the commands "
        "that read: report, peak, leaks, holders, steps, frag, advise, info, size and compare. `recordings` lists the "
        "files. The tools read recordings below FOLDER and nothing else, wherever links lead. They write nothing, and "
        "run no program. An answer of more than 8 KiB of text, or 64 KiB of JSON, comes in pages. The server is a "
        "Python program on the protocol's own package: pip install mcp.",
    .example = "memprof mcp ~/runs",
    .operands_min = 1,
    .operands_max = 1,
    .run = run_mcp,
};
