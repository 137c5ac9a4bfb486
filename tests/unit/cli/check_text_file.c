/* Files that users name. A path that is no file is refused at once, by name, and no descriptor stays open. */
#include "cli/text_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/suite.h"

static char folder[] = "/tmp/memprof-text-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void expect_refusal(const char *path, enum mp_status status, const char *words)
{
    struct mp_error error = {0};
    FILE *file = stdin;
    ck_assert_int_eq(mp_text_file_open(path, &file, &error), status);
    ck_assert_ptr_null(file);
    ck_assert_msg(strstr(error.text, words) && strstr(error.text, path), "%s", error.text);
}

static void expect_text(const char *path, const char *bytes, size_t size, enum mp_status status, const char *words)
{
    struct mp_error error = {0};
    struct mp_buffer text = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
    ck_assert_int_eq(mp_text_file_read(path, &text, &error), status);
    if (status)
        ck_assert_msg(strstr(error.text, words), "%s", error.text);
    else
        ck_assert_str_eq((const char *)text.data, words);
    mp_buffer_free(&text);
    unlink(path);
}

START_TEST(what_is_no_file_is_refused)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    expect_refusal(folder, MP_IO, "cannot read");
    expect_refusal(path_of("absent"), MP_IO, "cannot read");
    ck_assert_int_eq(mkfifo(path_of("pipe"), 0600), 0);
    expect_refusal(path_of("pipe"), MP_INVALID,
                   "pipe or a device"); /* a reader would wait for ever, because nobody writes */
    unlink(path_of("pipe"));
    expect_refusal("/dev/zero", MP_INVALID, "pipe or a device");
    rmdir(folder);
}

START_TEST(an_open_pipe_is_read)
{
    int ends[2];
    char path[64], line[16];
    FILE *file;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    ck_assert_int_eq(write(ends[1], "one\n", 4), 4);
    ck_assert_int_eq(mp_text_file_open(path, &file, NULL), MP_OK);
    close(ends[1]);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    ck_assert_str_eq(line, "one\n");
    ck_assert_ptr_null(fgets(line, sizeof line, file));
    fclose(file);
    close(ends[0]);
}

START_TEST(a_file_is_read_whole_or_refused)
{
    static char much[(1 << 20) + 1];
    char name[] = "/tmp/memprof-text-XXXXXX";
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    close(fd);
    expect_text(name, "", 0, MP_OK, "");
    expect_text(name, "a\nb", 3, MP_OK, "a\nb");
    expect_text(name, "a\nb\0c", 5, MP_INVALID, "line 2: the line holds a byte 0");
    memset(much, 'x', sizeof much);
    expect_text(name, much, sizeof much, MP_INVALID, "more than 1 MiB");
    much[sizeof much - 1] = '\0';
    expect_text(name, much, sizeof much - 1, MP_OK, much);
}

MP_SUITE("text file", what_is_no_file_is_refused, an_open_pipe_is_read, a_file_is_read_whole_or_refused)
