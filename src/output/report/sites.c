#include "output/report/sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "model/stack_facts.h"
#include "model/track.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word_length(const char *at)
{
    size_t length = 0;
    while (is_word(at[length]))
        length++;
    return length;
}

/* The length of the name after "operator", such as "()", "<<", " new", " bool" or "\"\" _mb". */
static size_t operator_length(const char *after)
{
    if (!strncmp(after, "()", 2)) return 2;
    if (!strncmp(after, "\"\"", 2)) {
        size_t spaces = 2 + strspn(after + 2, " ");
        return spaces + word_length(after + spaces);
    }
    size_t signs = strspn(after, "<>=!+-*/%^&|~[],");
    return signs ? signs : *after == ' ' ? 1 + strcspn(after + 1, "(<:") : 0;
}

/* The length of a text at `at` that the caller must copy unchanged. 0: there is none, and the caller handles the single
 * character. */
static size_t whole_length(const char *at, bool within_word)
{
    static const char nameless[] = "(anonymous namespace)", sign[] = "operator";
    if (!strncmp(at, nameless, strlen(nameless))) return strlen(nameless);
    if (within_word || strncmp(at, sign, strlen(sign)) || is_word(at[strlen(sign)])) return 0;
    return strlen(sign) + operator_length(at + strlen(sign));
}

/* The length of "(*" or "(Class::*" before the name of a function that returns a pointer to a function; else 0. */
static size_t pointer_length(const char *at)
{
    size_t length = *at == '(';
    while (length && (is_word(at[length]) || at[length] == ':'))
        length++;
    return length && (at[length] == '*' || at[length] == '&') ? length + 1 : 0;
}

static bool is_text(const struct mp_buffer *buffer, const char *text)
{
    return buffer->size == strlen(text) && !memcmp(buffer->data, text, buffer->size);
}

/* Appends a function's name without return type, parameters and template arguments. "at::Tensor at::native::(anonymous
 * namespace)::fill<float>(at::Tensor const&, int)" becomes "at::native::(anonymous namespace)::fill". */
static void function_name(struct mp_buffer *out, const char *function)
{
    static const char within[] = " const::"; /* after a method's parameters: the name of a function inside the method
                                              * follows */
    struct mp_buffer name = {0};
    int depth = 0;
    char before = 0;
    for (const char *at = function; *at; before = *at++) {
        size_t whole = depth ? 0 : whole_length(at, is_word(before));
        size_t pointer = depth || name.size ? 0 : pointer_length(at);
        if (whole) {
            mp_buffer_append(&name, at, whole);
            at += whole - 1;
        } else if (pointer) {
            at += pointer - 1;
        } else if (strchr("<([", *at)) {
            depth++;
        } else if (strchr(">)]", *at)) {
            depth -= depth > 0;
        } else if (!depth && *at == ' ') {
            if (before == ')' && !strncmp(at, within, strlen(within)))
                at += strlen(within) - strlen("::") - 1;
            else if (before == ')' && name.size && !is_text(&name, "decltype"))
                break; /* the parameters have ended */
            else if (at[1] != '<')
                name.size = 0; /* drops the return type */
        } else if (!depth) {
            mp_buffer_append(&name, at, 1);
        }
    }
    bool found = name.size && *function != '<' && strchr(function, '(');
    if (found)
        mp_buffer_append(out, name.data, name.size);
    else
        mp_buffer_append_text(out, function);
    mp_buffer_free(&name);
}

/* True if the line is a function that calls main(). */
static bool line_is_start(const struct mp_stack_line *line)
{
    return line->language == MP_NATIVE && line->function &&
           (!strcmp(line->function, "_start") || !strncmp(line->function, "__libc_start", strlen("__libc_start")));
}

/* True if a native frame shows what was done, and not how memory is made or calls are passed on. */
static bool line_is_meaningful(const struct mp_stack_line *line)
{
    if (!line->function || mp_stack_is_allocator(line) || line_is_start(line)) return false;
    struct mp_buffer name = {0}; /* the name is compared without its parameters, which may contain any name */
    function_name(&name, line->function);
    bool plumbing = mp_torch_is_plumbing(mp_buffer_text(&name), name.size);
    mp_buffer_free(&name);
    return !plumbing;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_line(const struct mp_stack_line *a, const struct mp_stack_line *b)
{
    return a->address == b->address && a->line == b->line && same_text(a->function, b->function) &&
           same_text(a->file, b->file);
}

/* True if a Python line does more than pass on a module's call. */
static bool is_specific(const struct mp_stack_line *line)
{
    return line->function && line->file && mp_torch_file(line->file) != MP_TORCH_FILE_CALLS;
}

/* The outermost call that only this stack has: a meaningful one, else one with a name, else the interpreter's. */
static const struct mp_stack_line *own_line(const struct mp_stack_lines *lines, const struct mp_stack_lines *others)
{
    const struct mp_stack_line *named = NULL, *own = NULL;
    const char *interpreter = mp_stack_interpreter(lines);
    size_t left = lines->count, other = others->count;
    while (left && other && same_line(&lines->at[left - 1], &others->at[other - 1]))
        left--, other--;
    while (left--) {
        const struct mp_stack_line *line = &lines->at[left];
        if (line->language == MP_BACKWARD) continue; /* a border between passes, not a call */
        if (line->language == MP_NATIVE && interpreter && same_text(line->module, interpreter)) {
            if (!own && line->function) own = line;
            continue;
        }
        if (line->language == MP_PYTHON ? is_specific(line) : line_is_meaningful(line)) return line;
        if (!named && line->function) named = line;
    }
    return named ? named : own;
}

void mp_difference_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack, uint32_t twin)
{
    struct mp_stack_lines lines = {0}, others = {0};
    mp_stack_resolve(model, stack, &lines);
    mp_stack_resolve(model, twin, &others);
    const struct mp_stack_line *line = own_line(&lines, &others);
    if (line && line->language == MP_PYTHON)
        mp_line_text(out, line);
    else if (line)
        function_name(out, line->function);
    mp_stack_lines_free(&lines);
    mp_stack_lines_free(&others);
}

struct table {
    const struct mp_model *model;
    const struct mp_sites *sites;
    size_t rows;
    unsigned by;
};

static void put_row(struct mp_buffer *out, const struct table *table, const struct mp_site *site)
{
    struct mp_stack_lines lines = {0};
    if (!(table->by & MP_APART_HEADLINES)) {
        mp_site_text(out, table->model, site);
        return;
    }
    mp_stack_resolve(table->model, site->stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line) mp_headline_text(out, line);
    mp_stack_lines_free(&lines);
}

static void put_text(struct mp_buffer *out, const struct table *table, const struct mp_site *site, uint32_t twin)
{
    put_row(out, table, site);
    mp_buffer_append_text(out, "\n");
    if (twin != MP_NONE) mp_difference_text(out, table->model, site->stack, twin);
}

/* Pairs rows with equal texts: each becomes the other's twin. A row's text includes the difference from its twin in
 * `known` (NULL: none). A row with a unique text keeps its known twin. `twins` has room for all rows. */
static void find_twins(const struct table *table, const uint32_t *known, uint32_t *twins)
{
    struct mp_intern texts = {0};
    struct mp_buffer text = {0};
    uint32_t *first = mp_alloc_zeroed(table->rows + 2, sizeof *first); /* by number of a text: its first row, + 1 */
    for (uint32_t i = 0; i < table->rows; i++) {
        mp_buffer_clear(&text);
        put_text(&text, table, &table->sites->at[i], known ? known[i] : MP_NONE);
        uint32_t id = mp_intern_add(&texts, (const char *)text.data, text.size);
        uint32_t before = first[id];
        if (before)
            twins[i] = table->sites->at[before - 1].stack;
        else
            twins[i] = known ? known[i] : MP_NONE, first[id] = i + 1;
        if (before && twins[before - 1] == (known ? known[before - 1] : MP_NONE))
            twins[before - 1] = table->sites->at[i].stack;
    }
    free(first);
    mp_intern_free(&texts);
    mp_buffer_free(&text);
}

/* If two of three equal rows differ from the third in the same call, their texts are still equal. A second round
 * compares these two with each other. */
static void choose_twins(const struct table *table, struct mp_site_apart *apart)
{
    uint32_t *alike = mp_alloc((table->rows + 1) * sizeof *alike), *twins = mp_alloc((table->rows + 1) * sizeof *twins);
    find_twins(table, NULL, alike);
    find_twins(table, alike, twins);
    for (size_t i = 0; i < table->rows; i++) {
        struct mp_buffer difference = {0};
        if (twins[i] != alike[i]) mp_difference_text(&difference, table->model, table->sites->at[i].stack, twins[i]);
        apart[i] = (struct mp_site_apart){.twin = difference.size ? twins[i] : alike[i]};
        mp_buffer_free(&difference);
    }
    free(alike);
    free(twins);
}

/* ---- equal rows that no name distinguishes ---------------------------------------------------------------------- */

/* A row whose text is not unique. */
struct like {
    uint32_t text, row, first_block;
    uint16_t track;
};

MP_ORDER(by_text, struct like, MP_RISING(text) ?: MP_RISING(track) ?: MP_RISING(first_block) ?: MP_RISING(row))

/* Finds the first block of each row's stack. Blocks are in order of allocation. */
static void find_first_blocks(const struct table *table, struct like *likes, size_t count)
{
    const struct mp_model_blocks *blocks = &table->model->blocks;
    size_t stacks = table->model->stacks.count;
    uint32_t *first = mp_alloc_zeroed(stacks + 1, sizeof *first); /* by stack: its first block, + 1 */
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->stack[i] < stacks && !first[blocks->stack[i]]) first[blocks->stack[i]] = (uint32_t)i + 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t stack = table->sites->at[likes[i].row].stack;
        likes[i].first_block = stack < stacks && first[stack] ? first[stack] : MP_NONE;
    }
    free(first);
}

static void number_likes(const struct table *table, struct like *likes, size_t count, struct mp_site_apart *apart)
{
    find_first_blocks(table, likes, count);
    qsort(likes, count, sizeof *likes, by_text);
    for (size_t from = 0, end; from < count; from = end) {
        bool tracks = false;
        for (end = from; end < count && likes[end].text == likes[from].text; end++)
            tracks |= likes[end].track != likes[from].track;
        for (size_t i = from, next; i < end; i = next) {
            for (next = i; next < end && likes[next].track == likes[i].track; next++)
                apart[likes[next].row].track = tracks && !(table->by & MP_APART_TRACKS_SHOWN);
            for (size_t k = i; next - i > 1 && k < next; k++) {
                apart[likes[k].row].call = (uint32_t)(k - i) + 1;
                apart[likes[k].row].calls = (uint32_t)(next - i);
            }
        }
    }
}

static void tell_apart(const struct table *table, struct mp_site_apart *apart)
{
    struct mp_intern texts = {0};
    struct mp_buffer text = {0};
    uint32_t *times = mp_alloc_zeroed(table->rows + 2, sizeof *times); /* rows by number of a text */
    struct like *likes = mp_alloc((table->rows + 1) * sizeof *likes);
    size_t count = 0;
    for (uint32_t i = 0; i < table->rows; i++) {
        const struct mp_site *site = &table->sites->at[i];
        mp_buffer_clear(&text);
        put_text(&text, table, site, apart[i].twin);
        mp_buffer_append_text(&text, "\n");
        if (!(table->by & MP_APART_HEADLINES)) mp_site_modules_text(&text, table->sites, site);
        likes[i] = (struct like){
            .text = mp_intern_add(&texts, (const char *)text.data, text.size), .row = i, .track = site->track};
        times[likes[i].text]++;
    }
    for (size_t i = 0; i < table->rows; i++)
        if (times[likes[i].text] > 1) likes[count++] = likes[i];
    if (count) number_likes(table, likes, count, apart);
    free(times);
    free(likes);
    mp_intern_free(&texts);
    mp_buffer_free(&text);
}

struct mp_site_apart *mp_site_apart(const struct mp_model *model, const struct mp_sites *sites, size_t rows,
                                    unsigned by)
{
    const struct table table = {.model = model, .sites = sites, .rows = rows, .by = by};
    struct mp_site_apart *apart = mp_alloc((rows + 1) * sizeof *apart);
    choose_twins(&table, apart);
    tell_apart(&table, apart);
    return apart;
}

struct mp_site_apart *mp_stacks_apart(const struct mp_model *model, const uint32_t *stacks, const uint16_t *tracks,
                                      size_t rows, unsigned by)
{
    struct mp_sites sites = {.at = mp_alloc_zeroed(rows + 1, sizeof *sites.at)};
    for (size_t i = 0; i < rows; i++) {
        sites.at[i].stack = stacks[i];
        sites.at[i].track = tracks ? tracks[i] : 0;
    }
    struct mp_site_apart *apart = mp_site_apart(model, &sites, rows, by);
    free(sites.at);
    return apart;
}

static const char *ordinal_end(uint32_t number)
{
    if (number / 10 % 10 == 1) return "th";
    return number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
}

void mp_site_apart_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site,
                        const struct mp_site_apart *apart)
{
    char id[MP_TRACK_ID_MAX];
    if (apart->track) {
        mp_buffer_append_text(out, ", on ");
        mp_text_clean(out, mp_track_id(model, site->track, id));
    }
    if (apart->calls)
        mp_buffer_printf(out, ", %u%s of %u such calls", apart->call, ordinal_end(apart->call), apart->calls);
}

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
}

static void function_text(struct mp_buffer *out, const struct mp_stack_line *line)
{
    if (line->cut)
        mp_buffer_append_text(out, "… frames left out");
    else if (line->function && line->language == MP_NATIVE)
        function_name(out, line->function);
    else
        mp_buffer_append_text(out, line->function ? line->function : "?");
}

void mp_line_text(struct mp_buffer *out, const struct mp_stack_line *line)
{
    struct mp_buffer place = {0};
    place_text(&place, line);
    mp_text_clean(out, mp_buffer_text(&place));
    if (line->function) {
        struct mp_buffer name = {0};
        if (place.size) mp_buffer_append_text(out, " ");
        function_text(&name, line);
        mp_text_clean(out, mp_buffer_text(&name));
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
    return site->of_base_alone ? "(no stack: live before the recording began)" : "(no stack)";
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
    mp_table_cell(table, style, "%s%s", prefix, mp_buffer_text(&name));
    mp_buffer_free(&name);
    mp_table_cell(table, style, "%s", mp_buffer_text(&place));
    mp_buffer_free(&place);
}

/* Lines of the short form: the user's own lines, else Python's, else native ones beyond the allocator's. */
enum shown { SHOW_USER, SHOW_PYTHON, SHOW_NATIVE };

static bool is_shown(const struct mp_stack_line *line, enum shown shown)
{
    if (line->cut || line->skipped) return false;
    if (shown == SHOW_USER) return line->user;
    if (shown == SHOW_PYTHON) return line->language == MP_PYTHON;
    return !line_is_start(line) && !mp_stack_is_allocator(line);
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
        line->language == MP_PYTHON ? line->function && line->file && !line->skipped : line_is_meaningful(line);
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
        function_name(out, line->function);
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
        mp_text_clean(&clean, mp_buffer_text(&out));
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
    if (!lines.count) {
        mp_table_wide(table, MP_DIM, "%s%s", no_stack_text(site), mp_buffer_text(&last));
        mp_table_end_row(table);
    } else {
        if (apart && apart->twin != MP_NONE && !full) mp_difference_text(&difference, model, site->stack, apart->twin);
        if (full)
            full_rows(table, columns, model, &lines, sites, site, mp_buffer_text(&last));
        else
            short_rows(table, columns, &lines, sites, site, mp_buffer_text(&difference), mp_buffer_text(&last));
    }
    mp_buffer_free(&last);
    mp_buffer_free(&difference);
    mp_stack_lines_free(&lines);
}

const char *mp_group_key(const struct mp_intern *groups, uint32_t group)
{
    return group == MP_NONE ? NULL : mp_intern_get(groups, group, NULL);
}

#define HANDLE_LEAST 4096 /* a stream below this is a number of PyTorch's or of the driver's, not a handle */

void mp_group_text(struct mp_buffer *out, const struct mp_intern *groups, uint32_t group, enum mp_group_by by)
{
    char number[MP_UNIT_TEXT], count[MP_UNIT_TEXT];
    const char *name = group == MP_NONE ? "(unknown)" : mp_intern_get(groups, group, NULL);
    if (by == MP_GROUP_SIZE && group != MP_NONE) {
        uint64_t bytes = strtoull(name, NULL, 10);
        mp_buffer_printf(out, "%s (%s)", mp_format_bytes(number, bytes), mp_format_count(count, bytes));
    } else if (by == MP_GROUP_STREAM && group != MP_NONE && strtoull(name, NULL, 10) >= HANDLE_LEAST) {
        mp_buffer_printf(out, "%#llx", strtoull(name, NULL, 10));
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
    mp_site_text(text->out, model, &(const struct mp_site){.stack = stack});
    mp_say(text, "\n");
}
