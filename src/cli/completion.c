#include "cli/completion.h"
#include "cli/help.h"

#include <string.h>

#define MADE "made by `memprof completion`; do not edit.\n"

/* Runs `put` for each option of a command. */
static void each_option(struct mp_buffer *out, const struct mp_command *command,
                        void put(struct mp_buffer *out, const struct mp_command *command, enum mp_option option))
{
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++)
        if (mp_command_takes(command, i)) put(out, command, i);
}

/* Appends text in single quotes; `escaped` characters get a backslash in them, as fish wants it. */
static void quoted(struct mp_buffer *out, const char *text, const char *escaped)
{
    mp_buffer_append_text(out, "'");
    for (; *text; text++) {
        if (strchr(escaped, *text))
            mp_buffer_printf(out, "\\%c", *text);
        else if (*text == '\'')
            mp_buffer_append_text(out, "'\\''");
        else
            mp_buffer_append(out, text, 1);
    }
    mp_buffer_append_text(out, "'");
}

static void bash_option(struct mp_buffer *out, const struct mp_command *command, enum mp_option option)
{
    (void)command;
    mp_buffer_printf(out, "%s--%s", option == MP_OPT_HELP ? "" : " ", mp_option_rows[option].name);
}

static void write_bash(struct mp_buffer *out)
{
    mp_buffer_append_text(out, "# bash completion for memprof, " MADE "_memprof()\n{\n"
                               "    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
                               "    COMPREPLY=()\n"
                               "    if ((COMP_CWORD == 1)); then\n"
                               "        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; mp_commands[i]; i++)
        if (!mp_commands[i]->hidden) mp_buffer_printf(out, "%s ", mp_commands[i]->name);
    mp_buffer_append_text(out, "--help --version' -- \"$word\"))\n"
                               "        return\n"
                               "    fi\n"
                               "    [[ $word == -* && \" ${COMP_WORDS[*]:2:COMP_CWORD-2} \" != *' -- '* ]] || return\n"
                               "    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; mp_commands[i]; i++) {
        if (mp_commands[i]->hidden) continue;
        mp_buffer_printf(out, "    %s) options='", mp_commands[i]->name);
        each_option(out, mp_commands[i], bash_option);
        mp_buffer_append_text(out, "' ;;\n");
    }
    mp_buffer_append_text(out, "    esac\n"
                               "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                               "}\n"
                               "complete -o default -F _memprof memprof\n");
}

static void zsh_row(struct mp_buffer *out, const char *dashes, const char *name, const char *help)
{
    struct mp_buffer row = {0};
    mp_buffer_printf(&row, "%s%s:%s", dashes, name, help);
    mp_buffer_append_text(out, "        ");
    quoted(out, mp_buffer_text(&row), "");
    mp_buffer_append_text(out, "\n");
    mp_buffer_free(&row);
}

static void zsh_option(struct mp_buffer *out, const struct mp_command *command, enum mp_option option)
{
    zsh_row(out, "--", mp_option_rows[option].name, mp_command_option_help(command, option));
}

static void write_zsh(struct mp_buffer *out)
{
    mp_buffer_append_text(out, "#compdef memprof\n# zsh completion for memprof, " MADE "_memprof()\n{\n"
                               "    local -a rows\n"
                               "    local end=${words[(i)--]}\n"
                               "    if ((CURRENT > end)); then # after --: another command\n"
                               "        shift $end words\n"
                               "        ((CURRENT -= end))\n"
                               "        _normal\n"
                               "        return\n"
                               "    fi\n"
                               "    if ((CURRENT == 2)); then\n"
                               "        rows=(\n");
    for (size_t i = 0; mp_commands[i]; i++)
        if (!mp_commands[i]->hidden) zsh_row(out, "", mp_commands[i]->name, mp_commands[i]->summary);
    mp_buffer_append_text(out, "        )\n"
                               "        _describe command rows\n"
                               "        _files\n"
                               "        return\n"
                               "    fi\n"
                               "    [[ $PREFIX == -* ]] || { _files; return; }\n"
                               "    case ${words[2]} in\n");
    for (size_t i = 0; mp_commands[i]; i++) {
        if (mp_commands[i]->hidden) continue;
        mp_buffer_printf(out, "    %s) rows=(\n", mp_commands[i]->name);
        each_option(out, mp_commands[i], zsh_option);
        mp_buffer_append_text(out, "        ) ;;\n");
    }
    mp_buffer_append_text(out, "    esac\n"
                               "    _describe -o option rows\n"
                               "}\n"
                               "[[ $funcstack[1] == _memprof ]] && _memprof \"$@\" || compdef _memprof memprof\n");
}

static void fish_option(struct mp_buffer *out, const struct mp_command *command, enum mp_option option)
{
    const struct mp_option_row *row = &mp_option_rows[option];
    mp_buffer_printf(out, "complete -c memprof -n '__fish_seen_subcommand_from %s' -l %s", command->name, row->name);
    if (row->letter) mp_buffer_printf(out, " -s %c", row->letter);
    mp_buffer_append_text(out, row->argument ? " -r -d " : " -d ");
    quoted(out, mp_command_option_help(command, option), "'\\");
    mp_buffer_append_text(out, "\n");
}

static void write_fish(struct mp_buffer *out)
{
    mp_buffer_append_text(out, "# fish completion for memprof, " MADE);
    for (size_t i = 0; mp_commands[i]; i++) {
        if (mp_commands[i]->hidden) continue;
        mp_buffer_printf(out, "complete -c memprof -n __fish_use_subcommand -a %s -d ", mp_commands[i]->name);
        quoted(out, mp_commands[i]->summary, "'\\");
        mp_buffer_append_text(out, "\n");
        each_option(out, mp_commands[i], fish_option);
    }
}

bool mp_completion_write(struct mp_buffer *out, const char *shell)
{
    static const struct {
        const char *name;
        void (*write)(struct mp_buffer *out);
    } shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, shell)) return shells[i].write(out), true;
    return false;
}
