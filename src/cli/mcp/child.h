/* Runs this memprof once more, as the commands of a server: what it prints is bounded, and so is its time. One thread.
 */
#ifndef MP_CLI_MCP_CHILD_H
#define MP_CLI_MCP_CHILD_H

#include <stdbool.h>

#include "base/buffer.h"

#define MP_MCP_ANSWER_MOST 65536 /* bytes of an answer */
#define MP_MCP_SECONDS     300   /* that a command may take */

struct mp_mcp_answer {
    struct mp_buffer out, messages; /* what it wrote to stdout and to stderr; the caller frees both */
    int status;                     /* its exit status; -1 where it ended otherwise or never began */
    bool cut;                       /* both together had more than MP_MCP_ANSWER_MOST, and it was stopped */
    bool late;                      /* it was stopped after MP_MCP_SECONDS */
};

/* `arguments` is an argv: "memprof", a command's name, and what it takes; then NULL. The child reads nothing of our
 * stdin, and ends with us and with who reads our stdout. `answer` need not be initialised. */
void mp_mcp_run(char *const *arguments, struct mp_mcp_answer *answer);

#endif
