/*
 * Compiled code of kernels, as NVIDIA's compilers make it: ELF files ("cubin"), PTX, and fat binaries of both for
 * several devices, compressed or not. Called under the driver's lock. Images are trusted: they are the program's own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A kernel, or all kernels of an image together: then each number is the most of any, and `bytes` the sum. */
struct soft_code {
    int binary, ptx;       /* versions of the code that the driver loads, 86 for 8.6; binary 0: none fits the device */
    uint64_t bytes, local; /* code with its constants; local memory of a thread */
    uint64_t shared, constants;  /* static shared memory of a block; constants of the program */
    unsigned registers, threads; /* registers of a thread; most threads of a block */
};

/* Describes an image for a device of that capability. `image` NULL: an unknown one. `kernel` NULL: all its kernels.
 * Parts that cannot be read are left as for a small kernel. `whole` false: only the versions are looked up, which costs
 * little. */
struct soft_code soft_code_of_image(const void *image, const char *kernel, int capability, bool whole);
/* The least and the greatest capability for which a fat binary has code. `wrapper`: as a program registers it. */
void soft_code_versions(const void *wrapper, int *least, int *most);
