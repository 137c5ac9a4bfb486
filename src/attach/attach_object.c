/* The kernel's program (attach.bpf.c), as compiled by clang, within memprof. */
__asm__(".section .rodata\n"
        ".balign 8\n"
        ".globl mp_attach_object, mp_attach_object_end\n"
        "mp_attach_object:\n"
        ".incbin \"" MP_ATTACH_OBJECT "\"\n"
        "mp_attach_object_end:\n"
        ".previous\n");
