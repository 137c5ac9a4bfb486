#include "cli/mcp/tools.h"

#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/mcp/child.h"
#include "cli/messages.h"
#include "cli/output_file.h"
#include "output/report/text.h"

#define FILES_SHOWN  200
#define FILES_LOOKED 100000
#define FOLDERS_DEEP 16
#define PROBES_MOST  64
#define LINE_ROOM    256 /* of a line, beside the name; and of the last lines */
#define ROWS_OF_JSON "20"

/* ---- what there is ------------------------------------------------------------------------------------------------
 */

enum files { NO_FILE, ONE_FILE, TWO_FILES, PROBES };

/* `recordings` is no command; the others are called as the command is. */
static const struct tool {
    const char *name;
    enum files files;
} tools[] = {
    {"recordings", NO_FILE}, {"report", ONE_FILE}, {"peak", ONE_FILE},     {"leaks", ONE_FILE},
    {"holders", ONE_FILE},   {"steps", ONE_FILE},  {"frag", ONE_FILE},     {"advise", ONE_FILE},
    {"info", ONE_FILE},      {"size", PROBES},     {"compare", TWO_FILES},
};

/* Of a command's options those that only choose what is shown. */
static const enum mp_option offered[] = {
    MP_OPT_TRACK,    MP_OPT_FROM,   MP_OPT_TO,          MP_OPT_LIMIT,       MP_OPT_GROUP,  MP_OPT_SORT,
    MP_OPT_FILTER,   MP_OPT_OF,     MP_OPT_OUTSTANDING, MP_OPT_SITE,        MP_OPT_REPLAY, MP_OPT_KIND,
    MP_OPT_CAPACITY, MP_OPT_MARGIN, MP_OPT_PREDICT,     MP_OPT_FULL_STACKS, MP_OPT_JSON,
};
#define OFFERED (sizeof offered / sizeof *offered)

/* ---- tools/list ---------------------------------------------------------------------------------------------------
 */

static void put_property(struct mp_json *json, const char *name, const char *type, const char *description)
{
    mp_json_object(json, name);
    mp_json_text(json, "type", type);
    mp_json_text(json, "description", description);
    mp_json_end_object(json);
}

static void put_probes(struct mp_json *json)
{
    mp_json_object(json, "probes");
    mp_json_text(json, "type", "array");
    mp_json_text(json, "description", "recordings of one program at two or more batch sizes");
    mp_json_object(json, "items");
    mp_json_text(json, "type", "object");
    mp_json_object(json, "properties");
    put_property(json, "batch", "integer", "the batch size");
    put_property(json, "file", "string", "its recording");
    mp_json_end_object(json);
    mp_json_array(json, "required");
    mp_json_text(json, NULL, "batch");
    mp_json_text(json, NULL, "file");
    mp_json_end_array(json);
    mp_json_end_object(json);
    mp_json_end_object(json);
}

static const char *const files_of[][2] = {
    [ONE_FILE] = {"file"}, [TWO_FILES] = {"before", "after"}, [PROBES] = {"probes"}};

static void put_schema(struct mp_json *json, const struct tool *tool, const struct mp_command *command)
{
    mp_json_object(json, "inputSchema");
    mp_json_text(json, "type", "object");
    mp_json_object(json, "properties");
    if (tool->files == PROBES) put_probes(json);
    for (size_t i = 0; i < 2 && tool->files != PROBES && files_of[tool->files][i]; i++)
        put_property(json, files_of[tool->files][i], "string",
                     "path of a recording, as the tool `recordings` shows it");
    for (size_t i = 0; command && i < OFFERED; i++) {
        const struct mp_option_row *row = &mp_option_rows[offered[i]];
        if (mp_command_takes(command, offered[i]))
            put_property(json, row->name, row->argument ? "string" : "boolean",
                         mp_command_option_help(command, offered[i]));
    }
    mp_json_end_object(json);
    mp_json_array(json, "required");
    for (size_t i = 0; i < 2 && files_of[tool->files][i]; i++)
        mp_json_text(json, NULL, files_of[tool->files][i]);
    mp_json_end_array(json);
    mp_json_bool(json, "additionalProperties", false);
    mp_json_end_object(json);
}

void mp_mcp_tools_list(struct mp_json *json)
{
    mp_json_array(json, "tools");
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        const struct mp_command *command = mp_command_find(tools[i].name);
        char *text = command ? mp_text_make("%s. %s", command->summary, command->about ? command->about : "")
                             : mp_text_make("the recordings below the folder, newest first");
        mp_json_object(json, NULL);
        mp_json_text(json, "name", tools[i].name);
        mp_json_text(json, "description", text);
        put_schema(json, &tools[i], command);
        mp_json_object(json, "annotations");
        mp_json_bool(json, "readOnlyHint", true);
        mp_json_bool(json, "openWorldHint", false);
        mp_json_end_object(json);
        mp_json_end_object(json);
        free(text);
    }
    mp_json_end_array(json);
}

/* ---- an answer ----------------------------------------------------------------------------------------------------
 */

static void put_answer(struct mp_json *json, const char *text, size_t length, bool failed)
{
    mp_json_array(json, "content");
    mp_json_object(json, NULL);
    mp_json_text(json, "type", "text");
    mp_json_bytes_of_text(json, "text", text, length);
    mp_json_end_object(json);
    mp_json_end_array(json);
    mp_json_bool(json, "isError", failed);
}

static void put_failure(struct mp_json *json, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_failure(struct mp_json *json, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = mp_text_make_of(format, arguments);
    va_end(arguments);
    put_answer(json, text, strlen(text), true);
    free(text);
}

/* ---- recordings ---------------------------------------------------------------------------------------------------
 */

struct listed {
    char *path;
    uint64_t bytes;
    int64_t changed;
};

static bool is_named_like_a_recording(const char *name)
{
    static const char *const ends[] = {".mp", ".pickle", ".pkl", ".json", ".json.gz", ".sqlite", ".csv"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (mp_path_ends(name, ends[i])) return true;
    return false;
}

static int newest_first(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    return x->changed != y->changed ? (x->changed < y->changed) - (x->changed > y->changed) : strcmp(x->path, y->path);
}

/* False where the answer is full. */
static bool put_listed(struct mp_buffer *text, const struct listed *file)
{
    char date[32] = "?";
    time_t changed = (time_t)file->changed;
    const struct tm *parts = gmtime(&changed);
    struct mp_buffer name = {0};
    if (parts && !strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", parts)) snprintf(date, sizeof date, "?");
    mp_text_clean(&name, file->path);
    bool asked = name.size == strlen(file->path) && !memcmp(name.data, file->path, name.size);
    bool fits = text->size + name.size + LINE_ROOM <= MP_MCP_ANSWER_MOST;
    if (fits)
        mp_buffer_printf(text, "%.*s  %llu bytes  %s%s\n", (int)name.size, (const char *)name.data,
                         (unsigned long long)file->bytes, date,
                         asked ? "" : "  (rename it: a tool cannot be asked for such a name)");
    mp_buffer_free(&name);
    return fits;
}

static void list_recordings(struct mp_json *json)
{
    MP_VEC(struct listed) files = {0};
    char here[] = ".", *const roots[] = {here, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    size_t looked = 0;
    for (FTSENT *entry; walk && looked < FILES_LOOKED && (entry = fts_read(walk)); looked++) {
        if (entry->fts_info == FTS_D && entry->fts_level > FOLDERS_DEEP) fts_set(walk, entry, FTS_SKIP);
        if (entry->fts_info != FTS_F || !is_named_like_a_recording(entry->fts_name)) continue;
        struct listed file = {mp_text_copy(entry->fts_path + 2), (uint64_t)entry->fts_statp->st_size,
                              (int64_t)entry->fts_statp->st_mtime};
        mp_vec_add(&files, file);
    }
    if (walk) fts_close(walk);
    if (files.count) qsort(files.at, files.count, sizeof *files.at, newest_first);

    struct mp_buffer text = {0};
    size_t shown = 0;
    while (shown < files.count && shown < FILES_SHOWN && put_listed(&text, &files.at[shown]))
        shown++;
    if (shown < files.count) mp_buffer_printf(&text, "and %zu older ones\n", files.count - shown);
    if (looked == FILES_LOOKED) mp_buffer_printf(&text, "the first %d files were looked at\n", FILES_LOOKED);
    if (!text.size) mp_buffer_append_text(&text, "there is no recording below this folder\n");
    put_answer(json, (const char *)text.data, text.size, false);
    mp_buffer_free(&text);
    for (size_t i = 0; i < files.count; i++)
        free(files.at[i].path);
    mp_vec_free(&files);
}

/* ---- a command ----------------------------------------------------------------------------------------------------
 */

struct call {
    const struct mp_command *command;
    const char *root;
    yajl_val arguments;
    struct mp_json *json;
    MP_VEC(char *) argv; /* owned; NULL-terminated when complete */
};

/* A text or a number, as it was written; NULL for all else. */
static const char *text_of(yajl_val value)
{
    return YAJL_IS_STRING(value) ? YAJL_GET_STRING(value) : YAJL_IS_NUMBER(value) ? YAJL_GET_NUMBER(value) : NULL;
}

/* Whether the file lies below the folder, wherever links lead. */
static bool is_below(struct call *call, const char *name, const char *file)
{
    char real[PATH_MAX];
    size_t length = strlen(call->root);
    struct stat status;
    if (!file) {
        put_failure(call->json, "\"%s\" is missing: the path of a recording, as the tool `recordings` shows it", name);
        return false;
    }
    char *path = mp_text_make("./%s", file);
    bool found = *file != '/' && realpath(path, real) && !stat(real, &status) && S_ISREG(status.st_mode);
    free(path);
    if (found && (length == 1 || (!strncmp(real, call->root, length) && real[length] == '/'))) return true;
    put_failure(call->json, "there is no file %s below %s; the tool `recordings` lists those that there are", file,
                call->root);
    return false;
}

static bool add_file(struct call *call, const char *name)
{
    const char *file = text_of(mp_mcp_member(call->arguments, name));
    if (!is_below(call, name, file)) return false;
    mp_vec_add(&call->argv, mp_text_make("%s%s", *file == '-' ? "./" : "", file)); /* a name, never an option */
    return true;
}

static bool add_probes(struct call *call)
{
    yajl_val probes = mp_mcp_member(call->arguments, "probes");
    if (!YAJL_IS_ARRAY(probes) || !probes->u.array.len || probes->u.array.len > PROBES_MOST) {
        put_failure(call->json, "\"probes\" must be a list of 1 to %d objects with \"batch\" and \"file\"",
                    PROBES_MOST);
        return false;
    }
    for (size_t i = 0; i < probes->u.array.len; i++) {
        yajl_val probe = probes->u.array.values[i];
        const char *batch = text_of(mp_mcp_member(probe, "batch")), *file;
        if (!batch || strspn(batch, "0123456789") != strlen(batch)) {
            put_failure(call->json, "\"batch\" of probe %zu must be a whole number", i + 1);
            return false;
        }
        file = text_of(mp_mcp_member(probe, "file"));
        if (!is_below(call, "file", file)) return false;
        mp_vec_add(&call->argv, mp_text_make("%s=%s", batch, file));
    }
    return true;
}

static bool add_option(struct call *call, enum mp_option option, yajl_val value)
{
    const struct mp_option_row *row = &mp_option_rows[option];
    const char *text = text_of(value);
    if (row->argument ? !text : !YAJL_IS_TRUE(value) && !YAJL_IS_FALSE(value)) {
        put_failure(call->json, "\"%s\" must be %s", row->name, row->argument ? "a string" : "true or false");
        return false;
    }
    if (row->argument)
        mp_vec_add(&call->argv, mp_text_make("--%s=%s", row->name, text));
    else if (YAJL_IS_TRUE(value))
        mp_vec_add(&call->argv, mp_text_make("--%s", row->name));
    return true;
}

static bool is_file_argument(const struct tool *tool, const char *name)
{
    for (size_t i = 0; i < 2 && files_of[tool->files][i]; i++)
        if (!strcmp(name, files_of[tool->files][i])) return true;
    return false;
}

static bool add_options(struct call *call, const struct tool *tool)
{
    for (size_t i = 0; call->arguments && i < call->arguments->u.object.len; i++) {
        const char *name = call->arguments->u.object.keys[i];
        size_t k = 0;
        if (is_file_argument(tool, name)) continue;
        while (k < OFFERED &&
               (strcmp(name, mp_option_rows[offered[k]].name) || !mp_command_takes(call->command, offered[k])))
            k++;
        if (k == OFFERED) {
            put_failure(call->json, "the tool %s has no argument \"%s\"", tool->name, name);
            return false;
        }
        if (!add_option(call, offered[k], call->arguments->u.object.values[i])) return false;
    }
    if (YAJL_IS_TRUE(mp_mcp_member(call->arguments, "json")) && mp_command_takes(call->command, MP_OPT_LIMIT) &&
        !mp_mcp_member(call->arguments, "limit"))
        mp_vec_add(&call->argv, mp_text_copy("--limit=" ROWS_OF_JSON));
    if (mp_command_takes(call->command, MP_OPT_PROGRESS)) mp_vec_add(&call->argv, mp_text_copy("--progress=never"));
    return true;
}

static void put_command_answer(struct call *call, struct mp_mcp_answer *answer)
{
    bool done = answer->status == MP_EXIT_DONE || answer->status == MP_EXIT_INCOMPLETE;
    if (answer->late) {
        put_failure(call->json,
                    "memprof %s took longer than %d s and was stopped; ask for a part of the recording "
                    "(from, to)",
                    call->command->name, MP_MCP_SECONDS);
    } else if (answer->cut) {
        put_failure(call->json,
                    "the answer of memprof %s has more than %d bytes; ask for fewer rows (limit), for a "
                    "part (from, to, filter), or without full-stacks and json",
                    call->command->name, MP_MCP_ANSWER_MOST);
    } else {
        if (done && answer->messages.size && answer->out.size) mp_buffer_append_text(&answer->out, "\n");
        mp_buffer_append(&answer->out, answer->messages.data, answer->messages.size);
        put_answer(call->json, (const char *)answer->out.data, answer->out.size, !done);
    }
}

static void run_command(struct call *call, const struct tool *tool)
{
    bool ready = true;
    mp_vec_add(&call->argv, mp_text_copy("memprof"));
    mp_vec_add(&call->argv, mp_text_copy(tool->name));
    ready = add_options(call, tool);
    for (size_t i = 0; ready && i < 2 && tool->files != PROBES && files_of[tool->files][i]; i++)
        ready = add_file(call, files_of[tool->files][i]);
    if (ready && tool->files == PROBES) ready = add_probes(call);
    if (!ready) return;
    struct mp_mcp_answer answer;
    mp_vec_add(&call->argv, NULL);
    mp_mcp_run(call->argv.at, &answer);
    put_command_answer(call, &answer);
    mp_buffer_free(&answer.out);
    mp_buffer_free(&answer.messages);
}

bool mp_mcp_tools_call(const char *root, const char *name, yajl_val arguments, struct mp_json *json)
{
    size_t k = 0, count = sizeof tools / sizeof *tools;
    while (k < count && strcmp(name, tools[k].name))
        k++;
    if (k == count) return false;
    if (arguments && !YAJL_IS_OBJECT(arguments)) {
        put_failure(json, "\"arguments\" must be an object");
        return true;
    }
    if (tools[k].files == NO_FILE) {
        list_recordings(json);
        return true;
    }
    struct call call = {.command = mp_command_find(tools[k].name), .root = root, .arguments = arguments, .json = json};
    run_command(&call, &tools[k]);
    for (size_t i = 0; i < call.argv.count; i++)
        free(call.argv.at[i]);
    mp_vec_free(&call.argv);
    return true;
}
