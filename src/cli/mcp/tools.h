/*
 * The tools that a server of the Model Context Protocol offers: memprof's commands that read recordings, one tool each,
 * and `recordings`, which lists the files. A tool reads files below the current folder and no others, writes nothing,
 * and runs no program of anybody else's. One thread.
 */
#ifndef MP_CLI_MCP_TOOLS_H
#define MP_CLI_MCP_TOOLS_H

#include <stdbool.h>
#include <yajl/yajl_tree.h>

#include "base/json.h"

/* A member of an object; NULL where there is none, or `object` is none. */
static inline yajl_val mp_mcp_member(yajl_val object, const char *name)
{
    const char *path[] = {name, NULL};
    return YAJL_IS_OBJECT(object) ? yajl_tree_get(object, path, yajl_t_any) : NULL;
}

/* Writes the array `tools` of the answer to tools/list: names, descriptions, schemas of their arguments. */
void mp_mcp_tools_list(struct mp_json *json);

/* Writes the members of the answer to tools/call. Whatever is wrong with the arguments is such an answer, too, with
 * isError. `root` is the current folder without links; `arguments` NULL where there are none. False where there is no
 * tool of that name: then nothing was written. */
bool mp_mcp_tools_call(const char *root, const char *name, yajl_val arguments, struct mp_json *json);

#endif
