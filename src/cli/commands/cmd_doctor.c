#include "cli/output_file.h"
#include "cli/query.h"
#include "collect/doctor/doctor.h"

static const char *const states[] = {
    [MP_CHECK_OK] = "ok", [MP_CHECK_LIMITED] = "limited", [MP_CHECK_ABSENT] = "absent"};

static void write_json(struct mp_buffer *out, const struct mp_checks *checks)
{
    struct mp_json json;
    mp_json_start(&json, out);
    mp_json_object(&json, NULL);
    mp_json_text(&json, "schema", "memprof.doctor/1");
    mp_json_array(&json, "checks");
    mp_vec_each (const struct mp_check, check, checks) {
        mp_json_object(&json, NULL);
        mp_json_text(&json, "name", check->name);
        mp_json_text(&json, "state", states[check->state]);
        mp_json_text(&json, "found", check->found);
        mp_json_text(&json, "advice", *check->advice ? check->advice : NULL);
        mp_json_end_object(&json);
    }
    mp_json_end_array(&json);
    mp_json_null(&json, "coverage"); /* required in JSON, but there is no recording */
    mp_json_end_object(&json);
}

static void put_clean(struct mp_table *table, enum mp_style style, const char *text, bool wide)
{
    struct mp_buffer clean = {0};
    mp_text_clean(&clean, text);
    (wide ? mp_table_wide : mp_table_cell)(table, style, "%.*s", (int)clean.size, (const char *)clean.data);
    mp_buffer_free(&clean);
}

static void write_text(struct mp_text *text, const struct mp_checks *checks)
{
    struct mp_table table;
    mp_table_start(&table, "lll");
    mp_vec_each (const struct mp_check, check, checks) {
        mp_table_cell(&table, MP_DIM, "%s", check->name);
        mp_table_cell(&table, check->state == MP_CHECK_OK ? MP_PLAIN : MP_BOLD, "%s", states[check->state]);
        put_clean(&table, MP_PLAIN, check->found, true);
        mp_table_end_row(&table);
        if (!*check->advice) continue;
        mp_table_skip(&table, 2);
        put_clean(&table, MP_DIM, check->advice, true);
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

static int run_doctor(const struct mp_invocation *invocation)
{
    struct mp_checks checks = {0};
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    mp_doctor_examine(&checks);
    if (mp_given(invocation, MP_OPT_JSON))
        write_json(&out, &checks);
    else
        write_text(&text, &checks);
    int status = mp_output_buffer(invocation, &out);
    mp_buffer_free(&out);
    mp_vec_free(&checks);
    return status;
}

const struct mp_command mp_command_doctor = {
    .name = "doctor",
    .summary = "what can be recorded on this machine, and what is missing",
    .usage = "",
    .about =
        "Looks for NVIDIA's driver and devices, CUPTI and the tool that holds it, the search path's python3 and its "
        "torch, and the recorder's own needs. Works without a GPU and without a driver; takes a few seconds.",
    .example = "memprof doctor",
    .options = {MP_OPT_JSON, MP_OPT_OUTPUT, MP_OPT_FORCE},
    .run = run_doctor,
};
