/*
 * Categories of made-up programs in which every block's purpose is known; and rules compared with plain regexec().
 */
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "analysis/categories/categories.h"
#include "base/pattern.h"
#include "leakbench/world.h"
#include "model/stack_facts.h"
#include "unit/suite.h"

#define TORCH  "/usr/lib/python3/dist-packages/torch/"
#define MAIN   "/home/ada/train.py:main:10"
#define CALL   " " TORCH "nn/modules/module.py:_call_impl:1194"
#define LAYERS 5

struct training {
    struct world world;
    uint32_t made, load, keep, pass, loss, engine, of_weight, step, moment, workspace, reduce, fetch, again;
    MP_VEC(unsigned) truth; /* enum mp_category, by block */
};

static uint32_t native(struct world *world, const char *below, const char *function)
{
    char path[1024];
    snprintf(path, sizeof path, "%s%sx:x:1", below, *below ? " " : "");
    return world_variant(world, world_path(world, path, W_TORCH), function);
}

static void start(struct training *training, uint64_t seed)
{
    struct world *world = &training->world;
    memset(training, 0, sizeof *training);
    world_start(world, seed, 100);
    world->threads = 1;
    training->made = world_path(world, MAIN " " TORCH "nn/modules/linear.py:__init__:90", W_TORCH);
    training->load = world_path(world, MAIN " /home/ada/train.py:batch:3", W_TORCH);
    training->keep = world_path(world, MAIN CALL " /home/ada/model.py:forward:20", W_TORCH);
    training->pass = world_path(world, MAIN CALL " /home/ada/model.py:Net.forward:21", W_TORCH);
    training->loss = world_path(world, MAIN " /home/ada/train.py:loss:5", W_TORCH);
    training->again = world_path(world, MAIN " " TORCH "_tensor.py:backward:488" CALL, W_TORCH);
    training->step = world_path(world, MAIN " " TORCH "optim/sgd.py:step:144", W_TORCH);
    training->moment = world_path(world, MAIN " " TORCH "optim/sgd.py:step:150", W_TORCH);
    training->fetch = world_path(world, "/usr/lib/python3.11/threading.py:run:900 /home/ada/loader.py:work:9", W_TORCH);
    training->engine =
        native(world, "", "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::Ready>)");
    training->of_weight = native(world, "", "torch::autograd::Engine::evaluate_function(torch::autograd::Node*)");
    training->workspace = native(world, MAIN CALL, "at::cuda::getNewWorkspace()");
    training->reduce =
        native(world, MAIN " " TORCH "_tensor.py:backward:488", "c10d::Reducer::initialize_buckets(std::vector<long>)");
}

static uint32_t make(struct training *training, uint32_t stack, enum mp_category truth)
{
    uint64_t bytes = 64 * (1 + world_random(&training->world, 1000));
    uint32_t block = world_alloc(&training->world, stack, bytes);
    ck_assert(mp_vec_push(&training->truth, truth));
    ck_assert_uint_eq(training->truth.count, block + 1);
    return block;
}

static void pass(struct training *training, uint32_t stack)
{
    world_release(&training->world, make(training, stack, MP_CATEGORY_TEMPORARY));
}

struct held {
    uint32_t weights[LAYERS], states[LAYERS], gradients[LAYERS], kept[LAYERS], batch, next;
};

static void forward_and_backward(struct training *training, struct held *held, bool recompute)
{
    struct world *world = &training->world;
    for (int i = 0; i < LAYERS; i++) {
        pass(training, training->pass);
        if (world_random(world, 2)) make(training, training->workspace, MP_CATEGORY_WORKSPACE);
        held->kept[i] = make(training, training->keep, MP_CATEGORY_ACTIVATIONS);
        /* Another thread fetches the next batch meanwhile. */
        if (i == 2 && world->threads > 1) {
            world->thread = 1;
            held->next = make(training, training->fetch, MP_CATEGORY_INPUT);
            world->thread = 0;
        }
    }
    uint32_t loss = make(training, training->loss, MP_CATEGORY_ACTIVATIONS);
    for (int i = LAYERS; i--;) {
        uint32_t again = recompute ? make(training, training->again, MP_CATEGORY_ACTIVATIONS) : 0;
        uint32_t flowing = make(training, training->engine, MP_CATEGORY_TEMPORARY);
        if (!held->gradients[i]) held->gradients[i] = make(training, training->of_weight, MP_CATEGORY_GRADIENTS);
        if (i == 1) make(training, training->reduce, MP_CATEGORY_COMMUNICATION);
        world_release(world, held->kept[i]);
        if (recompute) world_release(world, again);
        world_release(world, flowing);
    }
    world_release(world, loss);
}

/* Steps of training; `set_to_none`: gradients are made anew in each. */
static void train(struct training *training, struct held *held, int steps, bool set_to_none, bool recompute)
{
    struct world *world = &training->world;
    for (int i = 0; i < LAYERS; i++)
        held->weights[i] = make(training, training->made, MP_CATEGORY_PARAMETERS);
    for (int step = 0; step < steps; step++) {
        world->step++;
        uint32_t before = held->batch, fetched = held->next;
        held->batch = make(training, training->load, MP_CATEGORY_INPUT);
        if (step) world_release(world, before);
        forward_and_backward(training, held, recompute);
        if (step && world->threads > 1) world_release(world, fetched);
        for (int i = 0; i < LAYERS; i++) {
            pass(training, training->step);
            if (!step) held->states[i] = make(training, training->moment, MP_CATEGORY_OPTIMIZER_STATE);
        }
        for (int i = 0; set_to_none && i < LAYERS; i++) {
            world_release(world, held->gradients[i]);
            held->gradients[i] = 0;
        }
    }
}

static void check_truth(struct training *training, struct mp_model *model, const char *what)
{
    struct mp_categories *categories;
    categories = mp_categories_make(model, NULL);
    ck_assert_uint_eq(model->blocks.count, training->truth.count);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        const char *want = mp_category_name(categories, training->truth.at[i]),
                   *got = mp_category_name(categories, mp_category_of(categories, i, (uint32_t)model->events.count));
        ck_assert_msg(!strcmp(want ? want : "none", got ? got : "none"), "%s: block %u of stack %u is %s, not %s", what,
                      i, model->blocks.stack[i], got ? got : "none", want ? want : "none");
    }
    mp_categories_free(categories);
}

static void finish(struct training *training)
{
    world_free(&training->world);
    mp_vec_free(&training->truth);
}

START_TEST(training_is_seen_through)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct training training;
        struct held held = {0};
        char what[64];
        start(&training, seed);
        training.world.frees_all = seed & 1;
        training.world.threads = seed & 2 ? 2 : 1;
        make(&training, training.load, MP_CATEGORY_INPUT); /* block 0 is never used, so it may have any category */
        training.truth.at[0] = MP_CATEGORY_NONE;
        train(&training, &held, 6, seed & 4, seed & 8);
        struct mp_model *model = world_build(&training.world);
        snprintf(what, sizeof what, "seed %d", (int)seed);
        /* The last batch is freed at the program's end, too late to recognise it. */
        training.truth.at[held.batch] = MP_CATEGORY_NONE;
        if (training.world.threads > 1) training.truth.at[held.next] = MP_CATEGORY_NONE;
        check_truth(&training, model, what);
        mp_model_free(model);
        finish(&training);
    }
}

/* A server's network: a call makes a block at each of its lines, in three parts. */
#define PART 4

struct server {
    struct training training;
    uint32_t lines[3 * PART];
};

static void start_server(struct server *server)
{
    char path[256];
    start(&server->training, 9);
    for (int i = 0; i < 3 * PART; i++) {
        snprintf(path, sizeof path, "%s%s /home/ada/model.py:Net.forward:%d", MAIN, CALL, 30 + i);
        server->lines[i] = world_path(&server->training.world, path, W_TORCH);
    }
}

static uint32_t serve(struct server *server, uint32_t stack)
{
    return world_alloc(&server->training.world, stack, 512);
}

/* Makes a call's blocks [first, end). With `together` all stay live; else each is freed when the next one is made. */
static void pass_on(struct server *server, uint32_t *blocks, unsigned first, unsigned end, bool together)
{
    for (unsigned i = first; i < end; i++) {
        blocks[i] = serve(server, server->lines[i]);
        if (i > first && !together) world_release(&server->training.world, blocks[i - 1]);
    }
}

static void release_all(struct server *server, const uint32_t *blocks, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        world_release(&server->training.world, blocks[i]);
}

/* The thread is not stopped from the input to the answer. */
static void whole_call(struct server *server, uint32_t thread)
{
    struct world *world = &server->training.world;
    uint32_t blocks[3 * PART], input;
    world->thread = thread;
    input = serve(server, server->training.load);
    pass_on(server, blocks, 0, 3 * PART, false);
    world_release(world, serve(server, server->training.loss));
    world_release(world, blocks[3 * PART - 1]);
    world_release(world, input);
}

/* The first thread waits twice for a processor, with the blocks of a part, while others answer. */
static void stopped_call(struct server *server)
{
    struct world *world = &server->training.world;
    uint32_t blocks[3 * PART], input;
    world->thread = 0;
    input = serve(server, server->training.load);
    for (uint32_t part = 0; part < 3; part++) {
        world->thread = 0;
        pass_on(server, blocks, part * PART, (part + 1) * PART, true);
        if (part) release_all(server, blocks, (part - 1) * PART, part * PART);
        if (part < 2) whole_call(server, part + 1);
    }
    release_all(server, blocks, 2 * PART, 3 * PART);
    world_release(world, serve(server, server->training.loss));
    world_release(world, input);
}

/* Counts the network's blocks with a category of inference, and the others. */
static void count_inference(struct server *server, size_t *inference, size_t *others)
{
    struct mp_categories *categories;
    struct mp_model *model = world_build(&server->training.world);
    *inference = *others = 0;
    categories = mp_categories_make(model, NULL);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        uint32_t stack = server->training.world.blocks.at[i].stack;
        unsigned found = mp_category_of(categories, i, (uint32_t)model->events.count);
        if (stack < server->lines[0] || stack > server->lines[3 * PART - 1]) continue;
        ++*(found == MP_CATEGORY_WORKING || found == MP_CATEGORY_KEPT ? inference : others);
    }
    mp_categories_free(categories);
    mp_model_free(model);
    finish(&server->training);
}

/* Three of five turns of the pool look like inference. In the others a call waits in the middle of a layer, whose
 * blocks stay live like a graph's. */
START_TEST(a_pool_infers_where_most_of_its_turns_do)
{
    struct server server;
    size_t inference, others;
    start_server(&server);
    server.training.world.threads = 3;
    for (int i = 0; i < 30; i++)
        stopped_call(&server);
    count_inference(&server, &inference, &others);
    ck_assert_uint_eq(inference, 30 * 9 * PART);
    ck_assert_uint_eq(others, 0);
}

/* With a single thread, blocks that stay live are a graph's, even if as many turns look like inference. */
START_TEST(one_thread_does_not)
{
    struct server server;
    size_t inference, others;
    start_server(&server);
    for (int i = 0; i < 30; i++) {
        whole_call(&server, 0);
        for (int graph = 0; graph < 2; graph++) {
            uint32_t blocks[3 * PART];
            pass_on(&server, blocks, 0, 3 * PART, true);
            whole_call(&server, 0);
            release_all(&server, blocks, 0, 3 * PART);
        }
    }
    count_inference(&server, &inference, &others);
    ck_assert_uint_eq(inference, 30 * 9 * PART);
    ck_assert_uint_eq(others, 30 * 6 * PART);
}

static unsigned category(struct mp_model *model, const struct mp_rules *rules, uint32_t block, uint32_t moment)
{
    struct mp_categories *categories;
    categories = mp_categories_make(model, rules);
    unsigned found = mp_category_of(categories, block, moment);
    mp_categories_free(categories);
    return found;
}

static void label(struct mp_model *model, uint32_t block, uint32_t event, enum mp_role role)
{
    struct mp_model_label added = {block, event, role, 0};
    ck_assert(mp_vec_push(&model->labels, added));
}

START_TEST(what_the_program_says_counts)
{
    struct training training;
    struct held held = {0};
    start(&training, 7);
    uint32_t odd = make(&training, training.load, MP_CATEGORY_NONE);
    train(&training, &held, 6, true, false);
    struct mp_model *model = world_build(&training.world);
    uint32_t count = (uint32_t)model->events.count, born = model->blocks.alloc_event[held.weights[2]];
    label(model, odd, MP_NONE, MP_ROLE_BUFFER);
    label(model, held.weights[2], born + 10, MP_ROLE_PARAMETER);
    label(model, held.weights[2], born + 20, MP_ROLE_OPTIMIZER_STATE);
    ck_assert_uint_eq(category(model, NULL, odd, 0), MP_CATEGORY_BUFFERS);
    ck_assert_uint_eq(category(model, NULL, odd, count), MP_CATEGORY_BUFFERS);
    ck_assert_uint_eq(category(model, NULL, held.weights[2], born + 5), MP_CATEGORY_PARAMETERS); /* labelled later */
    ck_assert_uint_eq(category(model, NULL, held.weights[2], born + 15), MP_CATEGORY_PARAMETERS);
    ck_assert_uint_eq(category(model, NULL, held.weights[2], born + 25), MP_CATEGORY_OPTIMIZER_STATE);
    ck_assert_uint_eq(category(model, NULL, held.weights[2], count), MP_CATEGORY_OPTIMIZER_STATE);
    /* Another weight has the same stack, but another size: it has no usual label, and with labels, guessing rules are
     * off. */
    ck_assert_uint_eq(category(model, NULL, held.weights[1], count), MP_CATEGORY_NONE);
    model->blocks.bytes[held.weights[1]] = model->blocks.bytes[held.weights[2]];
    ck_assert_uint_eq(category(model, NULL, held.weights[1], count), MP_CATEGORY_PARAMETERS);
    model->blocks.module = calloc(model->blocks.count, sizeof *model->blocks.module);
    model->blocks.module[held.weights[1]] = 1; /* of another module, whose forward made it, then */
    ck_assert_uint_eq(category(model, NULL, held.weights[1], count), MP_CATEGORY_ACTIVATIONS);
    mp_model_free(model);
    finish(&training);
}

/* The block is made in backward, with a gradient's stack and size, but is freed too soon to be a gradient. */
START_TEST(usual_labels_are_not_for_temporaries)
{
    struct training training;
    struct held held = {0};
    start(&training, 3);
    train(&training, &held, 4, false, false);
    struct mp_model *model = world_build(&training.world);
    uint32_t flowing = MP_NONE;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        const struct world_block *block = &training.world.blocks.at[i];
        if (block->stack == training.engine) flowing = i;
        if (block->stack == training.engine || block->stack == training.of_weight) {
            model->blocks.stack[i] = training.world.stacks.at[training.of_weight].node;
            model->blocks.bytes[i] = 512;
        }
    }
    label(model, held.gradients[0] < held.gradients[1] ? held.gradients[0] : held.gradients[1], MP_NONE,
          MP_ROLE_GRADIENT);
    uint32_t count = (uint32_t)model->events.count;
    ck_assert_uint_eq(category(model, NULL, flowing, count), MP_CATEGORY_TEMPORARY);
    ck_assert_uint_eq(category(model, NULL, held.gradients[3], count), MP_CATEGORY_GRADIENTS);
    mp_model_free(model);
    finish(&training);
}

START_TEST(a_loss_that_waits_for_the_next_batches_is_no_input)
{
    struct training training;
    struct world *world = &training.world;
    start(&training, 6);
    uint32_t loss = world_path(world, MAIN " " TORCH "nn/functional.py:cross_entropy:3100", W_TORCH);
    for (int step = 0; step < 6; step++) {
        uint32_t blocks[9];
        for (int i = 0; i < 9; i += 3) {
            blocks[i] = make(&training, training.load, MP_CATEGORY_INPUT);
            blocks[i + 1] = make(&training, training.keep, MP_CATEGORY_ACTIVATIONS);
            blocks[i + 2] = make(&training, loss, MP_CATEGORY_ACTIVATIONS);
        }
        pass(&training, training.engine);
        for (int i = 0; i < 9; i++)
            world_release(world, blocks[i]);
    }
    struct mp_model *model = world_build(world);
    for (uint32_t i = 0; i < model->blocks.count - 10; i++)
        if (world->blocks.at[i].stack == loss)
            ck_assert_uint_eq(category(model, NULL, i, (uint32_t)model->events.count), MP_CATEGORY_ACTIVATIONS);
    mp_model_free(model);
    finish(&training);
}

START_TEST(rules_of_the_user_come_first)
{
    static const char text[] =
        "# mine\n\nattention = [.]forward /home/ada/model\\.py:21$\r\n  input=loss\nlate = forward";
    struct training training;
    struct held held = {0};
    struct mp_rules rules = {0};
    struct mp_error error;
    start(&training, 5);
    train(&training, &held, 3, true, false);
    uint32_t driver = world_alloc(&training.world, world_path(&training.world, MAIN CALL, W_DRIVER), 512);
    struct mp_model *model = world_build(&training.world);
    ck_assert_msg(!mp_rules_parse(&rules, "mine", text, &error), "%s", error.text);
    struct mp_categories *categories;
    categories = mp_categories_make(model, &rules);
    label(model, 0, MP_NONE, MP_ROLE_PARAMETER);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        unsigned found = mp_category_of(categories, i, (uint32_t)model->events.count);
        uint32_t stack = training.world.blocks.at[i].stack;
        ck_assert_uint_lt(found, mp_categories_count(categories));
        if (stack == training.pass) ck_assert_str_eq(mp_category_name(categories, found), "attention");
        if (stack == training.keep) ck_assert_str_eq(mp_category_name(categories, found), "late");
        if (stack == training.loss) ck_assert_uint_eq(found, MP_CATEGORY_INPUT);
    }
    ck_assert_uint_eq(mp_category_of(categories, driver, 1), MP_CATEGORY_NONE);
    mp_categories_free(categories);
    mp_rules_free(&rules);
    mp_model_free(model);
    finish(&training);
}

START_TEST(programs_without_pytorch_have_none)
{
    struct world world;
    world_start(&world, 1, 10);
    world.threads = 1;
    uint32_t site = world_site(&world, "compute", false, W_TORCH, MP_KIND_DEVICE);
    for (int i = 0; i < 20; i++) {
        uint32_t block = world_alloc(&world, site, 512);
        if (i & 1) world_release(&world, block);
    }
    struct mp_model *model = world_build(&world);
    for (uint32_t i = 0; i < model->blocks.count; i++)
        ck_assert_uint_eq(category(model, NULL, i, (uint32_t)model->events.count), MP_CATEGORY_NONE);
    mp_model_free(model);
    world_free(&world);
}

START_TEST(wrong_rules_name_their_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {{"a = b\nwhat\n", "rules, line 2: \"what\" has no =; write NAME = REGEX"},
                 {"a = (\n", "rules, line 1: \"(\" is not a regular expression: Unmatched ( or \\("},
                 {"\n\n = x", "rules, line 3: a rule is NAME = REGEX, and both are needed"},
                 {"x =  \t", "rules, line 1: a rule is NAME = REGEX, and both are needed"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_rules rules = {0};
        struct mp_error error;
        ck_assert_int_eq(mp_rules_parse(&rules, "rules", cases[i].text, &error), MP_INVALID);
        ck_assert_str_eq(error.text, cases[i].message);
        mp_rules_free(&rules);
    }
}

/* The search for a literal before regexec() never hides a match. */
START_TEST(rules_find_what_regexec_finds)
{
    static const char letters[] = "abc.*+?()|[]{}^$\\12-";
    struct world world = {.random = 88172645463325252u};
    size_t compiled = 0, found = 0;
    for (int round = 0; round < 20000; round++) {
        char pattern[12], text[24];
        size_t length = 1 + world_random(&world, sizeof pattern - 2), size = world_random(&world, sizeof text - 1);
        for (size_t i = 0; i < length; i++)
            pattern[i] = letters[world_random(&world, world_random(&world, 2) ? 3 : sizeof letters - 1)];
        for (size_t i = 0; i < size; i++)
            text[i] = letters[world_random(&world, world_random(&world, 8) ? 3 : sizeof letters - 1)];
        pattern[length] = text[size] = '\0';
        regex_t regex;
        struct mp_rules rules = {0};
        bool good = !mp_pattern_compile(pattern, &regex, NULL);
        ck_assert_int_eq(mp_rules_add(&rules, "x", pattern, NULL), good ? MP_OK : MP_INVALID);
        if (good) {
            bool matches = !regexec(&regex, text, 0, NULL, 0);
            ck_assert_msg((mp_rules_find(&rules, text) == 0) == matches, "\"%s\" on \"%s\"", pattern, text);
            compiled++;
            found += matches;
            regfree(&regex);
        }
        mp_rules_free(&rules);
    }
    ck_assert_uint_gt(compiled, 5000);
    ck_assert_uint_gt(found, 1000);
}

/* Every pattern is a regular expression. A stack has the facts of its frames, but only of those inside of the border.
 * Each fact is found once. */
START_TEST(stacks_show_what_their_frames_show)
{
    struct world world;
    world_start(&world, 1, 1);
    uint32_t zeroes = world_path(&world, MAIN " " TORCH "optim/optimizer.py:Optimizer.zero_grad:975", W_TORCH);
    uint32_t other = world_path(&world, MAIN " /home/ada/train.py:zero_gradients:7", W_TORCH);
    uint32_t lists = world_path(&world, MAIN " " TORCH "optim/adam.py:_multi_tensor_adam:600", W_TORCH);
    uint32_t behind = world_path(&world, MAIN " " TORCH "utils/data/a.py:b:1 | /home/ada/train.py:hook:3", W_TORCH);
    uint32_t container = world_path(&world, MAIN CALL " " TORCH "nn/modules/container.py:forward:250", W_TORCH);
    for (uint32_t stack = 0; stack < world.stacks.count; stack++)
        world_release(&world, world_alloc(&world, stack, 512));
    struct mp_model *model = world_build(&world);
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    const struct {
        uint32_t stack, of_stack, inside;
    } wanted[] = {
        {zeroes, MP_FACT_ZEROES | MP_FACT_OPTIMIZER | MP_FACT_OF_TORCH,
         MP_FACT_ZEROES | MP_FACT_OPTIMIZER | MP_FACT_OF_TORCH},
        {other, 0, 0},
        {lists, MP_FACT_LISTS | MP_FACT_ADAM | MP_FACT_OPTIMIZER | MP_FACT_OF_TORCH,
         MP_FACT_LISTS | MP_FACT_ADAM | MP_FACT_OPTIMIZER | MP_FACT_OF_TORCH},
        {behind, MP_FACT_LOADS_DATA | MP_FACT_BACKWARD | MP_FACT_OF_TORCH, MP_FACT_BACKWARD},
        {container, MP_FACT_FORWARD | MP_FACT_CALLS_MODULE | MP_FACT_RUNS_MODULES | MP_FACT_OF_TORCH,
         MP_FACT_FORWARD | MP_FACT_CALLS_MODULE | MP_FACT_RUNS_MODULES | MP_FACT_OF_TORCH},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        uint32_t stack = model->blocks.stack[wanted[i].stack]; /* stack N made block N */
        ck_assert_uint_eq(facts->of_stack[stack], wanted[i].of_stack);
        ck_assert_uint_eq(facts->inside[stack], wanted[i].inside);
    }
    ck_assert_ptr_eq(mp_stack_facts(model), facts);
    mp_model_free(model);
    world_free(&world);
    const struct mp_stack_pattern *pattern;
    for (size_t i = 0; (pattern = mp_stack_pattern(i)); i++) {
        regex_t regex;
        ck_assert_int_eq(mp_pattern_compile(pattern->regex, &regex, NULL), MP_OK);
        ck_assert_uint_eq(pattern->fact & (pattern->fact - 1), 0);
        regfree(&regex);
    }
}

START_TEST(functions_of_pytorch_say_what_they_run)
{
    ck_assert_int_eq(mp_torch_file(TORCH "utils/_contextlib.py"), MP_TORCH_FILE_WRAPS);
    ck_assert_int_eq(mp_torch_file(TORCH "nn/modules/module.py"), MP_TORCH_FILE_CALLS);
    ck_assert_int_eq(mp_torch_file(TORCH "nn/functional.py"), MP_TORCH_FILE_INSIDE);
    ck_assert_int_eq(mp_torch_file(TORCH "autograd/__init__.py"), MP_TORCH_FILE_RUNS);
    ck_assert_int_eq(mp_torch_file(TORCH "optim/sgd.py"), MP_TORCH_FILE_OPTIMIZES);
    ck_assert_int_eq(mp_torch_file("/home/ada/train.py"), MP_TORCH_FILE_NONE);
}

/* A constructor's block is a parameter if backward makes a gradient of its size, and if nothing else is known of it. */
START_TEST(constructors_make_more_than_parameters)
{
    struct training training;
    struct world *world = &training.world;
    start(&training, 3);
    uint32_t constructor = world_path(world, MAIN " /home/ada/replay.py:__init__:20", W_TORCH);
    uint32_t weight = world_alloc(world, constructor, 4096), cache = world_alloc(world, constructor, 1 << 20);
    for (uint32_t step = 0; step < 8; step++) {
        uint32_t kept = world_alloc(world, training.keep, 512), gradient = world_alloc(world, training.engine, 4096);
        world_release(world, kept);
        world_alloc(world, training.moment, 64);
        world_release(world, gradient);
    }
    struct mp_model *model = world_build(world);
    struct mp_categories *categories = mp_categories_make(model, NULL);
    bool guessed;
    ck_assert_uint_eq(mp_category_look(categories, weight, (uint32_t)model->events.count, &guessed),
                      MP_CATEGORY_PARAMETERS);
    ck_assert(guessed);
    ck_assert_uint_eq(mp_category_of(categories, cache, (uint32_t)model->events.count), MP_CATEGORY_NONE);
    mp_categories_free(categories);
    mp_model_free(model);
    world_free(world);
}

MP_SUITE("categories", constructors_make_more_than_parameters, training_is_seen_through,
         a_pool_infers_where_most_of_its_turns_do, one_thread_does_not, what_the_program_says_counts,
         usual_labels_are_not_for_temporaries, a_loss_that_waits_for_the_next_batches_is_no_input,
         rules_of_the_user_come_first, programs_without_pytorch_have_none, wrong_rules_name_their_line,
         rules_find_what_regexec_finds, stacks_show_what_their_frames_show, functions_of_pytorch_say_what_they_run)
