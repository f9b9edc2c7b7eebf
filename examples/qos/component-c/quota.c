/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * quota.c - a component for Ravelin that gives each user so many packets in a window of time.
 *
 * Parameters: `packets=N window=MS excess=drop|red|port`, in any order. A user is whom the graph charges a packet to.
 * What is beyond the quota ends (`drop`, the default), gets the colour red (`red`), or goes on in the class of the
 * first port (`port`). A window begins with the first packet of a user and has the same length for all. Each direction
 * has an instance of its own, so a user has the quota once in each direction of the hook.
 *
 * Users are kept in a table of fixed size, in sets of four. Where more users are active than fit into a set, the one
 * whose window began first gives its place up, and begins a new window with its next packet. So a flood of invented
 * users makes no user's quota smaller.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ravelin-qos.h"

enum { SETS = 4096, WAYS = 4, MOST_TEXT = 4096 };

struct entry {
    uint64_t began_ns;
    uint32_t user;
    uint32_t packets;
    bool used;
};

enum excess { EXCESS_DROP, EXCESS_RED, EXCESS_PORT };

struct quota {
    uint64_t secret;
    uint64_t window_ns;
    uint32_t packets;
    enum excess excess;
    struct entry table[SETS][WAYS];
};

/* The finaliser of SplitMix64, keyed: who does not know the secret cannot fill one set. */
static uint32_t set_of(const struct quota *quota, uint32_t user)
{
    uint64_t x = quota->secret ^ user;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) % SETS);
}

static struct entry *entry_of(struct quota *quota, uint32_t user, uint64_t now_ns)
{
    struct entry *set = quota->table[set_of(quota, user)];
    struct entry *oldest = &set[0];
    for (size_t way = 0; way < WAYS; way++) {
        struct entry *entry = &set[way];
        if (entry->used && entry->user == user) {
            if (now_ns - entry->began_ns >= quota->window_ns) {
                entry->began_ns = now_ns;
                entry->packets = 0;
            }
            return entry;
        }
        if (!entry->used || (oldest->used && entry->began_ns < oldest->began_ns))
            oldest = entry;
    }
    *oldest = (struct entry){.began_ns = now_ns, .user = user, .used = true};
    return oldest;
}

static int32_t quota_run(void *instance, const struct ravelin_qos_call *call, const struct ravelin_qos_meta *metas,
                         struct ravelin_qos_verdict *verdicts, size_t count)
{
    struct quota *quota = instance;
    for (size_t at = 0; at < count; at++) {
        const struct ravelin_qos_meta *meta = &metas[at];
        struct ravelin_qos_verdict verdict = {.action = RAVELIN_QOS_PASS};
        struct entry *entry = entry_of(quota, meta->user, call->now_ns);
        uint32_t packets = meta->packets > 0 ? meta->packets : 1;
        /* What is refused counts as nothing. */
        if (packets <= quota->packets - entry->packets) {
            entry->packets += packets;
        } else if (quota->excess == EXCESS_DROP) {
            verdict.action = RAVELIN_QOS_DROP;
            verdict.value = RAVELIN_QOS_POLICED;
        } else if (quota->excess == EXCESS_PORT) {
            verdict.action = RAVELIN_QOS_TO;
            verdict.value = 0;
        } else {
            verdict.changes = RAVELIN_QOS_SET_COLOUR;
            verdict.colour = RAVELIN_QOS_RED;
        }
        verdicts[at] = verdict;
    }
    return RAVELIN_QOS_OK;
}

/* A whole number from 1 to `most`. */
static bool number(const char *text, uint64_t most, uint64_t *to)
{
    uint64_t sum = 0;
    if (*text == 0)
        return false;
    for (; *text != 0; text++) {
        if (*text < '0' || *text > '9')
            return false;
        sum = sum * 10 + (uint64_t)(*text - '0');
        if (sum > most)
            return false;
    }
    *to = sum;
    return sum > 0;
}

static bool read_word(struct quota *quota, const char *word, uint32_t ports, char *why, size_t why_len)
{
    uint64_t value = 0;
    if (strncmp(word, "packets=", 8) == 0) {
        if (!number(word + 8, 1000000000, &value)) {
            snprintf(why, why_len, "packets is a number from 1 to 1000000000");
            return false;
        }
        quota->packets = (uint32_t)value;
    } else if (strncmp(word, "window=", 7) == 0) {
        if (!number(word + 7, 86400000, &value)) {
            snprintf(why, why_len, "window is a number of milliseconds, 1 to 86400000");
            return false;
        }
        quota->window_ns = value * 1000000;
    } else if (strcmp(word, "excess=drop") == 0) {
        quota->excess = EXCESS_DROP;
    } else if (strcmp(word, "excess=red") == 0) {
        quota->excess = EXCESS_RED;
    } else if (strcmp(word, "excess=port") == 0) {
        if (ports == 0) {
            snprintf(why, why_len, "excess=port needs a port: write ports = [\"CLASS\"] in the graph");
            return false;
        }
        quota->excess = EXCESS_PORT;
    } else {
        snprintf(why, why_len, "%.40s is none of packets=N, window=MS, excess=drop|red|port", word);
        return false;
    }
    return true;
}

static int32_t quota_create(const struct ravelin_qos_settings *settings, void **instance, char *why, size_t why_len)
{
    char text[MOST_TEXT + 1];
    if (settings->parameters_len > MOST_TEXT) {
        snprintf(why, why_len, "the text is too long");
        return 1;
    }
    memcpy(text, settings->parameters, settings->parameters_len);
    text[settings->parameters_len] = 0;
    struct quota *quota = calloc(1, sizeof *quota);
    if (quota == NULL) {
        snprintf(why, why_len, "no memory");
        return 1;
    }
    quota->secret = settings->secret;
    char *rest = text;
    for (char *word = strtok_r(text, " \t\n", &rest); word != NULL; word = strtok_r(NULL, " \t\n", &rest)) {
        if (!read_word(quota, word, settings->ports, why, why_len)) {
            free(quota);
            return 1;
        }
    }
    if (quota->packets == 0 || quota->window_ns == 0) {
        snprintf(why, why_len, "write packets=N and window=MS");
        free(quota);
        return 1;
    }
    *instance = quota;
    return RAVELIN_QOS_OK;
}

static void quota_destroy(void *instance)
{
    free(instance);
}

static const struct ravelin_qos_component QUOTA = {
    .abi_major = RAVELIN_QOS_ABI_MAJOR,
    .abi_minor = RAVELIN_QOS_ABI_MINOR,
    .struct_size = sizeof(struct ravelin_qos_component),
    .kind = RAVELIN_QOS_BEHAVIOUR,
    .name = "quota",
    .version = "1.0",
    .create = quota_create,
    .destroy = quota_destroy,
    .run = quota_run,
};

const struct ravelin_qos_component *ravelin_qos_v1(void)
{
    return &QUOTA;
}
