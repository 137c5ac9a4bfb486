#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "leakbench/world.h"
#include "output/form/text.h"
#include "output/report/advise.h"
#include "output/report/columns.h"
#include "output/report/sites.h"
#include "unit/suite.h"

#define EXPECT(buffer, text)                                                                                           \
    do {                                                                                                               \
        mp_buffer_append(&(buffer), "", 1);                                                                            \
        ck_assert_str_eq((const char *)(buffer).data, text);                                                           \
        mp_buffer_free(&(buffer));                                                                                     \
        (buffer) = (struct mp_buffer){0};                                                                              \
    } while (0)

START_TEST(json_is_nested_and_exact)
{
    struct mp_buffer out = {0};
    struct mp_json json;
    mp_json_start(&json, &out);
    mp_json_object(&json, NULL);
    mp_json_number(&json, "max", UINT64_MAX - 1);
    mp_json_known(&json, "unknown", UINT64_MAX);
    mp_json_signed(&json, "min", INT64_MIN);
    mp_json_array(&json, "empty");
    mp_json_end_array(&json);
    mp_json_array(&json, "list");
    mp_json_text(&json, NULL, "a");
    mp_json_text(&json, NULL, NULL);
    mp_json_bool(&json, NULL, false);
    mp_json_object(&json, NULL);
    json.flat = true;
    mp_json_number(&json, "x", 1);
    mp_json_share(&json, "y", 1, 3);
    mp_json_end_object(&json);
    json.flat = false;
    mp_json_end_array(&json);
    mp_json_share(&json, "none", 1, 0);
    mp_json_end_object(&json);
    EXPECT(out, "{\n"
                "  \"max\": 18446744073709551614,\n"
                "  \"unknown\": null,\n"
                "  \"min\": -9223372036854775808,\n"
                "  \"empty\": [],\n"
                "  \"list\": [\n"
                "    \"a\",\n"
                "    null,\n"
                "    false,\n"
                "    {\"x\": 1, \"y\": 0.333333}\n"
                "  ],\n"
                "  \"none\": null\n"
                "}\n");
}

static void check_quoted(const char *text, size_t length, const char *want)
{
    struct mp_buffer out = {0};
    mp_json_quote(&out, text, length);
    EXPECT(out, want);
}

START_TEST(json_strings_are_always_utf8)
{
    check_quoted("a\"b\\c\n\t\001\x7f", 9, "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\"");
    check_quoted("a\0b", 3, "\"a\\u0000b\"");
    check_quoted("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    check_quoted("\xe9", 1, "\"\xef\xbf\xbd\"");                                                 /* Latin-1 */
    check_quoted("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");                                 /* over-long */
    check_quoted("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");                 /* surrogate */
    check_quoted("\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* above U+10FFFF */
    check_quoted("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");                                 /* cut off */
}

static size_t put_utf8(uint32_t point, char *at)
{
    if (point < 0x80) return (size_t)sprintf(at, "%c", (char)point);
    if (point < 0x800) return (size_t)sprintf(at, "%c%c", (char)(0xc0 | point >> 6), (char)(0x80 | (point & 63)));
    if (point < 0x10000)
        return (size_t)sprintf(at, "%c%c%c", (char)(0xe0 | point >> 12), (char)(0x80 | (point >> 6 & 63)),
                               (char)(0x80 | (point & 63)));
    return (size_t)sprintf(at, "%c%c%c%c", (char)(0xf0 | point >> 18), (char)(0x80 | (point >> 12 & 63)),
                           (char)(0x80 | (point >> 6 & 63)), (char)(0x80 | (point & 63)));
}

/* Every character is written as itself, or as its number in JSON's form; control characters must be numbers. */
START_TEST(json_names_each_character)
{
    static const struct {
        uint32_t first, last;
    } reported[] = {{0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x200b, 0x200f},   {0x2028, 0x202e},
                    {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0001, 0xe0001}, {0xe0020, 0xe007f}};
    struct mp_buffer out = {0};
    for (uint32_t point = 0x7f; point <= 0x10ffff; point++) {
        char text[8], plain[16], by_number[16];
        if (point >= 0xd800 && point <= 0xdfff) continue;
        size_t length = put_utf8(point, text);
        snprintf(plain, sizeof plain, "\"%s\"", text);
        if (point < 0x10000)
            snprintf(by_number, sizeof by_number, "\"\\u%04x\"", (unsigned)point);
        else
            snprintf(by_number, sizeof by_number, "\"\\u%04x\\u%04x\"", 0xd800 | (unsigned)(point - 0x10000) >> 10,
                     0xdc00 | ((unsigned)point & 0x3ff));
        bool must = false;
        for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
            must |= point >= reported[i].first && point <= reported[i].last;
        out.size = 0;
        mp_json_quote(&out, text, length);
        mp_buffer_append(&out, "", 1);
        const char *said = (const char *)out.data;
        if (strcmp(said, by_number) != 0 && (must || strcmp(said, plain) != 0))
            ck_abort_msg("U+%04X is %s", (unsigned)point, said);
    }
    mp_buffer_free(&out);
    check_quoted("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xaf", 9, "\"\xe2\x80\xa7\\u2028\xe2\x80\xaf\"");
}

START_TEST(tables_align_by_characters)
{
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    struct mp_table table;
    mp_table_start(&table, "rll");
    mp_table_cell(&table, MP_DIM, "n");
    mp_table_cell(&table, MP_DIM, "name");
    mp_table_wide(&table, MP_DIM, "rest");
    mp_table_end_row(&table);
    mp_table_cell(&table, MP_PLAIN, "%d", 100);
    mp_table_cell(&table, MP_PLAIN, "caf\xc3\xa9\xe2\x82\xac");
    mp_table_wide(&table, MP_PLAIN, "%s", "a long text that claims no width");
    mp_table_end_row(&table);
    mp_table_cell(&table, MP_PLAIN, "7");
    mp_table_cell(&table, MP_PLAIN, "%s", "");
    mp_table_cell(&table, MP_PLAIN, "x");
    mp_table_end_row(&table);
    mp_table_finish(&table, &text);
    EXPECT(out, "    n  name   rest\n"
                "  100  caf\xc3\xa9\xe2\x82\xac  a long text that claims no width\n"
                "    7         x\n");
}

START_TEST(styles_only_where_asked_for)
{
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    mp_text_put(&text, MP_BOLD, "%d", 1);
    EXPECT(out, "1");
    text.color = true;
    mp_text_put(&text, MP_BOLD, "%d", 1);
    mp_text_put(&text, MP_PLAIN, "2");
    EXPECT(out, "\033[1m1\033[0m2");
}

START_TEST(names_cannot_command_a_terminal)
{
    struct mp_buffer out = {0};
    mp_text_clean(&out, "a\033[31m\r\n\tb\x7f\xc2\x9b\xff");
    EXPECT(out, "a?[31m???b??\xef\xbf\xbd");
}

struct named {
    const char *name;
    int64_t change;
};

static const struct mp_column named_columns[] = {
    {"a name", NULL, MP_NAME, MP_MEMBER(struct named, name)},
    {"change", "delta_bytes", MP_CHANGE, MP_MEMBER(struct named, change)},
    {NULL},
};

/* RFC 4180, and no cell that a spreadsheet would run; numbers stay numbers. The first of two tables is written. */
START_TEST(csv_is_quoted_and_runs_nothing)
{
    static const struct named rows[] = {
        {"a,b", 1}, {"say \"x\"", -2}, {"=1+1", 0}, {"-1, \"y\"", INT64_MIN}, {NULL, 7}};
    struct mp_buffer out = {0};
    struct mp_document document;
    mp_document_start(&document, &out, MP_CSV, "title");
    mp_say(&document.text, "a sentence\n");
    mp_rows_text(&document.text, &MP_ROWS(named_columns, rows, 5));
    mp_heading(&document.text, "more");
    mp_rows_text(&document.text, &MP_ROWS(named_columns, rows, 1));
    mp_document_end(&document);
    EXPECT(out, "a name,delta_bytes\r\n"
                "\"a,b\",1\r\n"
                "\"say \"\"x\"\"\",-2\r\n"
                "'=1+1,0\r\n"
                "\"'-1, \"\"y\"\"\",-9223372036854775808\r\n"
                ",7\r\n");
}

START_TEST(sentences_clean_what_they_quote)
{
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    mp_say(&text, "`%s` ^%.*s^ %u %llu %zu %.1f %% %s\n", "a\033[31m`b`\n", 2, "xyz", 1u, 2ull, (size_t)3, 0.25,
           mp_counted(2, "process"));
    EXPECT(out, "a?[31m`b`? xy 1 2 3 0.2 % 2 processes\n");
    text.color = true;
    mp_say(&text, "`%s`^%s^", "a", "b");
    EXPECT(out, "\033[1ma\033[0m\033[2mb\033[0m");
}

static void expect_difference(const struct world *world, const struct mp_model *model, uint32_t stack, uint32_t twin,
                              const char *want)
{
    struct mp_buffer out = {0};
    mp_difference_text(&out, model, world->stacks.at[stack].node, world->stacks.at[twin].node);
    EXPECT(out, want);
}

/* Two stacks to the same line are distinguished by the outermost call that only one of them has, and that is not just a
 * module's __call__. */
START_TEST(stacks_alike_differ_in_a_call_of_their_own)
{
#define OF_MODULE "torch/nn/modules/module.py:_call_impl:9"
    struct world world;
    world_start(&world, 1, 1);
    uint32_t one = world_path(&world, "t.py:main:1 " OF_MODULE " m.py:first:2 m.py:attend:3", W_TORCH);
    uint32_t other = world_path(&world, "t.py:main:1 " OF_MODULE " m.py:second:4 m.py:attend:3", W_TORCH);
    uint32_t alone = world_path(&world, "t.py:main:1 " OF_MODULE, W_TORCH);
    uint32_t shorter = world_path(&world, "t.py:main:1", W_TORCH);
    uint32_t nowhere = world_path(&world, "t.py:main:1 x.py:of_no_file:1 m.py:first:2", W_TORCH);
    uint32_t node = world.stacks.at[nowhere].node;
    world.frames.at[world.nodes.at[world.nodes.at[node].parent].frame].file = 0;
    world_alloc(&world, one, 1);
    struct mp_model *model = world_build(&world);
    expect_difference(&world, model, one, other, "m.py:2 first");
    expect_difference(&world, model, other, one, "m.py:4 second");
    expect_difference(&world, model, alone, shorter, "module.py:9 _call_impl");
    expect_difference(&world, model, shorter, alone, "");
    expect_difference(&world, model, nowhere, shorter, "m.py:2 first");
    mp_model_free(model);
    world_free(&world);
}

/* Makes the frame of a stack's `depth`-th node, counted from the inside, a native one of the model's only module. */
static void make_native(const struct world *world, struct mp_model *model, uint32_t stack, unsigned depth)
{
    uint32_t node = world->stacks.at[stack].node;
    while (depth--)
        node = world->nodes.at[node].parent;
    struct mp_frame *raw = &model->frames.at[world->nodes.at[node].frame].raw;
    raw->language = MP_NATIVE;
    raw->module = (uint32_t)model->modules.count - 1;
}

/* One line calls a module and an operator: the interpreter has another way to each, which says nothing. */
START_TEST(ways_of_the_interpreter_distinguish_nothing)
{
    struct world world;
    world_start(&world, 1, 1);
    uint32_t one = world_path(&world, "t.py:main:1 c:eval:1 t.py:f:2 c:slot_tp_call:3 a:linear:4", W_TORCH);
    uint32_t other = world_path(&world, "t.py:main:1 c:eval:1 t.py:f:2 c:cfunction_call:5 a:gelu:6", W_TORCH);
    uint32_t bare = world_path(&world, "t.py:main:1 c:eval:1 t.py:f:2 c:vectorcall:7", W_TORCH);
    world_alloc(&world, one, 1);
    struct mp_model *model = world_build(&world);
    const struct mp_module modules[] = {{0}, {.path = 1}};
    for (size_t i = model->modules.count; i < 2; i++)
        mp_vec_add(&model->modules, modules[i]);
    for (unsigned depth = 1; depth <= 3; depth += 2) {
        make_native(&world, model, one, depth);
        make_native(&world, model, other, depth);
        make_native(&world, model, bare, depth - 1);
    }
    expect_difference(&world, model, one, other, "a:4 linear");
    expect_difference(&world, model, other, one, "a:6 gelu");
    expect_difference(&world, model, bare, one, "vectorcall");
    mp_model_free(model);
    world_free(&world);
}

static void expect_rows(const struct mp_model *model, const struct mp_sites *sites, unsigned by,
                        const char *const *want)
{
    struct mp_site_apart *apart = mp_site_apart(model, sites, sites->count, by);
    for (size_t i = 0; i < sites->count; i++) {
        struct mp_buffer out = {0};
        mp_site_named_text(&out, model, &sites->at[i], &apart[i]);
        EXPECT(out, want[i]);
    }
    free(apart);
}

/* The second is called before the first; the third has a call with another name, the fourth is elsewhere. */
START_TEST(rows_that_no_name_tells_apart_are_counted)
{
    struct world world;
    world_start(&world, 1, 1);
    uint32_t main_line = world_path(&world, "t.py:main:7 m.py:other:1", W_TORCH);
    uint32_t second = world_variant(&world, main_line, "reshape"), first = world_variant(&world, main_line, "reshape");
    uint32_t named = world_variant(&world, main_line, "matmul");
    uint32_t elsewhere = world_path(&world, "t.py:main:8", W_TORCH);
    const uint32_t shown[] = {second, first, named, elsewhere};
    struct mp_site at[4] = {{0}};
    for (size_t i = 0; i < 4; i++)
        at[i].stack = world.stacks.at[shown[i]].node;
    world_alloc(&world, first, 1);
    world_alloc(&world, second, 1);
    world_alloc(&world, second, 1);
    struct mp_model *model = world_build(&world);
    struct mp_sites sites = {.at = at, .count = 4};
    expect_rows(model, &sites, MP_APART_SITES,
                (const char *const[]){"t.py:7 main, in reshape, 2nd of 2 such calls",
                                      "t.py:7 main, in reshape, 1st of 2 such calls", "t.py:7 main, in matmul",
                                      "t.py:8 main"});
    sites.count = 1;
    expect_rows(model, &sites, MP_APART_SITES, (const char *const[]){"t.py:7 main"});
    mp_model_free(model);
    world_free(&world);
}

/* One stack on two tracks. */
START_TEST(rows_of_two_tracks_name_them_unless_the_table_does)
{
    struct world world;
    world_start(&world, 1, 1);
    uint32_t line = world_path(&world, "t.py:main:7", W_TORCH);
    world_alloc(&world, line, 1);
    world_alloc(&world, world_site(&world, "other", false, W_DRIVER, MP_KIND_DEVICE), 1);
    struct mp_site at[2] = {{.stack = world.stacks.at[line].node}, {.stack = world.stacks.at[line].node, .track = 1}};
    struct mp_model *model = world_build(&world);
    const struct mp_sites sites = {.at = at, .count = 2};
    char ids[2][MP_TRACK_ID_MAX], rows[2][MP_TRACK_ID_MAX + 32];
    ck_assert_uint_ge(model->tracks.count, 2);
    for (uint16_t i = 0; i < 2; i++)
        snprintf(rows[i], sizeof rows[i], "t.py:7 main, on %s", mp_track_id(model, i, ids[i]));
    ck_assert_str_ne(rows[0], rows[1]);
    expect_rows(model, &sites, MP_APART_SITES, (const char *const[]){rows[0], rows[1]});
    expect_rows(model, &sites, MP_APART_TRACKS_SHOWN, (const char *const[]){"t.py:7 main", "t.py:7 main"});
    mp_model_free(model);
    world_free(&world);
}

START_TEST(as_many_as_there_are_are_counted_in_english)
{
    static const uint32_t numbers[] = {1, 2, 3, 4, 11, 12, 13, 21, 22, 111, 1003};
    static const char *const words[] = {"1st",  "2nd",  "3rd",  "4th",   "11th",  "12th",
                                        "13th", "21st", "22nd", "111th", "1003rd"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct mp_buffer out = {0};
        char want[64];
        mp_site_apart_text(&out, NULL, NULL, &(const struct mp_site_apart){.call = numbers[i], .calls = 2000});
        snprintf(want, sizeof want, ", %s of 2000 such calls", words[i]);
        EXPECT(out, want);
    }
}

static void expect_line(struct mp_stack_line line, const char *want)
{
    struct mp_buffer out = {0};
    mp_line_text(&out, &line);
    mp_buffer_append(&out, "", 1);
    ck_assert_str_eq((const char *)out.data, want);
    mp_buffer_free(&out);
}

/* The names are those of the functions' declarations; in front of each, its demangled symbol. */
START_TEST(functions_are_named_without_their_types)
{
    static const char *const names[][2] = {
        {"malloc", "malloc"},
        {"main", "main"},
        {"at::native::fill(at::Tensor const&, int)", "at::native::fill"},
        {"at::Tensor at::native::(anonymous namespace)::fill<float, 3>(at::Tensor const&)",
         "at::native::(anonymous namespace)::fill"},
        {"std::tuple<at::Tensor, at::Tensor> at::_ops::svd::call(at::Tensor const&, bool)", "at::_ops::svd::call"},
        {"thrust::cuda_cub::tag::operator()(int) const", "thrust::cuda_cub::tag::operator()"},
        {"Pool::Pool(std::vector<int, std::allocator<int> > const&)::{lambda(int)#1}::operator()(int) const",
         "Pool::Pool::{lambda#1}::operator()"},
        {"std::ostream& operator<< <char>(std::ostream&, char)", "operator<<"},
        {"Grid::operator->() const", "Grid::operator->"},
        {"operator new(unsigned long)", "operator new"},
        {"Grid::operator bool() const", "Grid::operator bool"},
        {"void step<Model<float> >(Model<float>&) [clone .constprop.0]", "step"},
        {"std::vector<float, rmm::mr::adaptor<float> >::resize(unsigned long)", "std::vector::resize"},
        {"non-virtual thunk to Base::run()", "Base::run"},
        {"autograd::engine::evaluate_function: AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward0"},
        {"<alloc::vec::Vec<T> as Clone>::clone()", "<alloc::vec::Vec<T> as Clone>::clone()"},
        {"operators::apply(int)", "operators::apply"},
        {"decltype ({parm#1}((float)())) Image<float, 3ul>::map<main::{lambda(float)#1}>(main::{lambda(float)#1})",
         "Image::map"},
        {"decltype(auto) widest<long>(std::vector<long>&)", "widest"},
        {"unsigned long long operator\"\" _mb<'1'>()", "operator\"\" _mb"},
        {"units::operator\"\"_kb(unsigned long long)", "units::operator\"\"_kb"},
        {"double (*scene::pick<double>(double))(double)", "scene::pick"},
        {"int (Shape::*method<int>(int))(int) const", "method"},
        {"Leaf::twice() const::{lambda()#1}::operator()() const::{lambda(int)#2}::operator()(int) const",
         "Leaf::twice::{lambda#1}::operator()::{lambda#2}::operator()"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_line((struct mp_stack_line){.function = names[i][0], .language = MP_NATIVE}, names[i][1]);
    expect_line(
        (struct mp_stack_line){.function = "<listcomp>", .file = "/x/train.py", .line = 3, .language = MP_PYTHON},
        "train.py:3 <listcomp>");
}

START_TEST(cells_of_notebooks_are_named)
{
    expect_line(
        (struct mp_stack_line){
            .function = "<module>", .file = "<ipython-input-12-5ab7c1>", .line = 4, .language = MP_PYTHON},
        "Cell In[12], line 4 <module>");
    expect_line(
        (struct mp_stack_line){
            .function = "train", .file = "/tmp/ipykernel_123/456.py", .line = 9, .language = MP_PYTHON},
        "cell 456, line 9 train");
    expect_line(
        (struct mp_stack_line){
            .function = "train", .file = "/home/me/ipykernel_notes.py", .line = 9, .language = MP_PYTHON},
        "ipykernel_notes.py:9 train");
}

#define MIB (UINT64_C(1) << 20)

/* Each line has the amount that orders it. Checkpointing is ordered by allocated memory. */
START_TEST(a_change_is_shown_by_what_it_is_ranked_by)
{
    char setting[] = "expandable_segments:True", module[] = "layers.*";
    struct mp_change changes[] = {
        {.kind = MP_CHANGE_LIFETIME,
         .pattern = MP_CHANGE_FUSED,
         .exact = true,
         .saved = 158 * MIB,
         .saved_reserved = 600 * MIB},
        {.kind = MP_CHANGE_ALLOCATOR,
         .pattern = MP_CHANGE_SETTINGS,
         .exact = true,
         .saved = 20 * MIB,
         .saved_reserved = 550 * MIB,
         .setting = setting},
        {.kind = MP_CHANGE_CHECKPOINT,
         .pattern = MP_CHANGE_CHECKPOINTING,
         .exact = true,
         .saved = 100 * MIB,
         .saved_reserved = 700 * MIB,
         .module = module,
         .modules = 2,
         .modules_of = 2},
    };
    const struct mp_model model = {0};
    struct mp_advise advise = {.changes = {.at = changes, .count = 3, .room = 3}};
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    mp_advise_best_text(&text, &model, &advise, 3, 1);
    EXPECT(out, "  1. use a fused optimizer: its step needs no temporaries      saves 600 MiB of reserved memory\n"
                "  2. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True      saves 550 MiB of reserved memory\n"
                "  3. checkpoint layers.*: recompute their activations in backward      saves 100 MiB\n");
}

MP_SUITE("output", a_change_is_shown_by_what_it_is_ranked_by, functions_are_named_without_their_types,
         cells_of_notebooks_are_named, stacks_alike_differ_in_a_call_of_their_own,
         ways_of_the_interpreter_distinguish_nothing, rows_that_no_name_tells_apart_are_counted,
         rows_of_two_tracks_name_them_unless_the_table_does, as_many_as_there_are_are_counted_in_english,
         csv_is_quoted_and_runs_nothing, sentences_clean_what_they_quote, json_is_nested_and_exact,
         json_strings_are_always_utf8, json_names_each_character, tables_align_by_characters,
         styles_only_where_asked_for, names_cannot_command_a_terminal)
