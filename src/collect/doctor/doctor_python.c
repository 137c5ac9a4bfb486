/* The Pythons of the search path, and the torch of each: by its files, since importing it takes seconds. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/doctor/doctor_parts.h"
#include "wire/config.h"

#define PYTHONS_MAX 12

/* Prints MINOR, VERSION, whether it is free-threaded, its path, and torch's folder and version. */
static char script[] = "import sys, importlib.util as u, os, sysconfig\n"
                       "s = u.find_spec('torch')\n"
                       "f = os.path.dirname(s.origin) if s and s.origin else ''\n"
                       "v = {}\n"
                       "try: exec(open(os.path.join(f, 'version.py')).read(), v)\n"
                       "except Exception: pass\n"
                       "print(sys.version_info[1], '.'.join(map(str, sys.version_info[:3])),\n"
                       "      int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))), sep='\\n')\n"
                       "print(sys.executable, f, v.get('__version__', ''), sep='\\n')\n";

/* ---- Pythons ---- */

/* Real paths of all programs called python3 or python3.N on the search path; freed by the caller. */
static size_t find_pythons(char *found[PYTHONS_MAX])
{
    size_t count = 0;
    char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin"), *rest = path;
    for (char *folder; path && (folder = strsep(&rest, ":"));) {
        for (int minor = -1; minor < 30 && count < PYTHONS_MAX; minor++) {
            char name[PATH_MAX], number[8] = "";
            if (minor >= 0) snprintf(number, sizeof number, ".%d", minor);
            snprintf(name, sizeof name, "%s/python3%s", *folder ? folder : ".", number);
            char *real = access(name, X_OK) ? NULL : realpath(name, NULL);
            bool known = !real;
            for (size_t i = 0; i < count && !known; i++) {
                char *other = realpath(found[i], NULL);
                known = other && !strcmp(other, real);
                free(other);
            }
            free(real);
            /* Kept under this name: a virtual environment is known by the path of its link. */
            if (!known) found[count] = strdup(name);
            count += !known && found[count];
        }
    }
    free(path);
    return count;
}

static bool check_python(struct mp_checks *checks, char *python, bool *is_real, char *site)
{
    char answer[MP_ANSWER_ROOM], *rest = answer, *fields[6], none[] = "";
    char *command[] = {python, (char[]){"-c"}, script, NULL};
    *is_real = mp_doctor_run(command, answer);
    if (!*is_real) return true; /* for instance a shim that starts nothing */
    for (size_t i = 0; i < 6; i++) {
        fields[i] = rest ? strsep(&rest, "\n") : NULL;
        if (!fields[i]) fields[i] = none;
    }
    int minor = atoi(fields[0]);
    for (size_t i = 0; i < checks->count; i++) {
        const char *path = strchr(checks->at[i].found, '/');
        if (path && !strcmp(path, fields[3])) return true; /* the same one under another name, or through a shim */
    }
    bool known = minor >= MP_PYTHON_MINOR_FIRST && minor <= MP_PYTHON_MINOR_LAST;
    struct mp_check *check = mp_doctor_add(checks, "python", known ? MP_CHECK_OK : MP_CHECK_LIMITED, "%s%s, %s",
                                           fields[1], atoi(fields[2]) ? " free-threaded" : "", fields[3]);
    if (!known)
        mp_doctor_advise(check,
                         "its frames are unknown to this version of memprof: stacks are native only (known: 3.%d "
                         "to 3.%d)",
                         MP_PYTHON_MINOR_FIRST, MP_PYTHON_MINOR_LAST);
    if (!check || !*fields[4]) return check;
    if (!*site) {
        snprintf(site, PATH_MAX, "%s", fields[4]);
        char *slash = strrchr(site, '/');
        if (slash) *slash = '\0';
    }
    return mp_doctor_torch(checks, fields[4], fields[5]);
}

bool mp_doctor_pythons(struct mp_checks *checks, char *site)
{
    char *pythons[PYTHONS_MAX];
    size_t count = find_pythons(pythons), real = 0;
    bool done = true;
    for (size_t i = 0; i < count; i++) {
        bool is_real = false;
        if (done) done = check_python(checks, pythons[i], &is_real, site);
        real += is_real;
        free(pythons[i]);
    }
    if (!done || real) return done;
    struct mp_check *check = mp_doctor_add(checks, "python", MP_CHECK_ABSENT, "none on the search path");
    mp_doctor_advise(check, "programs in other languages are recorded all the same");
    return check;
}
