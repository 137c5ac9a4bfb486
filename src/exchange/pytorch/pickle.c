#include "exchange/pytorch/pickle.h"

#include <string.h>

#include "exchange/pytorch/pickle_opcodes.h"

#define PROTOCOL_MIN 2
#define PROTOCOL_MAX 5

/* An opcode and its longest number or length: one test of the look-ahead covers both. */
#define OPCODE_BYTES 9

struct unpickler {
    struct mp_input *input;
    struct mp_values *values;
    struct mp_error *error;
    const unsigned char *at; /* the next byte, after the present opcode */
    uint64_t opcode_offset;
    MP_VEC(uint64_t) memo; /* value + 1; 0: never stored */
};

bool mp_pickle_begins(const unsigned char *data, size_t size)
{
    return size >= 2 && data[0] == MP_OP_PROTO && data[1] < 0x20;
}

static const char *refused_name(unsigned opcode)
{
    static const char *const names[256] = {
        ['c'] = "GLOBAL",        ['R'] = "REDUCE",      ['b'] = "BUILD",
        ['i'] = "INST",          ['o'] = "OBJ",         ['P'] = "PERSID",
        ['Q'] = "BINPERSID",     [0x81] = "NEWOBJ",     [0x82] = "EXT1",
        [0x83] = "EXT2",         [0x84] = "EXT4",       [0x92] = "NEWOBJ_EX",
        [0x93] = "STACK_GLOBAL", [0x8f] = "EMPTY_SET",  [0x90] = "ADDITEMS",
        [0x91] = "FROZENSET",    [0x96] = "BYTEARRAY8", [0x97] = "NEXT_BUFFER",
        ['I'] = "INT",           ['L'] = "LONG",        [0x98] = "READONLY_BUFFER",
        ['F'] = "FLOAT",         ['S'] = "STRING",      ['V'] = "UNICODE",
        ['g'] = "GET",           ['p'] = "PUT",
    };
    return names[opcode];
}

static enum mp_status refuse(struct unpickler *u, unsigned opcode)
{
    unsigned long long offset = (unsigned long long)u->opcode_offset;
    const char *path = u->input->path, *name = refused_name(opcode);
    if (name)
        return mp_fail(
            u->error, MP_UNSUPPORTED,
            "%s is a pickle, but no memory snapshot: it has the opcode %s at byte %llu; nothing in it was executed",
            path, name, offset);
    return mp_fail(u->error, MP_DAMAGED, "%s is no pickle from byte %llu on: 0x%02x is no opcode", path, offset,
                   opcode);
}

static enum mp_status bad(struct unpickler *u, const char *reason)
{
    return mp_fail(u->error, MP_DAMAGED, "%s makes no sense as a pickle: at byte %llu it %s", u->input->path,
                   (unsigned long long)u->opcode_offset, reason);
}

static enum mp_status cut(struct unpickler *u)
{
    return mp_fail(u->error, MP_DAMAGED, "%s is cut: the pickle ends at byte %llu, before its end mark", u->input->path,
                   (unsigned long long)u->input->offset);
}

/* Turns a failed mp_values_ call into an error. */
static enum mp_status refuse_values(struct unpickler *u)
{
    return bad(u, u->values->fault);
}

static uint64_t little_endian(const unsigned char *at, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)at[i] << (8 * i);
    return number;
}

static double big_endian_double(const unsigned char *at)
{
    uint64_t bits = 0;
    double number;
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | at[i];
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Reads on until `count` bytes are available at u->at. */
static enum mp_status need(struct unpickler *u, size_t count)
{
    if ((size_t)(u->input->end - u->at) >= count) return MP_OK;
    u->input->at = u->at;
    enum mp_status status = mp_input_fill(u->input, count, u->error);
    u->at = u->input->at;
    if (!status && (size_t)(u->input->end - u->at) < count) status = cut(u);
    return status;
}

static enum mp_status skip(struct unpickler *u, uint64_t count)
{
    while (count) {
        enum mp_status status = need(u, 1);
        if (status) return status;
        size_t here = (size_t)(u->input->end - u->at);
        if (here > count) here = (size_t)count;
        u->at += here;
        count -= here;
    }
    return MP_OK;
}

/* Takes a text, which follows its length in `width` bytes. */
static enum mp_status take_text(struct unpickler *u, size_t width)
{
    uint64_t length = little_endian(u->at, width);
    u->at += width;
    size_t kept = length < MP_INPUT_WINDOW ? (size_t)length : MP_INPUT_WINDOW;
    enum mp_status status = need(u, kept);
    if (status) return status;
    mp_values_push_text(u->values, (const char *)u->at, kept);
    u->at += kept;
    return length > kept ? skip(u, length - kept) : MP_OK;
}

/* A two's complement integer of `length` bytes. */
static enum mp_status take_long(struct unpickler *u, size_t width)
{
    uint64_t length = little_endian(u->at, width);
    u->at += width;
    if (length > INT32_MAX) return bad(u, "has a number of negative length");
    enum mp_status status = need(u, length < 9 ? (size_t)length : 9);
    if (status) return status;
    if (length <= 8) {
        uint64_t number = little_endian(u->at, (size_t)length);
        unsigned spare = 64 - 8 * (unsigned)length;
        mp_values_push_signed(u->values, length ? (int64_t)(number << spare) >> spare : 0);
    } else if (length == 9 && !u->at[8]) {
        mp_values_push_unsigned(u->values, little_endian(u->at, 8));
    } else {
        mp_values_push(u->values, mp_value_make(MP_VALUE_BIG, u->opcode_offset));
    }
    return skip(u, length);
}

static enum mp_status memoize(struct unpickler *u, uint64_t index)
{
    if (!mp_values_above(u->values)) return bad(u, "stores a value where there is none");
    /* Pickles number their stores from 0, and each store takes at least one byte. */
    if (index > u->opcode_offset) return bad(u, "stores a value under a number that is too large");
    mp_vec_grow_to(&u->memo, index + 1);
    u->memo.at[index] = u->values->stack.at[u->values->stack.count - 1] + 1;
    return MP_OK;
}

static enum mp_status recall(struct unpickler *u, uint64_t index)
{
    if (index >= u->memo.count || !u->memo.at[index]) return bad(u, "takes a stored value that was never stored");
    mp_values_push(u->values, u->memo.at[index] - 1);
    return MP_OK;
}

static enum mp_status start_protocol(struct unpickler *u)
{
    unsigned protocol = *u->at++;
    if (protocol >= PROTOCOL_MIN && protocol <= PROTOCOL_MAX) return MP_OK;
    return mp_fail(u->error, MP_UNSUPPORTED, "%s is a pickle of protocol %u; memprof reads 2 to 5", u->input->path,
                   protocol);
}

/* Pops everything above the last mark into an object of `kind`: a new one, or the one below the mark. */
static bool close_mark(struct unpickler *u, enum mp_object_kind kind, bool is_new)
{
    size_t count;
    if (!mp_values_unmark(u->values, &count)) return false;
    if (is_new) return mp_values_gather(u->values, kind, count);
    return kind == MP_OBJECT_LIST ? mp_values_append(u->values, count) : mp_values_set(u->values, count);
}

static bool pop(struct unpickler *u, bool to_mark)
{
    size_t count = 1;
    if (to_mark && !mp_values_unmark(u->values, &count)) return false;
    if (mp_values_above(u->values) < count) {
        u->values->fault = "takes values that are not there";
        return false;
    }
    u->values->stack.count -= count;
    return true;
}

static bool duplicate(struct unpickler *u)
{
    if (!mp_values_above(u->values)) {
        u->values->fault = "repeats a value where there is none";
        return false;
    }
    mp_values_push(u->values, u->values->stack.at[u->values->stack.count - 1]);
    return true;
}

/* Handles one opcode other than STOP. OPCODE_BYTES bytes follow it, or fewer at the file's end. */
static enum mp_status step(struct unpickler *u, unsigned opcode)
{
    struct mp_values *values = u->values;
    const unsigned char *at = u->at;
    bool done = true;
#define NUMBER(width, push) return u->at += (width), push, MP_OK
    switch (opcode) {
    case MP_OP_PROTO:
        return start_protocol(u);
    case MP_OP_FRAME: /* only a hint for Python how much to read at once */
        u->at += 8;
        return MP_OK;
    case MP_OP_BININT:
        NUMBER(4, mp_values_push_signed(values, (int32_t)little_endian(at, 4)));
    case MP_OP_BININT1:
        NUMBER(1, mp_values_push_signed(values, at[0]));
    case MP_OP_BININT2:
        NUMBER(2, mp_values_push_signed(values, at[0] | at[1] << 8));
    case MP_OP_BINFLOAT:
        NUMBER(8, mp_values_push_float(values, big_endian_double(at)));
    case MP_OP_LONG1:
        return take_long(u, 1);
    case MP_OP_LONG4:
        return take_long(u, 4);
    case MP_OP_SHORT_BINUNICODE:
    case MP_OP_SHORT_BINSTRING:
    case MP_OP_SHORT_BINBYTES:
        return take_text(u, 1);
    case MP_OP_BINUNICODE:
    case MP_OP_BINSTRING:
    case MP_OP_BINBYTES:
        return take_text(u, 4);
    case MP_OP_BINUNICODE8:
    case MP_OP_BINBYTES8:
        return take_text(u, 8);
    case MP_OP_BINGET:
        return u->at++, recall(u, at[0]);
    case MP_OP_LONG_BINGET:
        return u->at += 4, recall(u, little_endian(at, 4));
    case MP_OP_BINPUT:
        return u->at++, memoize(u, at[0]);
    case MP_OP_LONG_BINPUT:
        return u->at += 4, memoize(u, little_endian(at, 4));
    case MP_OP_MEMOIZE:
        return memoize(u, u->memo.count);
    case MP_OP_NONE:
        mp_values_push(values, MP_VALUE_NONE);
        break;
    case MP_OP_NEWTRUE:
        mp_values_push(values, MP_VALUE_TRUE);
        break;
    case MP_OP_NEWFALSE:
        mp_values_push(values, MP_VALUE_FALSE);
        break;
    case MP_OP_MARK:
        done = mp_values_mark(values);
        break;
    case MP_OP_EMPTY_DICT:
        mp_values_push_object(values, MP_OBJECT_DICT);
        break;
    case MP_OP_EMPTY_LIST:
    case MP_OP_EMPTY_TUPLE:
        mp_values_push_object(values, MP_OBJECT_LIST);
        break;
    case MP_OP_TUPLE1:
    case MP_OP_TUPLE2:
    case MP_OP_TUPLE3:
        done = mp_values_gather(values, MP_OBJECT_LIST, opcode - MP_OP_TUPLE1 + 1);
        break;
    case MP_OP_TUPLE:
    case MP_OP_LIST:
        done = close_mark(u, MP_OBJECT_LIST, true);
        break;
    case MP_OP_DICT:
        done = close_mark(u, MP_OBJECT_DICT, true);
        break;
    case MP_OP_APPENDS:
        done = close_mark(u, MP_OBJECT_LIST, false);
        break;
    case MP_OP_SETITEMS:
        done = close_mark(u, MP_OBJECT_DICT, false);
        break;
    case MP_OP_APPEND:
        done = mp_values_append(values, 1);
        break;
    case MP_OP_SETITEM:
        done = mp_values_set(values, 2);
        break;
    case MP_OP_POP:
    case MP_OP_POP_MARK:
        done = pop(u, opcode == MP_OP_POP_MARK);
        break;
    case MP_OP_DUP:
        done = duplicate(u);
        break;
    default:
        return refuse(u, opcode);
    }
#undef NUMBER
    return done ? MP_OK : refuse_values(u);
}

/* The number of operand bytes (numbers and lengths) after an opcode. */
static size_t operand_bytes(unsigned opcode)
{
    static const unsigned char bytes[256] = {
        [MP_OP_PROTO] = 1,       [MP_OP_FRAME] = 8,           [MP_OP_BININT] = 4,
        [MP_OP_BININT1] = 1,     [MP_OP_BININT2] = 2,         [MP_OP_BINFLOAT] = 8,
        [MP_OP_LONG1] = 1,       [MP_OP_LONG4] = 4,           [MP_OP_SHORT_BINUNICODE] = 1,
        [MP_OP_BINGET] = 1,      [MP_OP_SHORT_BINSTRING] = 1, [MP_OP_SHORT_BINBYTES] = 1,
        [MP_OP_BINUNICODE] = 4,  [MP_OP_BINSTRING] = 4,       [MP_OP_BINBYTES] = 4,
        [MP_OP_BINUNICODE8] = 8, [MP_OP_BINBYTES8] = 8,       [MP_OP_LONG_BINGET] = 4,
        [MP_OP_BINPUT] = 1,      [MP_OP_LONG_BINPUT] = 4,
    };
    return bytes[opcode];
}

static enum mp_status run(struct unpickler *u)
{
    for (;;) {
        enum mp_status status = MP_OK;
        bool near_end = u->input->end - u->at <= OPCODE_BYTES;
        if (near_end && (status = need(u, 1))) return status;
        u->opcode_offset = u->input->offset - (uint64_t)(u->input->end - u->at);
        unsigned opcode = *u->at++;
        if (opcode == MP_OP_STOP) return MP_OK;
        if (near_end) status = need(u, operand_bytes(opcode));
        if (!status) status = step(u, opcode);
        if (!status && !mp_values_fit(u->values, u->memo.count, u->opcode_offset)) status = refuse_values(u);
        if (status) return status;
    }
}

enum mp_status mp_pickle_read(struct mp_input *input, struct mp_values *values, uint64_t *top, struct mp_error *error)
{
    struct unpickler u = {.input = input, .values = values, .error = error, .at = input->at};
    values->shared = true;
    enum mp_status status = run(&u);
    if (!status && (values->marks.count || values->stack.count != 1)) status = bad(&u, "ends with values left over");
    if (!status) *top = values->stack.at[0];
    input->at = u.at;
    mp_vec_free(&u.memo);
    return status;
}
