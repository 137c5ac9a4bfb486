/*
 * Wraps dlsym(). The C library looks at its caller's address (RTLD_NEXT, RTLD_DEFAULT, namespaces). So look-ups that
 * are not ours continue by a jump, which leaves caller and arguments unchanged. dlopen() is never wrapped.
 */
#include <dlfcn.h>
#include <string.h>

#include "capture/hooks/hooks.h"

__attribute__((visibility("hidden"))) void *(*mp_hooks_real_dlsym)(void *, const char *);

#if defined(__x86_64__)
#    define FIRST_VERSION "GLIBC_2.2.5"
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    call mp_hooks_look_up\n"
        "    addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jne 1f\n"
        "    jmp *mp_hooks_real_dlsym(%rip)\n"
        "1:  ret\n"
        ".cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#elif defined(__aarch64__)
#    define FIRST_VERSION "GLIBC_2.17"
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "    stp x29, x30, [sp, -32]!\n"
        ".cfi_def_cfa_offset 32\n"
        ".cfi_offset 29, -32\n"
        ".cfi_offset 30, -24\n"
        "    stp x0, x1, [sp, 16]\n"
        "    bl mp_hooks_look_up\n"
        "    mov x9, x0\n"
        "    ldp x0, x1, [sp, 16]\n"
        "    ldp x29, x30, [sp], 32\n"
        ".cfi_def_cfa_offset 0\n"
        ".cfi_restore 29\n"
        ".cfi_restore 30\n"
        "    cbnz x9, 1f\n"
        "    adrp x16, mp_hooks_real_dlsym\n"
        "    ldr x16, [x16, :lo12:mp_hooks_real_dlsym]\n"
        "    br x16\n"
        "1:  mov x0, x9\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#endif

static void find_real_dlsym(void)
{
    static const char *const versions[] = {FIRST_VERSION, "GLIBC_2.34"};
    for (size_t i = 0; i < sizeof versions / sizeof *versions && !mp_hooks_real_dlsym; i++) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&mp_hooks_real_dlsym, &found, sizeof found);
    }
}

void *mp_hooks_dlsym(void *handle, const char *name)
{
    if (!mp_hooks_real_dlsym) find_real_dlsym();
    return mp_hooks_real_dlsym(handle, name);
}

void *mp_hooks_look_up(void *handle, const char *name)
{
    if (!mp_hooks_real_dlsym) find_real_dlsym();
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !name || name[0] != 'c' || name[1] != 'u') return NULL;
    return mp_hooks_wrap_symbol(handle, name);
}
