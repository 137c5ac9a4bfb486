/* libc10.so as attach sees it: the CPU allocator's functions, under their names in PyTorch. */
#include <stdlib.h>

void *_ZN3c109alloc_cpuEm(size_t bytes);
void *_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(void *reporter, void *block, size_t bytes);
void _ZN3c108free_cpuEPv(void *block);

__attribute__((noinline)) void *_ZN3c109alloc_cpuEm(size_t bytes)
{
    return bytes ? malloc(bytes) : NULL;
}

/* A method, whose first argument is the object. Returns the block. */
__attribute__((noinline)) void *_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm(void *reporter, void *block, size_t bytes)
{
    return reporter && bytes ? block : NULL;
}

__attribute__((noinline)) void _ZN3c108free_cpuEPv(void *block)
{
    free(block);
}
