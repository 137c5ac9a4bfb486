/* The kernels that compiled code registers when it is loaded, found by their function. */
#include "softgpu/runtime/kernels.h"
#include "softgpu/runtime/runtime.h"

#include <pthread.h>
#include <stdlib.h>

#include "softgpu/driver_function.h"
#include "softgpu/softgpu.h"

static struct {
    struct softrt_kernel *at;
    size_t count, room;
    bool sorted;
} kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void softrt_register_kernel(const void *function, const char *name, const void *wrapper)
{
    pthread_mutex_lock(&lock);
    if (kernels.count == kernels.room) {
        size_t room = kernels.room ? 2 * kernels.room : 1024;
        struct softrt_kernel *more = realloc(kernels.at, room * sizeof *more);
        if (more) {
            kernels.at = more;
            kernels.room = room;
        }
    }
    if (kernels.count < kernels.room)
        kernels.at[kernels.count++] = (struct softrt_kernel){.function = function, .name = name, .wrapper = wrapper};
    kernels.sorted = false;
    pthread_mutex_unlock(&lock);
}

static int by_function(const void *a, const void *b)
{
    const struct softrt_kernel *x = a, *y = b;
    return x->function < y->function ? -1 : x->function > y->function;
}

bool softrt_find_kernel(const void *function, void (*derive)(struct softrt_kernel *kernel),
                        struct softrt_kernel *kernel)
{
    *kernel = (struct softrt_kernel){.function = function};
    pthread_mutex_lock(&lock);
    if (!kernels.sorted && kernels.count) qsort(kernels.at, kernels.count, sizeof *kernels.at, by_function);
    kernels.sorted = true;
    struct softrt_kernel *found =
        kernels.count ? bsearch(kernel, kernels.at, kernels.count, sizeof *kernel, by_function) : NULL;
    if (found && derive && !found->answer) derive(found);
    if (found) *kernel = *found;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

static const void *image_of(const void *function, const char **name)
{
    struct softrt_kernel kernel;
    if (!softrt_find_kernel(function, NULL, &kernel)) return NULL;
    *name = kernel.name;
    return kernel.wrapper;
}

void softrt_offer_images(void)
{
    __typeof__(softgpu_offer_images) *offer;
    SOFT_DRIVER_FUNCTION(offer, "softgpu_offer_images");
    if (offer) offer(image_of);
}
