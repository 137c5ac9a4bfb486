#include "output/report/sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "output/report/categories.h"
#include "output/report/frame_choice.h"

#define LINES_MAX 8 /* most lines of a site, unless the user asks for all */

/* Appends a notebook cell's name. IPython names cells by number ("<ipython-input-3-5ab7…>"), a notebook's kernel by a
 * temporary file ("/tmp/ipykernel_123/456.py"). */
static bool cell_text(struct mp_buffer *out, const struct mp_stack_line *line)
{
    static const char input[] = "<ipython-input-", kernel[] = "/ipykernel_";
    const char *found = line->file ? strstr(line->file, kernel) : NULL;
    if (line->file && !strncmp(line->file, input, strlen(input)))
        mp_buffer_printf(out, "Cell In[%.*s], line %u", (int)strspn(line->file + strlen(input), "0123456789"),
                         line->file + strlen(input), line->line);
    else if (found && (found = strchr(found + 1, '/')))
        mp_buffer_printf(out, "cell %.*s, line %u", (int)strcspn(found + 1, "."), found + 1, line->line);
    else
        return false;
    return true;
}

static void place_text(struct mp_buffer *out, const struct mp_stack_line *line)
{
    if (cell_text(out, line))
        ;
    else if (line->file && line->line)
        mp_buffer_printf(out, "%s:%u", mp_path_short(line->file), line->line);
    else if (line->file)
        mp_buffer_append_text(out, mp_path_short(line->file));
    else if (line->module && !line->function)
        mp_buffer_printf(out, "%s+0x%llx", mp_path_short(line->module), (unsigned long long)line->address);
    else if (line->module)
        mp_buffer_append_text(out, mp_path_short(line->module));
    else if (!line->function && line->language == MP_NATIVE)
        mp_buffer_printf(out, "0x%llx", (unsigned long long)line->address);
    mp_buffer_append(out, "", 1);
}

static void function_text(struct mp_buffer *out, const struct mp_stack_line *line)
{
    if (line->cut)
        mp_buffer_append_text(out, "… frames left out");
    else if (line->function && line->language == MP_NATIVE)
        mp_function_name(out, line->function);
    else
        mp_buffer_append_text(out, line->function ? line->function : "?");
    mp_buffer_append(out, "", 1);
}

void mp_line_text(struct mp_buffer *out, const struct mp_stack_line *line)
{
    struct mp_buffer place = {0};
    place_text(&place, line);
    mp_text_clean(out, (const char *)place.data);
    if (line->function) {
        struct mp_buffer name = {0};
        if (place.size > 1) mp_buffer_append_text(out, " ");
        function_text(&name, line);
        mp_text_clean(out, (const char *)name.data);
        mp_buffer_free(&name);
    }
    mp_buffer_free(&place);
}

void mp_headline_text(struct mp_buffer *out, const struct mp_stack_line *line)
{
    mp_buffer_append_text(out, mp_frame_prefix(line));
    mp_line_text(out, line);
}

void mp_stack_headline_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line)
        mp_headline_text(out, line);
    else
        mp_buffer_append_text(out, "(no stack)");
    mp_stack_lines_free(&lines);
}

static const char *no_stack_text(const struct mp_site *site)
{
    return site->births ? "(no stack)" : "(no stack: live before the recording began)";
}

void mp_site_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site)
{
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, site->stack, &lines);
    const struct mp_stack_line *headline = mp_stack_headline(&lines);
    if (headline)
        mp_headline_text(out, headline);
    else
        mp_buffer_append_text(out, no_stack_text(site));
    for (size_t i = headline ? (size_t)(headline - lines.at) + 1 : lines.count; i < lines.count; i++) {
        if (!lines.at[i].user || site->module_count) continue;
        mp_buffer_append_text(out, " ← ");
        mp_line_text(out, &lines.at[i]);
        break;
    }
    mp_stack_lines_free(&lines);
}

void mp_site_modules_text(struct mp_buffer *out, const struct mp_sites *sites, const struct mp_site *site)
{
    if (!sites || !site->module_count) return;
    mp_text_clean(out, mp_intern_get(&sites->groups, sites->modules.at[site->first_module].pattern, NULL));
    if (site->module_count > 1) mp_buffer_printf(out, " +%u", site->module_count - 1);
}

static void modules_cell(struct mp_table *table, const struct mp_sites *sites, const struct mp_site *site)
{
    struct mp_buffer out = {0};
    mp_site_modules_text(&out, sites, site);
    if (out.size) mp_table_wide(table, MP_PLAIN, "%.*s", (int)out.size, (const char *)out.data);
    mp_buffer_free(&out);
}

static void line_cells(struct mp_table *table, enum mp_style style, const char *prefix,
                       const struct mp_stack_line *line)
{
    struct mp_buffer place = {0};
    place_text(&place, line);
    struct mp_buffer name = {0};
    function_text(&name, line);
    mp_table_cell(table, style, "%s%s", prefix, (const char *)name.data);
    mp_buffer_free(&name);
    mp_table_cell(table, style, "%s", (const char *)place.data);
    mp_buffer_free(&place);
}

/* Lines of the short form: the user's own lines, else Python's, else native ones beyond the allocator's. */
enum shown { SHOW_USER, SHOW_PYTHON, SHOW_NATIVE };

static bool is_shown(const struct mp_stack_line *line, enum shown shown)
{
    if (line->cut || line->skipped) return false;
    if (shown == SHOW_USER) return line->user;
    if (shown == SHOW_PYTHON) return line->language == MP_PYTHON;
    return !mp_line_is_start(line) && !mp_stack_is_allocator(line);
}

static enum shown choose_shown(const struct mp_stack_lines *lines)
{
    enum shown shown = SHOW_NATIVE;
    for (size_t i = 0; i < lines->count; i++) {
        if (lines->at[i].user) return SHOW_USER;
        if (is_shown(&lines->at[i], SHOW_PYTHON)) shown = SHOW_PYTHON;
    }
    return shown;
}

struct folded {
    const struct mp_stack_line *meaningful; /* the innermost meaningful line; may be NULL */
    size_t count;
};

static void fold(struct folded *folded, const struct mp_stack_line *line)
{
    bool meaningful =
        line->language == MP_PYTHON ? line->function && line->file && !line->skipped : mp_line_is_meaningful(line);
    folded->count++;
    if (!folded->meaningful && meaningful) folded->meaningful = line;
}

static void append_folded(struct mp_buffer *out, const struct folded *folded, const char *label)
{
    if (!folded->count) return;
    const struct mp_stack_line *line = folded->meaningful;
    if (out->size) mp_buffer_append_text(out, ", ");
    if (line && line->language == MP_PYTHON)
        mp_buffer_printf(out, "%s:%u %s … ", mp_path_short(line->file), line->line, line->function);
    else if (line) {
        mp_function_name(out, line->function);
        mp_buffer_append_text(out, " … ");
    }
    mp_buffer_printf(out, "%zu %s frame%s", folded->count, label, folded->count == 1 ? "" : "s");
}

/* Prints one row per line; the first row already has its first `columns` cells, the others get empty ones. */
static void short_rows(struct mp_table *table, unsigned columns, const struct mp_stack_lines *lines,
                       const struct mp_sites *sites, const struct mp_site *site, const char *difference,
                       const char *last)
{
    enum shown shown = choose_shown(lines);
    struct folded package = {0}, native = {0};
    size_t rows = 0, more = 0;
    bool backward = false; /* a line marked "backward of" was printed */
    mp_vec_each (const struct mp_stack_line, line, lines) {
        if (!is_shown(line, shown)) {
            if (!line->cut && line->language != MP_BACKWARD)
                fold(line->language == MP_PYTHON ? &package : &native, line);
            continue;
        }
        if (rows == LINES_MAX) {
            more++;
            continue;
        }
        if (rows++) mp_table_skip(table, columns);
        bool said = backward || shown == SHOW_NATIVE; /* the prefix "backward of" was already printed, or is a line of
                                                       * its own */
        line_cells(table, rows == 1 ? MP_BOLD : MP_PLAIN, said ? "" : mp_frame_prefix(line), line);
        backward |= line->backward;
        if (rows == 1) modules_cell(table, sites, site);
        mp_table_end_row(table);
    }
    struct mp_buffer rest = {0};
    if (more) mp_buffer_printf(&rest, "%zu more", more);
    append_folded(&rest, &package, "package");
    append_folded(&rest, &native, "native");
    size_t length = strlen(difference);
    if (length && (!rest.size || !memmem(rest.data, rest.size, difference, length)))
        mp_buffer_printf(&rest, "%sin %s", rest.size ? ", " : "", difference);
    if (*last) mp_buffer_append_text(&rest, rest.size ? last : last + strlen(", "));
    if (rest.size) {
        if (rows) mp_table_skip(table, columns);
        mp_table_wide(table, MP_DIM, "(%.*s)", (int)rest.size, (const char *)rest.data);
        mp_table_end_row(table);
    } else if (!rows) { /* all frames are lost or were cut */
        mp_table_wide(table, MP_DIM, "(no stack)");
        mp_table_end_row(table);
    }
    mp_buffer_free(&rest);
}

/* Writes the graph's node that torch.compile made the line from. */
static void graph_node_cell(struct mp_table *table, const struct mp_model *model, uint32_t more)
{
    struct mp_buffer out = {0}, clean = {0};
    if (mp_graph_node_text(model, more, &out)) {
        mp_buffer_append(&out, "", 1);
        mp_text_clean(&clean, (const char *)out.data);
        mp_table_wide(table, MP_DIM, "FX node %.*s", (int)clean.size, (const char *)clean.data);
    }
    mp_buffer_free(&out);
    mp_buffer_free(&clean);
}

static void full_rows(struct mp_table *table, unsigned columns, const struct mp_model *model,
                      const struct mp_stack_lines *lines, const struct mp_sites *sites, const struct mp_site *site,
                      const char *last)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct mp_stack_line *line = &lines->at[i];
        if (i) mp_table_skip(table, columns);
        line_cells(table, line->user ? MP_BOLD : line->language == MP_NATIVE ? MP_DIM : MP_PLAIN, "", line);
        if (!i) modules_cell(table, sites, site);
        graph_node_cell(table, model, line->more);
        mp_table_end_row(table);
    }
    if (!*last) return;
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_DIM, "(%s)", last + strlen(", "));
    mp_table_end_row(table);
}

void mp_stack_rows(struct mp_table *table, unsigned columns, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site *site, const struct mp_site_apart *apart, bool full)
{
    struct mp_buffer difference = {0}, last = {0};
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, site->stack, &lines);
    if (apart) mp_site_apart_text(&last, model, site, apart);
    mp_buffer_append(&last, "", 1);
    if (!lines.count) {
        mp_table_wide(table, MP_DIM, "%s%s", no_stack_text(site), (const char *)last.data);
        mp_table_end_row(table);
    } else {
        if (apart && apart->twin != MP_NONE && !full) mp_difference_text(&difference, model, site->stack, apart->twin);
        mp_buffer_append(&difference, "", 1);
        if (full)
            full_rows(table, columns, model, &lines, sites, site, (const char *)last.data);
        else
            short_rows(table, columns, &lines, sites, site, (const char *)difference.data, (const char *)last.data);
    }
    mp_buffer_free(&last);
    mp_buffer_free(&difference);
    mp_stack_lines_free(&lines);
}

const char *mp_group_key(const struct mp_intern *groups, uint32_t group)
{
    return group == MP_NONE ? NULL : mp_intern_get(groups, group, NULL);
}

void mp_group_text(struct mp_buffer *out, const struct mp_intern *groups, uint32_t group, enum mp_group_by by)
{
    char number[MP_UNIT_TEXT], count[MP_UNIT_TEXT];
    const char *name = group == MP_NONE ? "(unknown)" : mp_intern_get(groups, group, NULL);
    if (by == MP_GROUP_SIZE && group != MP_NONE) {
        uint64_t bytes = strtoull(name, NULL, 10);
        mp_buffer_printf(out, "%s (%s)", mp_format_bytes(number, bytes), mp_format_count(count, bytes));
    } else {
        mp_buffer_append_text(out, name);
    }
}

/* Writes the graph's node that torch.compile made the line from. */
static void graph_node_json(struct mp_json *json, const struct mp_model *model, uint32_t more)
{
    static const char *const names[MP_GRAPH_NODE_PARTS] = {"fx_node_name", "fx_node_op", "fx_node_target"};
    struct mp_buffer text = {0};
    for (unsigned part = 0; more && part < MP_GRAPH_NODE_PARTS; part++) {
        mp_buffer_clear(&text);
        if (mp_graph_node_part(model, more, (enum mp_graph_node_part)part, &text))
            mp_json_bytes_of_text(json, names[part], (const char *)text.data, text.size);
    }
    mp_buffer_free(&text);
}

static void frame_json(struct mp_json *json, const struct mp_model *model, const struct mp_stack_line *line)
{
    mp_json_object(json, NULL);
    json->flat = true;
    mp_json_text(json, "function", line->function);
    mp_json_text(json, "file", line->file);
    mp_json_known(json, "line", line->line ? line->line : UINT64_MAX);
    mp_json_text(json, "module", line->module);
    mp_json_text(json, "language", line->cut ? NULL : mp_language_name(line->language));
    if (line->cut) mp_json_bool(json, "cut", true);
    graph_node_json(json, model, line->more);
    mp_json_end_object(json);
    json->flat = false;
}

void mp_stack_json(struct mp_json *json, const struct mp_model *model, uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, stack, &lines);
    mp_json_array(json, "stack");
    for (size_t i = 0; i < lines.count; i++)
        frame_json(json, model, &lines.at[i]);
    mp_json_end_array(json);
    mp_stack_lines_free(&lines);
}

void mp_site_named_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site,
                        const struct mp_site_apart *apart)
{
    struct mp_buffer difference = {0};
    mp_site_text(out, model, site);
    if (apart && apart->twin != MP_NONE) mp_difference_text(&difference, model, site->stack, apart->twin);
    if (difference.size) mp_buffer_printf(out, ", in %.*s", (int)difference.size, (const char *)difference.data);
    if (apart) mp_site_apart_text(out, model, site, apart);
    mp_buffer_free(&difference);
}

void mp_site_cell(struct mp_table *table, const struct mp_model *model, const struct mp_sites *sites,
                  const struct mp_site *site, const struct mp_site_apart *apart)
{
    struct mp_buffer out = {0};
    mp_site_named_text(&out, model, site, apart);
    if (site->module_count) {
        mp_table_cell(table, MP_PLAIN, "%.*s", (int)out.size, (const char *)out.data);
        modules_cell(table, sites, site);
    } else {
        mp_table_wide(table, MP_PLAIN, "%.*s", (int)out.size, (const char *)out.data);
    }
    mp_buffer_free(&out);
}

void mp_say_site(struct mp_text *text, const struct mp_model *model, uint32_t stack)
{
    mp_say(text, "  ");
    mp_site_text(text->out, model, &(const struct mp_site){.stack = stack, .births = 1});
    mp_say(text, "\n");
}
