/* The callback half of the stand-in of CUPTI: one subscriber, callbacks of the driver, resource and state domains. */
#include "softgpu/cupti/cupti.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The last number of a callback that this version knows. It refuses higher numbers. */
#if SOFTCUPTI_VERSION < 17
#    define LAST_CBID 625
#elif SOFTCUPTI_VERSION < 24
#    define LAST_CBID 655
#elif SOFTCUPTI_VERSION < 130000
#    define LAST_CBID 758
#else
#    define LAST_CBID 830
#endif

static struct {
    mp_cupti_callback *callback;
    void *user;
    bool driver[LAST_CBID + 1], resource[64], state[64];
    unsigned long callbacks;
} subscriber;

static softgpu_context_facts_function *context_facts;
struct soft_settings soft_settings;

static unsigned long number(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? strtoul(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_settings(void)
{
    soft_settings = (struct soft_settings){
        .error = number("SOFTCUPTI_ERROR"),
        .drop = number("SOFTCUPTI_DROP"),
        .disorder = number("SOFTCUPTI_DISORDER"),
        .cut = number("SOFTCUPTI_CUT"),
        .strange = number("SOFTCUPTI_STRANGE"),
        .wrong = number("SOFTCUPTI_WRONG"),
        .silent = number("SOFTCUPTI_SILENT"),
        .gone_after = number("SOFTCUPTI_GONE_AFTER"),
        .fatal = number("SOFTCUPTI_FATAL"),
        .held_by = getenv("SOFTCUPTI_HELD_BY"),
        .walker = getenv("SOFTCUPTI_WALKER"),
    };
}

static void go_away(void);

static void tell_call(struct soft_call *call, bool exit)
{
    if (!subscriber.callback || call->cbid > LAST_CBID || !subscriber.driver[call->cbid]) return;
    struct mp_cupti_call data = {
        .callbackSite = exit ? MP_CUPTI_EXIT : MP_CUPTI_ENTER,
        .functionName = call->name,
        .functionParams = call->params,
        .functionReturnValue = exit ? &call->result : NULL,
        .context = call->context,
        .contextUid = call->context_uid,
        .correlationData = &call->correlation_data,
        .correlationId = call->correlation,
    };
    subscriber.callback(subscriber.user, MP_CUPTI_DRIVER, call->cbid, &data);
    if (__atomic_add_fetch(&subscriber.callbacks, 1, __ATOMIC_RELAXED) == soft_settings.gone_after) go_away();
}

static void tell_context(const struct soft_context_event *event)
{
    if (!subscriber.callback || !subscriber.resource[event->cbid]) return;
    struct mp_cupti_resource data = {.context = event->context};
    subscriber.callback(subscriber.user, MP_CUPTI_RESOURCE, event->cbid, &data);
}

static const struct soft_tool tool = {
    .call = tell_call, .memory = soft_record_memory, .pool = soft_record_pool, .context = tell_context};

static softgpu_set_tool_function *find_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return NULL;
    void *found = dlsym(driver, "softgpu_set_tool"), *facts = dlsym(driver, "softgpu_context_facts");
    softgpu_set_tool_function *set_tool;
    memcpy(&set_tool, &found, sizeof found);
    memcpy(&context_facts, &facts, sizeof facts);
    return set_tool;
}

bool soft_listen(void)
{
    softgpu_set_tool_function *set_tool = find_driver();
    if (!set_tool) return false;
    set_tool(subscriber.callback || soft_wants_records() ? &tool : NULL);
    return true;
}

static void unsubscribe(void)
{
    subscriber.callback = NULL;
    memset(subscriber.driver, 0, sizeof subscriber.driver);
    memset(subscriber.resource, 0, sizeof subscriber.resource);
    memset(subscriber.state, 0, sizeof subscriber.state);
}

/* cuptiFinalize() by somebody else, as Kineto calls it; or CUPTI's own, after an error that cannot be mended. */
static void go_away(void)
{
    struct {
        int result;
        const char *message;
    } fatal = {MP_CUPTI_UNKNOWN, "a fatal error of the stand-in"};
    if (soft_settings.fatal && subscriber.state[MP_CUPTI_STATE_FATAL_ERROR])
        subscriber.callback(subscriber.user, MP_CUPTI_STATE, MP_CUPTI_STATE_FATAL_ERROR, &fatal);
    unsubscribe();
    soft_stop_records();
    soft_listen();
}

static int subscribe(void **to, mp_cupti_callback *callback, void *user)
{
    if (soft_settings.error) return (int)soft_settings.error;
    if (!find_driver()) return MP_CUPTI_UNKNOWN;
    if (soft_settings.held_by || subscriber.callback)
        return SOFTCUPTI_VERSION < 17 ? MP_CUPTI_MAX_LIMIT_REACHED : MP_CUPTI_BUSY;
    subscriber.user = user;
    subscriber.callback = callback;
    *to = &subscriber;
    soft_listen();
    return MP_CUPTI_SUCCESS;
}

/* The recorder asks for it before it calls a CUPTI over the stand-in driver (src/capture/cuda/cupti_library.c). */
EXPORTED const int softcupti_version = SOFTCUPTI_VERSION;

EXPORTED mp_cuptiGetVersion cuptiGetVersion;
EXPORTED int cuptiGetVersion(uint32_t *version)
{
    *version = SOFTCUPTI_VERSION;
    return MP_CUPTI_SUCCESS;
}

EXPORTED mp_cuptiSubscribe cuptiSubscribe;
EXPORTED int cuptiSubscribe(void **to, mp_cupti_callback *callback, void *user)
{
    return subscribe(to, callback, user);
}

#if SOFTCUPTI_VERSION >= 130000
EXPORTED mp_cuptiSubscribe_v2 cuptiSubscribe_v2;
EXPORTED int cuptiSubscribe_v2(void **to, mp_cupti_callback *callback, void *user,
                               struct mp_cupti_subscriber_params *params)
{
    if (!params || params->structSize < sizeof *params) return MP_CUPTI_INVALID_PARAMETER;
    if (params->subscriberName && strlen(params->subscriberName) > 53) return MP_CUPTI_INVALID_PARAMETER;
    int result = subscribe(to, callback, user);
    const char *holder = soft_settings.held_by;
    if (result == MP_CUPTI_BUSY && holder && params->oldSubscriberName && params->oldSubscriberSize >= 64) {
        strncpy(params->oldSubscriberName, holder, params->oldSubscriberSize - 1);
        params->oldSubscriberName[params->oldSubscriberSize - 1] = 0;
    }
    return result;
}
#endif

EXPORTED mp_cuptiUnsubscribe cuptiUnsubscribe;
EXPORTED int cuptiUnsubscribe(void *which)
{
    if (which != &subscriber || !subscriber.callback) return MP_CUPTI_INVALID_PARAMETER;
    unsubscribe();
    soft_listen();
    return MP_CUPTI_SUCCESS;
}

EXPORTED mp_cuptiFinalize cuptiFinalize;
EXPORTED int cuptiFinalize(void)
{
    unsubscribe();
    soft_stop_records();
    soft_listen();
    return MP_CUPTI_SUCCESS;
}

EXPORTED mp_cuptiEnableCallback cuptiEnableCallback;
EXPORTED int cuptiEnableCallback(uint32_t enable, void *which, uint32_t domain, uint32_t id)
{
    if (which != &subscriber || !subscriber.callback || !id) return MP_CUPTI_INVALID_PARAMETER;
    bool *of = domain == MP_CUPTI_DRIVER && id <= LAST_CBID                     ? &subscriber.driver[id]
               : domain == MP_CUPTI_RESOURCE && id < 64                         ? &subscriber.resource[id]
               : domain == MP_CUPTI_STATE && id < 64 && SOFTCUPTI_VERSION >= 21 ? &subscriber.state[id]
                                                                                : NULL;
    if (!of) return MP_CUPTI_INVALID_PARAMETER;
    *of = enable;
    return MP_CUPTI_SUCCESS;
}

EXPORTED mp_cuptiGetDeviceId cuptiGetDeviceId;
EXPORTED int cuptiGetDeviceId(mp_cu_handle context, uint32_t *device)
{
    uint32_t uid;
    int of;
    if (!context_facts || !context_facts(context, &uid, &of)) return 3; /* CUPTI_ERROR_INVALID_CONTEXT */
    *device = (uint32_t)of;
    return MP_CUPTI_SUCCESS;
}

EXPORTED mp_cuptiGetResultString cuptiGetResultString;
EXPORTED int cuptiGetResultString(int result, const char **text)
{
    *text = result == MP_CUPTI_SUCCESS ? "CUPTI_SUCCESS"
            : result == MP_CUPTI_BUSY  ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                                       : "CUPTI_ERROR_UNKNOWN";
    return MP_CUPTI_SUCCESS;
}
