/* A server of the Model Context Protocol on stdin and stdout: one JSON-RPC 2.0 message a line, as its transport "stdio"
 * has it (modelcontextprotocol.io/specification, versions 2024-11-05 to 2025-11-25). One thread. */
#ifndef MP_CLI_MCP_SERVE_H
#define MP_CLI_MCP_SERVE_H

/* Answers until stdin ends, over the recordings below the current folder, which `root` names without links. Returns an
 * exit status; where it is not 0, a message was printed. */
int mp_mcp_serve(const char *root);

#endif
