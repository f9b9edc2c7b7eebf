/* A component with one fault: what -D names. Without any it passes every packet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ravelin-qos.h"

#ifndef MAJOR
#define MAJOR RAVELIN_QOS_ABI_MAJOR
#endif
#ifndef MINOR
#define MINOR RAVELIN_QOS_ABI_MINOR
#endif
#ifndef SIZE
#define SIZE sizeof(struct ravelin_qos_component)
#endif
#ifndef KIND
#define KIND RAVELIN_QOS_BEHAVIOUR
#endif
#ifndef NAME
#define NAME "component"
#endif
#ifndef SYMBOL
#define SYMBOL ravelin_qos_v1
#endif
#ifndef CREATE
#define CREATE create
#endif
#ifndef VERDICT
#define VERDICT .action = RAVELIN_QOS_PASS
#endif
#ifndef BODY
#define BODY
#endif
#ifndef ANSWER
#define ANSWER RAVELIN_QOS_OK
#endif

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void constructor(void)
{
    CONSTRUCTOR;
}
#endif

static int32_t create(const struct ravelin_qos_settings *settings, void **instance, char *why, size_t why_len)
{
    if (strcmp(settings->parameters, "no") == 0) {
        snprintf(why, why_len, "it is\nno good");
        return 1;
    }
    *instance = calloc(1, 64);
    return RAVELIN_QOS_OK;
}

static void destroy(void *instance)
{
#ifdef DESTROY
    DESTROY;
#endif
    free(instance);
}

/* Use up so many milliseconds of processor time of this thread, however busy the machine is. */
static inline void burn(long ms)
{
    struct timespec now, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    end.tv_nsec += ms * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

static int32_t run(void *instance, const struct ravelin_qos_call *call, const struct ravelin_qos_meta *metas,
                   struct ravelin_qos_verdict *verdicts, size_t count)
{
    (void)instance, (void)call, (void)metas;
    BODY;
#ifndef UNWRITTEN
    for (size_t at = 0; at < count; at++)
        verdicts[at] = (struct ravelin_qos_verdict){VERDICT};
#endif
    return ANSWER;
}

static
#ifndef WRITABLE
    const
#endif
    struct ravelin_qos_component COMPONENT = {
        .abi_major = MAJOR,
        .abi_minor = MINOR,
        .struct_size = SIZE,
        .kind = KIND,
        .name = NAME,
        .version = "1",
        .create = CREATE,
        .destroy = destroy,
        .run = run,
};

RAVELIN_QOS_EXPORT const struct ravelin_qos_component *SYMBOL(void)
{
#ifdef ADDRESS
    return (const struct ravelin_qos_component *)(uintptr_t)(ADDRESS);
#else
    return &COMPONENT;
#endif
}
