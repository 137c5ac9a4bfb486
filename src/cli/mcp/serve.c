#include "cli/mcp/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include "base/buffer.h"
#include "base/json.h"
#include "cli/mcp/tools.h"
#include "cli/messages.h"

#define MESSAGE_MOST (1u << 20) /* bytes of a line */
#define DEPTH_MOST   32         /* containers inside containers: yajl's tree is freed by recursion */

/* Of JSON-RPC 2.0. */
enum { PARSE_ERROR = -32700, INVALID_REQUEST = -32600, NO_METHOD = -32601, INVALID_PARAMS = -32602 };

/* The newest first: that is the answer to a version that we do not know. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

enum line { LINE_READ, LINE_TOO_LONG, LINE_NONE };

/* Reads a line without its end. The rest of one that is too long is skipped. */
static enum line read_line(struct mp_buffer *line)
{
    int byte;
    bool any = false, long_one = false;
    mp_buffer_clear(line);
    while ((byte = getc_unlocked(stdin)) != EOF && byte != '\n') {
        char one = (char)byte;
        any = true;
        long_one |= line->size >= MESSAGE_MOST;
        if (!long_one) mp_buffer_append(line, &one, 1);
    }
    if (byte == EOF && !any) return LINE_NONE;
    mp_buffer_append(line, "", 1);
    return long_one ? LINE_TOO_LONG : LINE_READ;
}

/* Whether yajl may have the line: it takes comments, which JSON has not, and in which brackets and quotes mean nothing;
 * and of a text with a NUL it gives the part before it. */
static bool is_acceptable(const char *text)
{
    unsigned depth = 0;
    bool quoted = false;
    if (strstr(text, "\\u0000")) return false;
    for (; *text; text++) {
        if (quoted && *text == '\\' && text[1])
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted && *text == '/')
            return false;
        else if (!quoted && (*text == '{' || *text == '[') && ++depth > DEPTH_MOST)
            return false;
        else if (!quoted && (*text == '}' || *text == ']') && depth)
            depth--;
    }
    return true;
}

/* ---- answers ------------------------------------------------------------------------------------------------------
 */

struct answer {
    struct mp_buffer out;
    struct mp_json json;
};

/* Begins the answer to a request: the id, a text or a number, is repeated as it came; else it is null. */
static void begin_answer(struct answer *answer, yajl_val id)
{
    *answer = (struct answer){0};
    mp_json_start(&answer->json, &answer->out);
    answer->json.flat = true;
    mp_json_object(&answer->json, NULL);
    mp_json_text(&answer->json, "jsonrpc", "2.0");
    if (YAJL_IS_STRING(id))
        mp_json_text(&answer->json, "id", YAJL_GET_STRING(id));
    else if (YAJL_IS_NUMBER(id))
        mp_json_digits(&answer->json, "id", YAJL_GET_NUMBER(id));
    else
        mp_json_null(&answer->json, "id");
}

static bool send_answer(struct answer *answer)
{
    mp_json_end_object(&answer->json);
    bool sent = !answer->out.failed && fwrite(answer->out.data, 1, answer->out.size, stdout) == answer->out.size &&
                !fflush(stdout);
    if (!sent) mp_message("an answer could not be written to stdout: %s", strerror(errno));
    mp_buffer_free(&answer->out);
    return sent;
}

static bool send_error(yajl_val id, int code, const char *text)
{
    struct answer answer;
    begin_answer(&answer, id);
    mp_json_object(&answer.json, "error");
    mp_json_signed(&answer.json, "code", code);
    mp_json_text(&answer.json, "message", text);
    mp_json_end_object(&answer.json);
    return send_answer(&answer);
}

/* ---- methods ------------------------------------------------------------------------------------------------------
 */

static void initialize(struct mp_json *json, yajl_val parameters, const char *root)
{
    const char *asked = YAJL_GET_STRING(mp_mcp_member(parameters, "protocolVersion")), *version = versions[0];
    for (size_t i = 0; asked && i < sizeof versions / sizeof *versions; i++)
        if (!strcmp(asked, versions[i])) version = versions[i];
    mp_json_text(json, "protocolVersion", version);
    mp_json_object(json, "capabilities");
    mp_json_object(json, "tools");
    mp_json_end_object(json);
    mp_json_end_object(json);
    mp_json_object(json, "serverInfo");
    mp_json_text(json, "name", "memprof");
    mp_json_text(json, "version", PACKAGE_VERSION);
    mp_json_end_object(json);
    struct mp_buffer text = {0};
    mp_buffer_printf(
        &text,
        "Answers questions about GPU memory from recordings below %s. Begin with `recordings`, then `report` "
        "of one: it has the peak, what it is for, and leaks. `limit` makes an answer shorter.",
        root);
    mp_json_bytes_of_text(json, "instructions", (const char *)text.data, text.size);
    mp_buffer_free(&text);
}

/* Answers a request, which has an id. False where stdout can no longer be written. */
static bool answer_request(const char *root, const char *method, yajl_val id, yajl_val parameters)
{
    yajl_val name = mp_mcp_member(parameters, "name");
    bool known = true, call = !strcmp(method, "tools/call");
    if (call && !YAJL_IS_STRING(name)) return send_error(id, INVALID_PARAMS, "tools/call needs the name of a tool");
    struct answer answer;
    begin_answer(&answer, id);
    mp_json_object(&answer.json, "result");
    if (!strcmp(method, "initialize"))
        initialize(&answer.json, parameters, root);
    else if (!strcmp(method, "tools/list"))
        mp_mcp_tools_list(&answer.json);
    else if (call)
        known = mp_mcp_tools_call(root, YAJL_GET_STRING(name), mp_mcp_member(parameters, "arguments"), &answer.json);
    else
        known = !strcmp(method, "ping");
    if (known) {
        mp_json_end_object(&answer.json);
        return send_answer(&answer);
    }
    mp_buffer_free(&answer.out);
    return call ? send_error(id, INVALID_PARAMS, "there is no tool of that name; tools/list lists them")
                : send_error(id, NO_METHOD, "this server has initialize, ping, tools/list and tools/call alone");
}

static bool answer_line(const char *root, const char *line)
{
    char why[256];
    if (!line[strspn(line, " \t\r")]) return true;
    yajl_val message = is_acceptable(line) ? yajl_tree_parse(line, why, sizeof why) : NULL;
    if (!message) return send_error(NULL, PARSE_ERROR, "the line is no JSON, is nested too deeply, or has a NUL");
    yajl_val method = mp_mcp_member(message, "method"), id = mp_mcp_member(message, "id");
    bool going = true;
    if (id && !YAJL_IS_STRING(id) && !YAJL_IS_NUMBER(id))
        going = send_error(NULL, INVALID_REQUEST, "an \"id\" is a text or a number");
    else if (YAJL_IS_STRING(method) && id)
        going = answer_request(root, YAJL_GET_STRING(method), id, mp_mcp_member(message, "params"));
    else if (!YAJL_IS_STRING(method) && !mp_mcp_member(message, "result") && !mp_mcp_member(message, "error"))
        going = send_error(id, INVALID_REQUEST, "a message is one object with a \"method\"; batches are not taken");
    yajl_tree_free(message); /* a notification, or an answer to something that we never asked, has no answer */
    return going;
}

int mp_mcp_serve(const char *root)
{
    struct mp_buffer line = {0};
    bool going = true;
    while (going) {
        enum line read = read_line(&line);
        if (read == LINE_NONE) break;
        if (read == LINE_TOO_LONG)
            going = send_error(NULL, PARSE_ERROR, "the message has more than a mebibyte");
        else
            going = answer_line(root, (const char *)line.data);
    }
    mp_buffer_free(&line);
    return going ? MP_EXIT_DONE : MP_EXIT_COULD_NOT;
}
