#include "exchange/common/values.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"

#define INT_MAX_56 (INT64_C(1) << 55)

static bool fault(struct mp_values *values, const char *reason)
{
    values->fault = reason;
    return false;
}

bool mp_values_fit(struct mp_values *values, uint64_t more, uint64_t offset)
{
    enum {
        TIMES = 3,
        FREE_BYTES = 48 << 20
    }; /* the values of PyTorch's own snapshots take at most twice the file's
        * size */
    uint64_t words = values->stack.count + values->marks.count + values->items.count + values->wide.count + more;
    uint64_t bytes = words * sizeof(uint64_t) + values->objects.count * sizeof *values->objects.at;
    if (bytes <= TIMES * offset + FREE_BYTES) return true;
    return fault(values, "needs more memory than a memory snapshot of its size");
}

void mp_values_keep_texts(struct mp_values *values)
{
    mp_vec_free(&values->stack);
    mp_vec_free(&values->marks);
    mp_vec_free(&values->items);
    mp_vec_free(&values->objects);
    mp_vec_free(&values->wide);
}

void mp_values_free(struct mp_values *values)
{
    mp_intern_free(&values->texts);
    mp_values_keep_texts(values);
}

static void push_wide(struct mp_values *values, unsigned tag, uint64_t bits)
{
    mp_vec_add(&values->wide, bits);
    mp_values_push(values, mp_value_make(tag, values->wide.count - 1));
}

void mp_values_push_signed(struct mp_values *values, int64_t number)
{
    if (number >= -INT_MAX_56 && number < INT_MAX_56)
        mp_values_push(values, mp_value_make(MP_VALUE_INT, (uint64_t)number));
    else
        push_wide(values, MP_VALUE_WIDE, (uint64_t)number);
}

void mp_values_push_unsigned(struct mp_values *values, uint64_t number)
{
    if (number <= INT64_MAX)
        mp_values_push_signed(values, (int64_t)number);
    else
        push_wide(values, MP_VALUE_WIDER, number);
}

void mp_values_push_float(struct mp_values *values, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    push_wide(values, MP_VALUE_FLOAT, bits);
}

void mp_values_push_text(struct mp_values *values, const char *text, size_t length)
{
    uint32_t id = mp_intern_add(&values->texts, text, length);
    mp_values_push(values, mp_value_make(MP_VALUE_TEXT, id));
}

void mp_values_push_object(struct mp_values *values, enum mp_object_kind kind)
{
    struct mp_value_object object = {.start = values->items.count, .kind = (uint8_t)kind};
    mp_vec_add(&values->objects, object);
    mp_values_push(values, mp_value_make(MP_VALUE_OBJECT, values->objects.count - 1));
}

bool mp_values_mark(struct mp_values *values)
{
    if (values->marks.count >= MP_VALUES_DEPTH) return fault(values, "is nested more than 1000 deep");
    mp_vec_add(&values->marks, values->stack.count);
    return true;
}

bool mp_values_unmark(struct mp_values *values, size_t *count)
{
    if (!values->marks.count) return fault(values, "ends a list or dictionary that was not begun");
    *count = mp_values_above(values);
    values->marks.count--;
    return true;
}

/* Makes room for `extra` more items after the object's items. */
static bool make_room(struct mp_values *values, struct mp_value_object *object, size_t extra)
{
    size_t need = object->count + extra;
    if (need > UINT32_MAX / 2) return fault(values, "has a list that is too long");
    if (!object->count) object->start = values->items.count, object->room = 0;
    if (need <= object->room) return true;
    if (object->start + object->room == values->items.count) { /* the last in items: it grows in place */
        mp_vec_room_for(&values->items, need - object->room);
        values->items.count += need - object->room;
        object->room = (uint32_t)need;
        return true;
    }
    size_t room = 2 * need;
    mp_vec_room_for(&values->items, room);
    memcpy(values->items.at + values->items.count, values->items.at + object->start,
           object->count * sizeof *values->items.at);
    object->start = values->items.count;
    object->room = (uint32_t)room;
    values->items.count += room;
    return true;
}

static bool add_items(struct mp_values *values, struct mp_value_object *object, size_t count)
{
    if (object->used) return fault(values, "changes a list or dictionary after it was used");
    if (!count) return true;
    if (!make_room(values, object, count)) return false;
    memcpy(values->items.at + object->start + object->count, values->stack.at + values->stack.count - count,
           count * sizeof *values->items.at);
    object->count += (uint32_t)count;
    return true;
}

/* The object under the top `count` values, which belong to the innermost mark. */
static struct mp_value_object *target(struct mp_values *values, size_t count, enum mp_object_kind kind)
{
    uint64_t value = mp_values_above(values) > count ? values->stack.at[values->stack.count - count - 1] : 0;
    struct mp_value_object *object =
        mp_value_tag(value) == MP_VALUE_OBJECT ? &values->objects.at[mp_value_payload(value)] : NULL;
    if (object && object->kind == kind) return object;
    fault(values, kind == MP_OBJECT_LIST ? "puts items into what is no list" : "puts keys into what is no dictionary");
    return NULL;
}

bool mp_values_append(struct mp_values *values, size_t count)
{
    struct mp_value_object *list = target(values, count, MP_OBJECT_LIST);
    if (!list || !add_items(values, list, count)) return false;
    values->stack.count -= count;
    return true;
}

/* Replaces the dictionary by a record. Frees the dictionary if nothing else can refer to it. */
static void put_record(struct mp_values *values, size_t index, uint64_t record)
{
    struct mp_value_object *object = &values->objects.at[index];
    object->kind = MP_OBJECT_SETTLED;
    object->start = record;
    if (values->shared || index + 1 != values->objects.count) return;
    values->objects.count--;
    values->stack.at[values->stack.count - 1] = record;
}

bool mp_values_set(struct mp_values *values, size_t count)
{
    struct mp_value_object *dict = target(values, count, MP_OBJECT_DICT);
    if (!dict) return false;
    if (count % 2) return fault(values, "has a key without a value");
    size_t index = (size_t)(dict - values->objects.at);
    uint64_t record = 0;
    if (!dict->count && !dict->used && values->make_record &&
        !values->make_record(values->context, values, values->stack.at + values->stack.count - count, count / 2,
                             &record))
        return false;
    if (!record && !add_items(values, &values->objects.at[index], count)) return false;
    values->stack.count -= count;
    if (record) put_record(values, index, record);
    return true;
}

bool mp_values_gather(struct mp_values *values, enum mp_object_kind kind, size_t count)
{
    if (mp_values_above(values) < count) return fault(values, "takes values that are not there");
    mp_values_push(values, 0);
    uint64_t *first = values->stack.at + values->stack.count - 1 - count;
    memmove(first + 1, first, count * sizeof *first);
    struct mp_value_object object = {.start = values->items.count, .kind = (uint8_t)kind};
    mp_vec_add(&values->objects, object);
    *first = mp_value_make(MP_VALUE_OBJECT, values->objects.count - 1);
    return kind == MP_OBJECT_LIST ? mp_values_append(values, count) : mp_values_set(values, count);
}

const uint64_t *mp_values_items(struct mp_values *values, uint64_t value, enum mp_object_kind kind, size_t *count)
{
    static const uint64_t none;
    if (mp_value_tag(value) != MP_VALUE_OBJECT) return NULL;
    struct mp_value_object *object = &values->objects.at[mp_value_payload(value)];
    if (object->kind != kind) return NULL;
    object->used = true;
    *count = object->count;
    return object->count ? values->items.at + object->start : &none;
}

void mp_values_settle(struct mp_values *values, uint64_t value, uint64_t record)
{
    size_t index = mp_value_payload(value);
    struct mp_value_object *object = &values->objects.at[index];
    if (object->count && object->start + object->room == values->items.count) values->items.count = object->start;
    *object = (struct mp_value_object){.start = record, .kind = MP_OBJECT_SETTLED, .used = true};
    if (!values->shared && index + 1 == values->objects.count) values->objects.count--;
}

bool mp_values_signed(const struct mp_values *values, uint64_t value, int64_t *number)
{
    double real;
    switch (mp_value_tag(value)) {
    case MP_VALUE_INT:
        *number = (int64_t)value >> 8;
        return true;
    case MP_VALUE_WIDE:
        *number = (int64_t)values->wide.at[mp_value_payload(value)];
        return true;
    case MP_VALUE_FLOAT:
        memcpy(&real, &values->wide.at[mp_value_payload(value)], sizeof real);
        if (!(real > -0x1p62 && real < 0x1p62)) return false;
        *number = (int64_t)real;
        return true;
    default:
        return false;
    }
}

bool mp_values_unsigned(const struct mp_values *values, uint64_t value, uint64_t *number)
{
    int64_t with_sign;
    if (mp_value_tag(value) == MP_VALUE_WIDER) {
        *number = values->wide.at[mp_value_payload(value)];
        return true;
    }
    if (!mp_values_signed(values, value, &with_sign) || with_sign < 0) return false;
    *number = (uint64_t)with_sign;
    return true;
}
