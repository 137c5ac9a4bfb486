#include "collect/device/device_watch.h"
#include "collect/device/nvml.h"
#include "unit/suite.h"

#define GPU(number, name_, uuid_)                                                                                      \
    {                                                                                                                  \
        .uuid = uuid_, .name = name_, .physical = number                                                               \
    }
#define PART(number, uuid_)                                                                                            \
    {                                                                                                                  \
        .uuid = uuid_, .name = "part", .physical = number, .is_instance = true                                         \
    }

static struct mp_gpu alike[] = {GPU(0, "A", "GPU-aa11"), GPU(1, "A", "GPU-aa22"), GPU(2, "A", "GPU-bb33")};
static struct mp_gpu mixed[] = {GPU(0, "A", "GPU-aa11"), GPU(1, "B", "GPU-aa22")};
static struct mp_gpu cut_up[] = {PART(0, "MIG-11"), PART(0, "MIG-22"), PART(1, "MIG-33")};

/* The rules of CUDA_VISIBLE_DEVICES in the CUDA programming guide. -1: unknown. */
static const struct {
    struct mp_gpu *gpus;
    size_t count;
    const char *visible, *order;
    int ordinal, wanted;
} cases[] = {
    {alike, 3, NULL, NULL, 0, 0},
    {alike, 3, NULL, NULL, 2, 2},
    {alike, 3, NULL, NULL, 3, -1},
    {alike, 3, NULL, NULL, -1, -1},
    {alike, 3, "2,0", NULL, 0, 2},
    {alike, 3, "2,0", NULL, 1, 0},
    {alike, 3, "2,0", NULL, 2, -1},
    {alike, 3, " 1 , 2 ", NULL, 1, 2},
    {alike, 3, "0,7,1", NULL, 0, 0},
    {alike, 3, "0,7,1", NULL, 1, -1},
    {alike, 3, "0,7,1", NULL, 2, -1},
    {alike, 3, "-1", NULL, 0, -1},
    {alike, 3, "", NULL, 0, -1},
    {alike, 3, ",0", NULL, 0, -1},
    {alike, 3, "GPU-bb33,GPU-aa11", NULL, 0, 2},
    {alike, 3, "gpu-BB", NULL, 0, 2},
    {alike, 3, "GPU-aa", NULL, 0, -1},
    {alike, 3, "GPU-aa2", NULL, 0, 1},
    {alike, 3, "99999999999999999999", NULL, 0, -1},
    {mixed, 2, NULL, NULL, 0, -1},
    {mixed, 2, NULL, "FASTEST_FIRST", 1, -1},
    {mixed, 2, NULL, "PCI_BUS_ID", 1, 1},
    {mixed, 2, "1", NULL, 0, -1},
    {mixed, 2, "1", "PCI_BUS_ID", 0, 1},
    {mixed, 2, "GPU-aa22", NULL, 0, 1},
    {mixed, 1, NULL, NULL, 0, 0},
    {cut_up, 3, NULL, NULL, 0, 0},
    {cut_up, 3, NULL, NULL, 1, -1},
    {cut_up, 3, "MIG-33,MIG-22", NULL, 0, 2},
    {cut_up, 3, "MIG-33,MIG-22", NULL, 1, 1},
    {cut_up, 3, "1", NULL, 0, 2},
    {cut_up, 3, "0", NULL, 0, 0},
    {alike, 0, NULL, NULL, 0, -1},
};

START_TEST(ordinals_are_those_of_the_program)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_gpus gpus = {cases[i].gpus, cases[i].count, cases[i].count};
        int found = mp_gpu_of_ordinal(&gpus, cases[i].visible, cases[i].order, cases[i].ordinal);
        ck_assert_msg(found == cases[i].wanted, "case %zu: %d instead of %d", i, found, cases[i].wanted);
    }
}

MP_SUITE("gpu_order", ordinals_are_those_of_the_program)
