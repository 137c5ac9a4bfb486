/*
 * An anonymised recording has no text of the user's. A secret is planted in every string that the format's description
 * lists, in many forms that look public. None may be in the copy.
 */
#include "exchange/common/anonymize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "exchange/common/public_names.h"
#include "exchange/common/save.h"
#include "format/events.h"
#include "format/reader.h"
#include "format/tables.h"
#include "format/writer.h"
#include "model/load.h"
#include "unit/suite.h"

#define SECRET "swordfish"

static const char *const forms[] = {
    SECRET "%u",
    "cu" SECRET "%u",
    "CUSTOMER_" SECRET "%u",
    "Py" SECRET "%u",
    "_Py" SECRET "%u",
    "clone_" SECRET "%u",
    "nccl" SECRET "%u",
    "/usr/lib/python3/" SECRET "%u.py",
    "/usr/lib/python3.11/" SECRET "%u/x.py",
    "/x/site-packages/torch/" SECRET "%u.py",
    "/" SECRET "%u/site-packages/torch/nn/modules/module.py",
    "/x/Python/" SECRET "%u.c",
    "/b/aten/src/ATen/" SECRET "%u.cpp",
    "/usr/include/c++/" SECRET "%u/bits/stl_vector.h",
    "/x/_C." SECRET "%u.so",
    "/x/torch/_C." SECRET "%u.so",
    "/x/libtorch_" SECRET "%u.so",
    "/x/libc.so.6." SECRET "%u",
    "/x/python_" SECRET "%u",
    "<attrs generated init " SECRET "%u>",
    "<frozen " SECRET "%u>",
    "<string>" SECRET "%u",
    "<eval_with_key>." SECRET "%u",
    "<ipython-input-1-" SECRET "%u>",
    "<" SECRET "%u>",
    "ProfilerStep#" SECRET "%u",
    "ProfilerStep#7 " SECRET "%u",
    "step " SECRET "%u",
    "torch.optim." SECRET "%u",
    "at::" SECRET "%u",
    "at::native::" SECRET "%u(at::Tensor)",
    "std::vector<" SECRET "%u>::push_back(int)",
    "std::vector<int, std::allocator<" SECRET "%u::x> >::size()",
    "void at::native::f<" SECRET "%u>(at::Tensor)",
    "std::function<void (" SECRET "%u)>",
    SECRET "%u::clone()",
    "forward." SECRET "%u",
    "Module.<locals>." SECRET "%u",
    "weight." SECRET "%u",
    "cuda:0/" SECRET "%u",
    SECRET "%u/process",
    "cuda:" SECRET "%u",
    "NVIDIA " SECRET "%u",
    "pt_" SECRET "%u",
    "exit 0 " SECRET "%u",
    "the recording of " SECRET "%u was cut",
    "backward of " SECRET "%u",
};
#define FORMS (sizeof forms / sizeof *forms)

/* The string fields of tables. A new field makes this test fail until anonymize handles it. */
static const char *const known_fields[] = {
    "device.name",
    "device.uuid",
    "device.model",
    "track.name",
    "thread.name",
    "module.path",
    "frame.function",
    "frame.file",
    "symbol.function",
    "symbol.file",
    "base block.module",
    "base block.label",
    "sample.counter",
    "label.name",
    "holder.path",
    "holder.file",
    "metadata of a block.text",
    "use of a block.operator",
    "use of a block.node",
    "use of a block.shape",
    "use of a block.module",
    "past site.module",
    "exit.text",
    "frame.more",
    "aside.text",
};
#define KNOWN_FIELDS (sizeof known_fields / sizeof *known_fields)

struct planting {
    struct mp_writer *writer;
    struct mp_error error;
    const char *form;
    uint32_t strings;
    bool has_past;
};

static void must(const struct planting *p, enum mp_status status)
{
    ck_assert_msg(!status, "%s", p->error.text);
}

/* A secret between two texts. */
static uint32_t plant_in(struct planting *p, const char *before, const char *after)
{
    char secret[256], text[512];
    snprintf(secret, sizeof secret, p->form, p->strings);
    snprintf(text, sizeof text, "%s%s%s", before, secret, after);
    const struct mp_string string = {text, strlen(text)};
    must(p, mp_writer_strings(p->writer, &string, 1, &p->error));
    return p->strings++;
}

static uint32_t plant(struct planting *p)
{
    return plant_in(p, "", "");
}

/* The node of a graph, whose name, kind or target is the secret. */
static uint32_t plant_node(struct planting *p, uint32_t part)
{
    static const char *const befores[] = {"{\"fx_node_op\":\"call_function\",\"fx_node_name\":\"", "{\"fx_node_op\":\"",
                                          "{\"fx_node_target\":\"", "{\"other\":\"", ""};
    const char *before = befores[part % 5];
    return plant_in(p, before, *before ? "\"}" : "");
}

/* Plants secrets in the strings of a row whose other fields are zero. */
static void plant_row(struct planting *p, enum mp_chunk_kind kind)
{
    const struct mp_table_layout *table = mp_table_of(kind);
    _Alignas(16) unsigned char row[512] = {0};
    ck_assert_uint_le(table->row, sizeof row);
    for (size_t i = 0; i < table->field_count; i++) {
        uint64_t id = table->fields[i].rule == MP_CHUNK_STRINGS ? plant(p) : 0;
        if (id) mp_table_scatter(&table->fields[i], row, table->row, 1, &id);
    }
    must(p, mp_writer_rows(p->writer, kind, row, 1, &p->error));
}

/* Plants two frames of each language, and stacks of them. */
static void plant_frames(struct planting *p)
{
    struct mp_frame frames[6];
    struct mp_stack_node nodes[7] = {{0, 0}};
    for (uint32_t i = 0; i < 6; i++) {
        frames[i] = (struct mp_frame){.language = (uint8_t)(i % MP_LANGUAGES),
                                      .module = 1,
                                      .function = plant(p),
                                      .file = plant(p),
                                      .more = plant_node(p, i)};
        nodes[i + 1] = (struct mp_stack_node){i, i};
    }
    /* A public file with a private function. */
    static const char file[] = "/usr/lib/python3/dist-packages/torch/nn/modules/module.py";
    const struct mp_string string = {file, sizeof file - 1};
    must(p, mp_writer_strings(p->writer, &string, 1, &p->error));
    frames[4].file = p->strings++;
    must(p, mp_writer_frames(p->writer, frames, 6, &p->error));
    must(p, mp_writer_stacks(p->writer, nodes, 7, &p->error));
    const struct mp_symbol symbol = {.frame = 0, .function = plant(p), .file = plant(p)};
    must(p, mp_writer_symbols(p->writer, &symbol, 1, &p->error));
}

static void plant_events(struct planting *p)
{
    struct mp_event events[2 * MP_EVENT_TYPES];
    const uint64_t live[2] = {0};
    size_t count = 0;
    uint64_t block = 1;
    for (unsigned type = MP_EVENT_ALLOC; type < MP_EVENT_TYPES; type++) {
        if (type == MP_EVENT_FREE || type == MP_EVENT_RESIZE) continue;
        bool is_named = mp_event_keeps(type, offsetof(struct mp_event, name));
        bool has_stack = type == MP_EVENT_ALLOC || mp_event_keeps(type, offsetof(struct mp_event, stack));
        events[count++] = (struct mp_event){.type = (uint8_t)type,
                                            .time_ns = 100 + type,
                                            .bytes = 512,
                                            .address = 512 * type,
                                            .block = type == MP_EVENT_ALLOC ? block++ : 0,
                                            .stack = has_stack ? 6 : 0,
                                            .name = is_named ? plant(p) : 0};
    }
    must(p, mp_writer_events(p->writer, events, count, live, 1, NULL, 0, &p->error));
}

static void plant_coverage(struct planting *p)
{
    uint32_t ids[3] = {plant(p), plant(p), plant(p)};
    const struct mp_coverage coverage = {
        .sources = ids, .source_count = 1, .notes = ids + 1, .note_count = 1, .limits = ids + 2, .limit_count = 1};
    must(p, mp_writer_coverage(p->writer, &coverage, &p->error));
    const struct mp_exit how = {.known = true, .time_ns = 1000, .text = plant(p)};
    must(p, mp_writer_exit(p->writer, &how, &p->error));
}

static int make(const char *form, const char *configuration, bool has_past)
{
    static const char *const command[] = {"python3", SECRET ".py", "--" SECRET, NULL};
    const struct mp_recording_start start = {.realtime_ns = 1,
                                             .host = SECRET,
                                             .member = {.role = SECRET, .job = SECRET "-812"},
                                             .command = command,
                                             .configuration = configuration,
                                             .spool = "/" SECRET,
                                             .spool_id = 7};
    struct planting p = {.form = form, .has_past = has_past};
    int fd = memfd_create("planted", MFD_CLOEXEC);
    must(&p, mp_writer_open(dup(fd), &start, &p.writer, &p.error));
    const struct mp_string empty = {"", 0};
    must(&p, mp_writer_strings(p.writer, &empty, 1, &p.error));
    p.strings = 1;
    plant_row(&p, MP_CHUNK_DEVICES);
    for (unsigned layer = 0; layer < MP_LAYERS; layer++) {
        const struct mp_track track = {.layer = (uint8_t)layer, .name = plant(&p)};
        must(&p, mp_writer_tracks(p.writer, &track, 1, &p.error));
    }
    plant_row(&p, MP_CHUNK_THREADS);
    const struct mp_module unknown = {0};
    must(&p, mp_writer_modules(p.writer, &unknown, 1, &p.error));
    plant_row(&p, MP_CHUNK_MODULES);
    plant_frames(&p);
    if (has_past) {
        const struct mp_past past = {.events = 9, .steps = 1, .time_ns = 50};
        must(&p, mp_writer_past(p.writer, &past, &p.error));
        plant_row(&p, MP_CHUNK_PAST_PEAKS);
        plant_row(&p, MP_CHUNK_PAST_SITES);
    }
    plant_row(&p, MP_CHUNK_SAMPLES);
    const struct mp_base_block base = {
        .bytes = 512, .address = 1 << 20, .module = plant(&p), .label = plant(&p), .role = 1};
    must(&p, mp_writer_base(p.writer, 60, &base, 1, &p.error));
    plant_events(&p);
    plant_row(&p, MP_CHUNK_LABELS);
    const struct mp_block_holder holders[] = {
        {.kind = MP_HOLDER_LIST, .path = plant(&p), .file = plant(&p), .line = 3},
        {.block = MP_HOLDER_LOOK, .path = plant(&p)},
    };
    must(&p, mp_writer_holders(p.writer, holders, 2, &p.error));
    const struct mp_block_metadata metadata[] = {
        {.kind = 1, .text = plant(&p)}, {.kind = 2, .text = plant(&p)}, {.kind = 3, .text = plant(&p)}};
    must(&p, mp_writer_metadata(p.writer, metadata, 3, &p.error));
    const struct mp_block_use use = {
        .how = MP_USE_READ, .operator= plant(&p), .node = plant(&p), .shape = plant(&p), .module = plant(&p)};
    must(&p, mp_writer_uses(p.writer, &use, 1, &p.error));
    plant_row(&p, MP_CHUNK_SEGMENTS);
    plant_row(&p, MP_CHUNK_SEGMENT_PARTS);
    plant_row(&p, MP_CHUNK_CALLS);
    for (unsigned i = 0; i < 2 * MP_ASIDE_KINDS; i++) {
        bool is_value = i % 2;
        const struct mp_aside aside = {plant_in(&p, is_value ? "max_split_size_mb=" : "", is_value ? "" : "=7"),
                                       (uint8_t)(i / 2)};
        must(&p, mp_writer_asides(p.writer, &aside, 1, &p.error));
    }
    plant_coverage(&p);
    must(&p, mp_writer_finish(p.writer, &p.error));
    return fd;
}

static bool holds_secret(const char *text, size_t length)
{
    for (size_t i = 0; i + strlen(SECRET) <= length; i++)
        if (!strncasecmp(text + i, SECRET, strlen(SECRET))) return true;
    return false;
}

/* The number of texts of a file that contain a secret; the last one is stored in `found`. */
static size_t count_secrets(int fd, char *found, size_t room)
{
    char path[64];
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error;
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ck_assert_msg(!mp_reader_open(path, &reader, &error), "%s", error.text);
    const struct mp_recording_start *start = mp_reader_start(reader);
    const char *const texts[] = {start->host, start->configuration, start->spool, start->member.role,
                                 start->member.job};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (holds_secret(texts[i], strlen(texts[i]))) count++, snprintf(found, room, "%s", texts[i]);
    for (size_t i = 0; start->command[i]; i++)
        count += holds_secret(start->command[i], strlen(start->command[i]));
    while (!mp_reader_next(reader, &chunk, &error))
        for (size_t i = 0; chunk.kind == MP_CHUNK_STRINGS && i < chunk.count; i++)
            if (holds_secret(chunk.as.strings[i].text, chunk.as.strings[i].length))
                count++, snprintf(found, room, "%.*s", (int)chunk.as.strings[i].length, chunk.as.strings[i].text);
    mp_reader_close(reader);
    return count;
}

static void check(const char *form, const char *configuration, bool has_past)
{
    char path[64], found[256] = "";
    struct mp_model *model;
    struct mp_error error;
    int planted = make(form, configuration, has_past), fd = memfd_create("anonymous", MFD_CLOEXEC);
    ck_assert_uint_ge(count_secrets(planted, found, sizeof found), KNOWN_FIELDS);
    snprintf(path, sizeof path, "/proc/self/fd/%d", planted);
    ck_assert_msg(!mp_model_load(path, &model, &error), "%s", error.text);
    ck_assert(!model->file.damage.lost_chunks && !model->file.damage.lost_bytes);
    ck_assert_msg(!mp_anonymize(model, &error), "%s", error.text);
    ck_assert_msg(!mp_exchange_save(model, dup(fd), &error), "%s", error.text);
    mp_model_free(model);
    size_t left = count_secrets(fd, found, sizeof found);
    ck_assert_msg(!left, "%zu secrets are left of \"%s\" (%s): \"%s\"", left, form, configuration, found);
    close(planted);
    close(fd);
}

START_TEST(a_secret_anywhere_is_gone)
{
    for (size_t i = 0; i < FORMS; i++)
        for (int has_past = 0; has_past < 2; has_past++)
            check(forms[i], has_past ? "native=1;max_events=100" : "native=1;step_range=%5E" SECRET, has_past);
}

/* Functions of one frame each: in Python in a public file, and native in the library of that path. */
static const char *name_after(const char *library, uint8_t language, const char *function, const char *file)
{
    static char name[256];
    struct mp_error error;
    struct mp_model *model = mp_alloc_zeroed(1, sizeof *model);
    mp_intern_add_text(&model->strings, "");
    model->start.host = model->start.spool = model->start.configuration = "";
    const struct mp_module modules[2] = {{0}, {.path = mp_intern_add_text(&model->strings, library)}};
    mp_vec_add(&model->modules, modules[0]);
    mp_vec_add(&model->modules, modules[1]);
    const struct mp_model_frame frame = {.raw = {.language = language,
                                                 .module = 1,
                                                 .function = mp_intern_add_text(&model->strings, function),
                                                 .file = mp_intern_add_text(&model->strings, file)}};
    mp_vec_add(&model->frames, frame);
    ck_assert_msg(!mp_anonymize(model, &error), "%s", error.text);
    snprintf(name, sizeof name, "%s", mp_model_text(model, model->frames.at[0].raw.function));
    mp_model_free(model);
    return name;
}

START_TEST(a_function_is_public_by_where_it_is)
{
    static const char module[] = "/x/site-packages/torch/nn/modules/module.py";
    ck_assert_str_eq(name_after("/x/libtorch_cpu.so", MP_NATIVE, "at::native::add(at::Tensor)", ""),
                     "at::native::add(at::Tensor)");
    ck_assert_str_eq(name_after("/x/libacme.so", MP_NATIVE, "at::native::add(at::Tensor)", ""), "f1");
    ck_assert_str_eq(name_after("", MP_NATIVE, "malloc", ""), "f1");
    ck_assert_str_eq(name_after("", MP_NATIVE, "torch::autograd::Engine::thread_main(acme)", ""),
                     "torch::autograd::Engine::thread_main");
    ck_assert_str_eq(name_after("", MP_NATIVE, "torch::autograd::Engine::acme()", ""), "f1");
    ck_assert_str_eq(name_after("", MP_PYTHON, "Module._call_impl", module), "Module._call_impl");
    ck_assert_str_eq(name_after("", MP_PYTHON, "Module.acme", module), "f1");
    ck_assert_str_eq(name_after("", MP_PYTHON, "forward", "/home/me/model.py"), "f1");
    /* A Python function is judged by its file; that the frame's library is the interpreter does not make it public. */
    ck_assert_str_eq(name_after("/usr/bin/python3", MP_PYTHON, "acme", "/home/me/model.py"), "f1");
}

START_TEST(a_secret_in_the_settings_is_gone)
{
    static const char *const settings[] = {"step_range=" SECRET ";step_at=" SECRET,
                                           "step_at=" SECRET "7",
                                           "sample=" SECRET,
                                           SECRET "=1",
                                           "native=1;" SECRET ";python=1",
                                           "live_each=1;live_steps=9;live_source=" SECRET,
                                           "schedule=wait=1,unit=" SECRET,
                                           "native=1" SECRET};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (size_t form = 0; form < 2; form++)
            check(form ? "step " SECRET "%u" : SECRET "%u", settings[i], false);
}

START_TEST(every_string_of_the_format_is_known)
{
    size_t count = 0;
    for (unsigned kind = 1; kind < MP_CHUNK_KINDS; kind++) {
        if (kind >= MP_CHUNK_JOB_PROCESSES && kind <= MP_CHUNK_JOB_TROUBLES) continue; /* jobs are refused */
        const struct mp_table_layout *table = mp_table_of((enum mp_chunk_kind)kind);
        for (size_t i = 0; table && i < table->field_count; i++) {
            if (table->fields[i].rule != MP_CHUNK_STRINGS) continue;
            char name[128];
            bool is_known = false;
            snprintf(name, sizeof name, "%s.%s", table->name, table->fields[i].name);
            for (size_t k = 0; k < KNOWN_FIELDS; k++)
                is_known |= !strcmp(name, known_fields[k]);
            ck_assert_msg(is_known, "%s is a string that mp_anonymize() was not told of", name);
            count++;
        }
    }
    ck_assert_uint_eq(count, KNOWN_FIELDS);
}

START_TEST(what_is_public_stays)
{
    ck_assert_str_eq(mp_public_path("/opt/x/lib/python3.11/site-packages/torch/nn/modules/module.py"),
                     "/site-packages/torch/nn/modules/module.py");
    ck_assert_str_eq(mp_public_path("/usr/lib/python3.13/json/encoder.py"), "/lib/python3.13/json/encoder.py");
    ck_assert_str_eq(mp_public_path("torch/optim/adam.py"), "torch/optim/adam.py");
    ck_assert_ptr_null(mp_public_path("/opt/x/site-packages/torch/nn/modules/acme.py"));
    ck_assert_ptr_null(mp_public_path("/opt/x/site-packages/acme/nn/modules/module.py"));
    ck_assert_ptr_null(mp_public_path("/opt/x/site-packages/torch/nn/modules/module.cpp"));
    ck_assert_ptr_null(mp_public_path("/usr/lib/python3.13/json//encoder.py"));
    ck_assert_ptr_null(mp_public_path("/home/me/torch/optim/adam.py"));
    ck_assert_str_eq(mp_public_library("/x/libtorch_cpu.so"), "libtorch_cpu.so");
    ck_assert_str_eq(mp_public_library("/lib/libc.so.6"), "libc.so.6");
    ck_assert_ptr_null(mp_public_library("/x/libacme.so.6"));
    ck_assert_ptr_null(mp_public_library("/x/libc.so.acme"));
    ck_assert_str_eq(mp_public_library("/usr/bin/python3.11"), "python3.11");
    ck_assert_ptr_null(mp_public_library("/home/me/python3"));
    ck_assert_ptr_null(mp_public_library("/x/acme/_C.cpython-311-x86_64-linux-gnu.so"));
    ck_assert_str_eq(mp_public_library("/x/torch/_C.cpython-311-x86_64-linux-gnu.so"),
                     "_C.cpython-311-x86_64-linux-gnu.so");
    ck_assert(mp_public_python("Module._call_impl") && mp_public_python("<module>") && mp_public_python("_call_impl"));
    ck_assert(!mp_public_python("acme") && !mp_public_python("Module.acme") && !mp_public_python("Module step") &&
              !mp_public_python("") && !mp_public_python("Module."));
    ck_assert(mp_public_device("cuda:0") && mp_public_device("cpu") && mp_public_model("NVIDIA H100 80GB HBM3"));
    ck_assert(mp_public_model("NVIDIA A100-SXM4-40GB") && mp_public_model("Tesla V100-SXM2-16GB"));
    ck_assert(mp_public_words("exit 0") && mp_public_words("killed by SIGKILL"));
}

MP_SUITE("anonymize", a_secret_anywhere_is_gone, a_secret_in_the_settings_is_gone, every_string_of_the_format_is_known,
         what_is_public_stays, a_function_is_public_by_where_it_is)
