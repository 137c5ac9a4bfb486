/*
 * Does libFuzzer's work for `make check` and for machines without clang. It runs a target over files and over damaged
 * copies of them, the same ones for the same seed.
 *
 *     replay_NAME ROUNDS FILE...
 *
 * A crash leaves the input that led to it in the file crash-NAME. Each input has a deadline, all together a bound of
 * memory (not under AddressSanitizer, which wants terabytes of addresses).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_BYTES (1 << 20)
#define DEADLINE_S  60
#define MEMORY      ((rlim_t)4 << 30)

static uint64_t state = 88172645463325252u;
static uint8_t input[INPUT_BYTES], whole[INPUT_BYTES];
static size_t size;
static char crash_name[4096];

static uint64_t dice(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : 0;
}

/* Values that stand at bounds, in little-endian bytes. */
static void put_bound(uint8_t *at, size_t room)
{
    static const uint64_t bounds[] = {
        0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, UINT64_MAX >> 1, UINT64_MAX};
    uint64_t value = bounds[dice(sizeof bounds / sizeof *bounds)];
    size_t width = (size_t)1 << dice(4);
    memcpy(at, &value, width < room ? width : room);
}

static void mutate(void)
{
    size_t at = (size_t)dice(size), length = 1 + (size_t)dice(size - at < 64 ? size - at : 64);
    if (length > size - at) length = size - at;
    switch (dice(6)) {
    case 0:
        input[at] ^= (uint8_t)(1u << dice(8));
        return;
    case 1:
        input[at] = (uint8_t)dice(256);
        return;
    case 2:
        put_bound(input + at, size - at);
        return;
    case 3:
        memmove(input + at, input + at + length, size - at - length);
        size -= length;
        return;
    case 4:
        if (size + length > INPUT_BYTES) return;
        memmove(input + at + length, input + at, size - at);
        size += length;
        return;
    default:
        size = at;
    }
}

static void on_end(int number)
{
    int fd = open(crash_name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd >= 0 && write(fd, input, size) == (ssize_t)size) close(fd);
    signal(number, SIG_DFL);
    raise(number);
}

static void run(void)
{
    alarm(DEADLINE_S);
    LLVMFuzzerTestOneInput(input, size);
    alarm(0);
}

static size_t read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    size_t got = fread(whole, 1, INPUT_BYTES, file);
    fclose(file);
    return got;
}

int main(int argc, char **argv)
{
    static const int ends[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
    if (argc < 3) return 2;
    const char *name = strrchr(argv[0], '/');
    snprintf(crash_name, sizeof crash_name, "crash-%s", name ? name + 1 : argv[0]);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        signal(ends[i], on_end);
#ifndef __SANITIZE_ADDRESS__
    setrlimit(RLIMIT_AS, &(struct rlimit){MEMORY, MEMORY});
#endif
    if (!getenv("MEMPROF_FUZZ_LOUD") && !freopen("/dev/null", "w", stderr)) return 1;
    long rounds = strtol(argv[1], NULL, 10);
    for (int i = 2; i < argc; i++) {
        size_t length = read_file(argv[i]);
        for (long round = 0; round <= rounds; round++) {
            memcpy(input, whole, length);
            size = length;
            for (uint64_t times = round ? 1 + dice(4) : 0; times && size; times--)
                mutate();
            run();
        }
    }
    return 0;
}
