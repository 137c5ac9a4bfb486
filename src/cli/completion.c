#include "cli/help.h"

static void option_words(struct mp_buffer *out, const struct mp_command *command)
{
    bool any = false;
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++) {
        if (!mp_command_takes(command, i)) continue;
        mp_buffer_printf(out, "%s--%s", any ? " " : "", mp_option_rows[i].name);
        any = true;
    }
}

void mp_completion_write(struct mp_buffer *out)
{
    mp_buffer_append_text(out, "# bash completion for memprof, made by `memprof help --completion`; do not edit.\n"
                               "_memprof()\n{\n"
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
        option_words(out, mp_commands[i]);
        mp_buffer_append_text(out, "' ;;\n");
    }
    mp_buffer_append_text(out, "    esac\n"
                               "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                               "}\n"
                               "complete -o default -F _memprof memprof\n");
}
