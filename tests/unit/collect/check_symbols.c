/* The resolver compared with GNU addr2line and nm, which share no code with elfutils, on a library built for this
 * test. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"
#include "collect/symbols/debug_files.h"
#include "collect/symbols/symbol_file.h"
#include "collect/symbols/symbols.h"
#include "unit/suite.h"

#define MODULE 3 /* module id of the tested file */

static char folder[] = "/tmp/check_symbols.XXXXXX";

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...)
{
    char command[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    ck_assert_msg(system(command) == 0, "failed: %s", command);
}

/* Makes a copy of the fixture and runs shell commands on it; they name it "$f". */
static const char *make_variant(const char *name, const char *commands)
{
    const char *path = in_folder(name);
    shell("cd %s && f=%s && cp %s $f && { %s; }", folder, name, FIXTURE, commands);
    return path;
}

static void enter_folder(void)
{
    strcpy(strrchr(folder, '.'), ".XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void leave_folder(void)
{
    shell("rm -r %s", folder);
}

static struct mp_symbols *open_file(const char *path, const struct mp_file_id *id)
{
    struct mp_symbols *symbols;
    ck_assert_int_eq(mp_symbols_open(&symbols, NULL), MP_OK);
    ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE, path, id, NULL, NULL), MP_OK);
    return symbols;
}

/* ---- what nm says: the symbols with a size, as ranges */

struct range {
    uint64_t start, size;
    char name[128];
};

struct ranges {
    MP_VEC(struct range) of;
};

static void read_ranges(struct ranges *ranges, const char *options, const char *file)
{
    char command[512], line[1024];
    snprintf(command, sizeof command, "nm -S --defined-only %s %s", options, file);
    FILE *nm = popen(command, "r");
    ck_assert_ptr_nonnull(nm);
    while (fgets(line, sizeof line, nm)) {
        struct range range;
        char type;
        if (sscanf(line, "%lx %lx %c %127[^\n@]", &range.start, &range.size, &type, range.name) != 4) continue;
        if (strchr("tTwWi", type)) ck_assert(mp_vec_push(&ranges->of, range));
    }
    ck_assert_int_eq(pclose(nm), 0);
    ck_assert_uint_gt(ranges->of.count, 0);
}

static bool in_a_range(const struct ranges *ranges, uint64_t address)
{
    for (size_t i = 0; i < ranges->of.count; i++)
        if (address - ranges->of.at[i].start < ranges->of.at[i].size) return true;
    return false;
}

static uint64_t start_of(const char *name)
{
    struct ranges ranges = {0};
    read_ranges(&ranges, "", FIXTURE);
    for (size_t i = 0; i < ranges.of.count; i++) {
        if (strcmp(ranges.of.at[i].name, name)) continue;
        uint64_t start = ranges.of.at[i].start;
        mp_vec_free(&ranges.of);
        return start;
    }
    ck_abort_msg("no symbol %s in the fixture", name);
    return 0;
}

/* ---- what addr2line says */

/* "function at file:line" for every frame of `address`, innermost first; unknown parts are "??" and 0. */
static void print_expected(char *text, size_t room, FILE *addr2line, char *line, size_t line_room, bool names)
{
    *text = 0;
    char function[512], *place = line;
    while (fgets(line, (int)line_room, addr2line) && strncmp(line, "0x", 2)) {
        snprintf(function, sizeof function, "%.*s", (int)strcspn(line, "\n"), line);
        ck_assert_ptr_nonnull(fgets(line, (int)line_room, addr2line));
        place[strcspn(place, " \n")] = 0; /* a discriminator may follow */
        char *number = strrchr(place, ':');
        ck_assert_ptr_nonnull(number);
        if (number[1] == '?') strcpy(number, ":0");
        size_t length = strlen(text);
        snprintf(text + length, room - length, "%s at %s\n", names ? function : "", place);
    }
}

static void print_found(char *text, size_t room, struct mp_symbols *symbols, uint64_t address, bool names)
{
    const struct mp_symbol_line *lines;
    size_t count = mp_symbols_resolve(symbols, MODULE, address + 1, &lines);
    *text = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(text);
        const char *function = lines[i].function ? lines[i].function : "??";
        snprintf(text + length, room - length, "%s at %s:%u\n", names ? function : "",
                 lines[i].file ? lines[i].file : "??", lines[i].line);
    }
}

/* Resolves every byte of the code in `reference` from `path`, and compares with addr2line on `reference`. addr2line
 * knows less of some C++ names, which `names` allows. Returns how many addresses had inlined frames. */
static int compare_all(const char *path, const char *reference, const struct ranges *ranges, bool names)
{
    struct mp_symbols *symbols = open_file(path, NULL);
    uint64_t start = UINT64_MAX, end = 0;
    mp_vec_each (const struct range, range, &ranges->of) {
        if (range->start < start) start = range->start;
        if (range->start + range->size > end) end = range->start + range->size;
    }
    const char *list = in_folder("addresses");
    FILE *addresses = fopen(list, "w");
    ck_assert_ptr_nonnull(addresses);
    for (uint64_t address = start; address < end; address++)
        fprintf(addresses, "%lx\n", address);
    fclose(addresses);

    char command[512], line[1024] = "", expected[4096], found[4096];
    snprintf(command, sizeof command, "addr2line -a -f -i -C -e %s < %s", reference, list);
    FILE *addr2line = popen(command, "r");
    ck_assert_ptr_nonnull(addr2line);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, addr2line));
    int inlined = 0;
    for (uint64_t address = start; address < end; address++) {
        print_expected(expected, sizeof expected, addr2line, line, sizeof line, names);
        print_found(found, sizeof found, symbols, address, names);
        if (!in_a_range(ranges, address)) *expected = 0;
        ck_assert_msg(!strcmp(found, expected), "%lx: found\n%sexpected\n%s", address, found, expected);
        inlined += strchr(found, '\n') != strrchr(found, '\n');
    }
    pclose(addr2line);
    mp_symbols_close(symbols);
    return inlined;
}

START_TEST(every_address_has_its_inlined_frames_and_lines)
{
    enter_folder();
    struct ranges ranges = {0};
    read_ranges(&ranges, "", FIXTURE);
    ck_assert_int_gt(compare_all(FIXTURE, FIXTURE, &ranges, true), 50);
    /* clang writes no .debug_aranges. */
    ck_assert_int_gt(
        compare_all(make_variant("plain.so", "objcopy --remove-section .debug_aranges $f"), FIXTURE, &ranges, true),
        50);
    mp_vec_free(&ranges.of);
    leave_folder();
}

START_TEST(relative_names_are_from_where_the_compiler_ran)
{
    enter_folder();
    const char *path = in_folder("relative.so");
    shell("cd %s && mkdir here sources && cp " FIXTURE_SOURCES "/fixture.c sources && cd here && "
          "cc -g -O2 -fPIC -shared -o ../relative.so ../sources/fixture.c",
          folder);
    struct ranges ranges = {0};
    read_ranges(&ranges, "", path);
    ck_assert_int_gt(compare_all(path, path, &ranges, true), 50);
    mp_vec_free(&ranges.of);
    leave_folder();
}

START_TEST(lambdas_and_templates_are_found)
{
    if (system("c++ --version > /dev/null 2>&1") != 0) return;
    enter_folder();
    const char *path = in_folder("cpp.so");
    shell("c++ -g -O2 -fPIC -shared -o %s " FIXTURE_SOURCES "/fixture.cpp", path);
    struct ranges ranges = {0};
    read_ranges(&ranges, "", path);
    ck_assert_int_gt(compare_all(path, path, &ranges, false), 200);
    mp_vec_free(&ranges.of);
    leave_folder();
}

START_TEST(debug_files_are_found_and_must_belong)
{
    enter_folder();
    struct ranges ranges = {0};
    read_ranges(&ranges, "", FIXTURE);
    const char *split =
        "objcopy --only-keep-debug $f $f.debug && strip -s $f && objcopy --add-gnu-debuglink=$f.debug $f";
    char commands[512];
    ck_assert_int_gt(compare_all(make_variant("beside.so", split), FIXTURE, &ranges, true), 50);

    snprintf(commands, sizeof commands, "%s && mkdir .debug && mv $f.debug .debug", split);
    ck_assert_int_gt(compare_all(make_variant("below.so", commands), FIXTURE, &ranges, true), 50);

    /* Without a build-id, the checksum in .gnu_debuglink is the proof. */
    snprintf(commands, sizeof commands, "objcopy --remove-section .note.gnu.build-id $f && %s", split);
    ck_assert_int_gt(compare_all(make_variant("checksum.so", commands), FIXTURE, &ranges, true), 50);

    /* A foreign debug file under the right name, with another build-id or checksum, is not used. */
    for (int with_id = 0; with_id < 2; with_id++) {
        snprintf(commands, sizeof commands,
                 "%s%s && echo 'int x(void){return 1;}' | cc -g -x c -shared -fPIC -o $f.debug -",
                 with_id ? "" : "objcopy --remove-section .note.gnu.build-id $f && ", split);
        const char *path = make_variant(with_id ? "foreign1.so" : "foreign0.so", commands);
        struct mp_symbols *symbols = open_file(path, NULL);
        const struct mp_symbol_line *lines;
        ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, start_of("fixture_outer") + 5, &lines), 1);
        ck_assert_str_eq(lines[0].function, "fixture_outer");
        ck_assert_ptr_null(lines[0].file);
        mp_symbols_close(symbols);
    }
    mp_vec_free(&ranges.of);
    leave_folder();
}

/* True if the module "NAME" below the root has lines; NULL: as a path of this machine. */
static bool has_lines(const char *root, const char *name)
{
    const struct mp_symbol_line *lines;
    struct mp_symbols *symbols;
    ck_assert_int_eq(mp_symbols_open(&symbols, NULL), MP_OK);
    const char *path = root ? name : in_folder(name + 1);
    ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE, path, NULL, root, NULL), MP_OK);
    ck_assert_uint_ge(mp_symbols_resolve(symbols, MODULE, start_of("fixture_outer") + 5, &lines), 1);
    bool found = lines[0].file && lines[0].line;
    mp_symbols_close(symbols);
    return found;
}

/* Reading the C library's debug information again would take 50 ms at each process's end. */
START_TEST(the_next_recording_takes_over_what_was_read)
{
    enter_folder();
    mp_symbol_files_share(true);
    make_variant("once.so", "objcopy --only-keep-debug $f $f.debug && strip -s $f && "
                            "objcopy --add-gnu-debuglink=$f.debug $f");
    ck_assert(has_lines(NULL, "/once.so"));
    ck_assert_int_eq(unlink(in_folder("once.so.debug")), 0);
    ck_assert(has_lines(NULL, "/once.so"));
    mp_symbol_files_share(false);
    ck_assert(!has_lines(NULL, "/once.so"));
    leave_folder();
}

/* Debug files of a container are in the container's root, found by build-id or by the library's path there. */
START_TEST(debug_files_below_a_root)
{
    static const char *const ways[] = {
        /* at the path of the library's build-id, without a link to it */
        "d=usr/lib/debug/.build-id/$(echo $id | cut -c1-2) && mkdir -p $d && mv f.debug $d/$(echo $id | cut "
        "-c3-).debug",
        "objcopy --add-gnu-debuglink=f.debug lib/f.so && mkdir -p usr/lib/debug/lib && mv f.debug usr/lib/debug/lib",
        "objcopy --add-gnu-debuglink=f.debug lib/f.so && mkdir -p usr/lib/debug && mv f.debug usr/lib/debug",
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        enter_folder();
        shell("cd %s && mkdir lib && cp %s lib/f.so && objcopy --only-keep-debug lib/f.so f.debug && strip -s lib/f.so "
              "&& "
              "id=$(readelf -n lib/f.so | sed -n 's/.*Build ID: //p') && test ${#id} = 40 && %s",
              folder, FIXTURE, ways[i]);
        ck_assert_int_eq(has_lines(folder, "/lib/f.so"), i < 2);
        ck_assert(!has_lines(NULL, "/lib/f.so")); /* this path does not exist on this machine */
        if (i == 0) {                             /* a foreign file under that name */
            shell("cd %s/usr/lib/debug/.build-id/* && echo 'int x(void){return 1;}' | cc -g -x c -shared -fPIC -o "
                  "$(ls) -",
                  folder);
            ck_assert(!has_lines(folder, "/lib/f.so"));
        }
        leave_folder();
    }
}

/* Compares every address with nm: a symbol contains it and has that name, or no symbol contains it. */
static void compare_names(const char *path, const struct ranges *ranges, uint64_t from, uint64_t to, uint64_t step)
{
    struct mp_symbols *symbols = open_file(path, NULL);
    for (uint64_t address = from; address < to; address += step) {
        const struct mp_symbol_line *lines;
        size_t count = mp_symbols_resolve(symbols, MODULE, address + 1, &lines);
        if (!in_a_range(ranges, address)) {
            ck_assert_msg(!count, "%lx is in no symbol, but was called %s", address, lines[0].function);
            continue;
        }
        ck_assert_uint_eq(count, 1);
        bool named = false;
        for (size_t i = 0; i < ranges->of.count && !named; i++) {
            const struct range *range = &ranges->of.at[i];
            named = address - range->start < range->size && !strcmp(range->name, lines[0].function);
        }
        ck_assert_msg(named, "%lx is not in %s", address, lines[0].function);
    }
    mp_symbols_close(symbols);
}

START_TEST(a_stripped_library_has_its_dynamic_symbols_and_no_others)
{
    enter_folder();
    const char *path = make_variant("stripped.so", "strip -s $f");
    struct ranges ranges = {0};
    read_ranges(&ranges, "-D -C", path);
    compare_names(path, &ranges, 0, 0x3000, 1);

    struct mp_symbols *symbols = open_file(path, NULL);
    const struct mp_symbol_line *lines;
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, start_of("local_function") + 5, &lines), 0);
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, start_of("fixture_outer") + 5, &lines), 1);
    ck_assert_str_eq(lines[0].function, "fixture_outer"); /* and not its alias with underscores */
    ck_assert_ptr_null(lines[0].file);
    ck_assert_uint_eq(lines[0].line, 0);
    /* A return address is looked up one byte earlier, so that a call at the very end of a function is found in it. */
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, start_of("fixture_outer"), &lines), 0);
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, 0, &lines), 0);
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, UINT64_MAX, &lines), 0);
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE + 1, 0x1000, &lines), 0);
    ck_assert_ptr_null(mp_symbols_note(symbols, MODULE));
    mp_symbols_close(symbols);
    mp_vec_free(&ranges.of);
    leave_folder();
}

START_TEST(compressed_symbols_of_a_stripped_library_are_read)
{
    if (system("xz --version > /dev/null 2>&1") != 0) return;
    enter_folder();
    const char *path =
        make_variant("mini.so", "objcopy --only-keep-debug --remove-section '.debug*' $f mini && xz mini && "
                                "strip -s $f && objcopy --add-section .gnu_debugdata=mini.xz $f");
    struct mp_symbols *symbols = open_file(path, NULL);
    const struct mp_symbol_line *lines;
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, start_of("local_function") + 5, &lines), 1);
    ck_assert_str_eq(lines[0].function, "local_function");
    mp_symbols_close(symbols);
    leave_folder();
}

START_TEST(names_of_cpp_are_demangled_whole)
{
    struct mp_symbols *symbols = open_file(FIXTURE, NULL);
    const struct mp_symbol_line *lines;
    size_t count = mp_symbols_resolve(symbols, MODULE, start_of("_ZN4shop4CartIiE3addERKSt4pairIiPcEm") + 2, &lines);
    ck_assert_uint_gt(count, 0);
    ck_assert_str_eq(lines[count - 1].function, "shop::Cart<int>::add(std::pair<int, char*> const&, unsigned long)");
    mp_symbols_close(symbols);
}

/* The path of a library that this program has loaded. */
static bool find_loaded(const char *name, char *path, size_t room)
{
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "r");
    bool found = false;
    while (!found && fgets(line, sizeof line, maps)) {
        char *slash = strchr(line, '/');
        found = slash && strstr(slash, name);
        if (found) snprintf(path, room, "%.*s", (int)strcspn(slash, "\n"), slash);
    }
    fclose(maps);
    return found;
}

START_TEST(libc_is_named_like_nm_names_it)
{
    char path[512];
    struct ranges ranges = {0};
    ck_assert(find_loaded("/libc.so.6", path, sizeof path));
    read_ranges(&ranges, "-D", path);
    const struct range *memory = NULL;
    for (size_t i = 0; i < ranges.of.count; i++)
        if (!strcmp(ranges.of.at[i].name, "malloc")) memory = &ranges.of.at[i];
    ck_assert_ptr_nonnull(memory);
    struct mp_symbols *symbols = open_file(path, NULL);
    const struct mp_symbol_line *lines;
    size_t count = mp_symbols_resolve(symbols, MODULE, memory->start + memory->size, &lines);
    ck_assert_uint_ge(count, 1);
    ck_assert_ptr_nonnull(lines[count - 1].function);
    bool debug_file = lines[0].file;
    if (!debug_file) ck_assert_str_eq(lines[0].function, "malloc");
    mp_symbols_close(symbols);
    if (!debug_file) compare_names(path, &ranges, memory->start - 0x8000, memory->start + 0x8000, 7);
    mp_vec_free(&ranges.of);
}

/* ---- the network */

/* libdw reads DEBUGINFOD_URLS when it is loaded, so that this program starts itself again with one: a port on which it
 * listens. */
static int listener = -1;

__attribute__((constructor)) static void start_with_debuginfod(void)
{
    const char *inherited = getenv("CHECK_SYMBOLS_LISTENER");
    if (inherited) {
        listener = atoi(inherited);
        return;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 8) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        return;
    char text[64];
    snprintf(text, sizeof text, "http://127.0.0.1:%u", ntohs(address.sin_port));
    setenv("DEBUGINFOD_URLS", text, 1);
    snprintf(text, sizeof text, "%d", fd);
    setenv("CHECK_SYMBOLS_LISTENER", text, 1);
    execl("/proc/self/exe", program_invocation_name, (char *)NULL);
}

START_TEST(no_server_is_asked)
{
    enter_folder();
    ck_assert_int_ge(listener, 0);
    ck_assert_ptr_nonnull(getenv("DEBUGINFOD_URLS"));
    struct mp_symbols *symbols = open_file(make_variant("stripped.so", "strip -s $f"), NULL);
    const struct mp_symbol_line *lines;
    ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, start_of("fixture_outer") + 5, &lines), 1);
    ck_assert_int_eq(accept(listener, NULL, NULL), -1);
    ck_assert_int_eq(errno, EAGAIN);
    mp_symbols_close(symbols);
    leave_folder();
}

/* ---- which file it is */

static struct mp_file_id identify(const char *path)
{
    struct stat status;
    struct mp_file_id id = {0};
    ck_assert_int_eq(stat(path, &status), 0);
    id.size = (uint64_t)status.st_size;
    id.inode = status.st_ino;
    id.mtime_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    int fd = open(path, O_RDONLY);
    id.build_id_size = (uint8_t)mp_read_build_id(fd, id.build_id, sizeof id.build_id);
    close(fd);
    return id;
}

/* Asserts that fixture_outer is `known` or not, and that the module's note contains `note` (NULL: it has no note). */
static void expect(struct mp_symbols *symbols, uint32_t module, bool known, const char *note)
{
    const struct mp_symbol_line *lines;
    size_t count = mp_symbols_resolve(symbols, module, start_of("fixture_outer") + 5, &lines);
    ck_assert_int_eq(count != 0, known);
    const char *reported = mp_symbols_note(symbols, module);
    ck_assert_msg(note ? reported && strstr(reported, note) : !reported, "note: %s", reported ? reported : "none");
}

START_TEST(the_build_id_decides)
{
    enter_folder();
    const char *path = make_variant("f.so", ":");
    struct mp_file_id id = identify(path), other;
    ck_assert_uint_eq(id.build_id_size, 20);
    other = id;
    other.size = other.inode = 1; /* the same build elsewhere: a container's copy */
    struct mp_symbols *symbols = open_file(path, &other);
    expect(symbols, MODULE, true, NULL);
    other = id;
    other.build_id[19] ^= 1;
    ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE + 1, path, &other, NULL, NULL), MP_OK);
    expect(symbols, MODULE + 1, false, "replaced");
    /* The same under another root. */
    ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE + 2, "/f.so", &id, folder, NULL), MP_OK);
    expect(symbols, MODULE + 2, true, NULL);
    mp_symbols_close(symbols);
    leave_folder();
}

START_TEST(without_a_build_id_size_inode_and_time_decide)
{
    enter_folder();
    const char *path = make_variant("f.so", "objcopy --remove-section .note.gnu.build-id $f");
    struct mp_file_id id = identify(path), other;
    ck_assert_uint_eq(id.build_id_size, 0);
    struct mp_symbols *symbols = open_file(path, &id);
    expect(symbols, MODULE, true, NULL);
    for (int what = 0; what < 3; what++) {
        other = id;
        other.size += what == 0;
        other.inode += what == 1;
        other.mtime_ns += what == 2;
        ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE, path, &other, NULL, NULL), MP_OK);
        expect(symbols, MODULE, false, "replaced");
    }
    /* A build-id on only one side is ignored. */
    other = id;
    other.build_id_size = 20;
    ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE, path, &other, NULL, NULL), MP_OK);
    expect(symbols, MODULE, true, NULL);
    mp_symbols_close(symbols);
    leave_folder();
}

START_TEST(a_file_may_go_once_it_was_seen)
{
    enter_folder();
    const char *path = make_variant("f.so", ":");
    struct mp_file_id id = identify(path);
    struct mp_symbols *symbols = open_file(path, &id);
    shell("rm %s && echo other > %s", path, path);
    expect(symbols, MODULE, true, NULL);
    ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE + 1, path, &id, NULL, NULL), MP_OK);
    expect(symbols, MODULE + 1, false, "replaced");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mp_symbols_add_module(symbols, MODULE + 2, path, &id, NULL, NULL), MP_OK);
    expect(symbols, MODULE + 2, false, "No such file");
    mp_symbols_close(symbols);
    leave_folder();
}

START_TEST(a_file_overwritten_in_place_is_not_touched)
{
    enter_folder();
    const struct mp_symbol_line *lines;
    for (int loaded = 0; loaded < 2; loaded++) {
        const char *path = make_variant("f.so", ":");
        struct mp_file_id id = identify(path);
        struct mp_symbols *symbols = open_file(path, &id);
        if (loaded) expect(symbols, MODULE, true, NULL);
        shell("truncate -s 0 %s", path); /* reading what is mapped of it is a SIGBUS now */
        ck_assert_uint_eq(mp_symbols_resolve(symbols, MODULE, start_of("fixture_outer") + 9, &lines), 0);
        expect(symbols, MODULE, loaded, "overwritten"); /* symbols that were read stay known */
        mp_symbols_close(symbols);
    }
    leave_folder();
}

START_TEST(what_is_no_elf_file_has_no_symbols)
{
    enter_folder();
    shell("cd %s && echo text > text && : > empty && head -c 3000 %s > cut && mkfifo fifo", folder, FIXTURE);
    static const struct {
        const char *path, *note;
    } cases[] = {{"text", "no symbols"}, {"empty", "no symbols"}, {"fifo", "regular"}, {"", "regular"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_symbols *symbols = open_file(in_folder(cases[i].path), NULL);
        expect(symbols, MODULE, false, cases[i].note);
        mp_symbols_close(symbols);
    }
    struct mp_symbols *symbols = open_file(in_folder("cut"), NULL);
    const struct mp_symbol_line *lines;
    for (uint64_t address = 1; address < 0x3000; address += 64) /* anything but a crash */
        mp_symbols_resolve(symbols, MODULE, address, &lines);
    ck_assert_int_eq(mp_symbols_add_module(symbols, 0, "[vdso]", NULL, NULL, NULL), MP_OK);
    expect(symbols, 0, false, NULL);
    ck_assert_int_eq(mp_symbols_add_module(symbols, 1, "", NULL, NULL, NULL), MP_OK);
    expect(symbols, 1, false, NULL);
    ck_assert_int_eq(mp_symbols_add_module(symbols, UINT32_MAX, "/x", NULL, NULL, NULL), MP_LIMIT);
    mp_symbols_close(symbols);
    leave_folder();
}

MP_SUITE("symbols", every_address_has_its_inlined_frames_and_lines, relative_names_are_from_where_the_compiler_ran,
         lambdas_and_templates_are_found, debug_files_are_found_and_must_belong, debug_files_below_a_root,
         the_next_recording_takes_over_what_was_read, a_stripped_library_has_its_dynamic_symbols_and_no_others,
         compressed_symbols_of_a_stripped_library_are_read, names_of_cpp_are_demangled_whole,
         libc_is_named_like_nm_names_it, no_server_is_asked, the_build_id_decides,
         without_a_build_id_size_inode_and_time_decide, a_file_may_go_once_it_was_seen,
         a_file_overwritten_in_place_is_not_touched, what_is_no_elf_file_has_no_symbols)
