/*
 * Models by name: the cache that Hugging Face's own tools use, and fetching into it.
 *
 * The cache holds <cache>/models--org--name/{blobs,refs,snapshots/<commit>/...}: a blob is a file named by its
 * checksum, a snapshot is a folder of links to blobs, a ref is a file that holds the commit of a branch or tag. What
 * one tool fetched the other finds. The environment (HF_HOME, HF_ENDPOINT, HF_TOKEN, ...) is read here and nowhere
 * else.
 */
#ifndef HSC_HUB_HUB_H
#define HSC_HUB_HUB_H

#include "base/status.h"

#include <stdbool.h>

/* What `-m NAME` means: a path that exists is itself; else a repository in the cache, `org/name` or `org/name@revision`
 * (`gpt2` also means openai-community/gpt2). *path is its snapshot folder, or the .gguf file in it when that is the one
 * model there; free with hsc__free. HSC_ENOTFOUND says where it looked and how to fetch it. HSC_EFORMAT: the cache is
 * damaged. */
hsc_status hsc__hub_resolve(const char *name, char **path, hsc_error *err);

typedef enum {
    HSC__PULL_FILE,    /* a file begins; `done` bytes are there from an earlier run */
    HSC__PULL_BYTES,   /* data came, or some time passed */
    HSC__PULL_CHECK,   /* the checksum is being computed: `done` bytes of it */
    HSC__PULL_DONE,    /* the file is complete and verified */
    HSC__PULL_CACHED,  /* the file was complete already */
    HSC__PULL_RETRY,   /* a request failed and is repeated: `note` says why */
    HSC__PULL_WAITING, /* another process fetches this file */
} hsc__pull_what;

typedef struct hsc__pull_event {
    hsc__pull_what what;
    const char *file;     /* name in the repository, or NULL while the list of files is fetched */
    uint64_t done, total; /* bytes; total is 0 while it is unknown */
    int index, n_files;   /* file `index` of n_files, from 1 */
    const char *note;     /* NULL unless what is HSC__PULL_RETRY */
} hsc__pull_event;

/* Told of progress, often (several times a second, also while nothing arrives). Non-zero stops the pull with
 * HSC_ECANCELED; what has been fetched stays and the next pull goes on from there. */
typedef int (*hsc__pull_fn)(void *user, const hsc__pull_event *event);

typedef struct hsc__pull_options {
    const char *revision;     /* branch, tag or commit; NULL: what the name says, else main */
    const char *const *files; /* [n_files] exactly these files; none: config, tokenizer and safetensors weights */
    size_t n_files;
    hsc__pull_fn progress; /* may be NULL */
    void *user;
    int backoff_ms; /* first wait before a request is repeated, doubling; 0: 500 */
    int stall_s;    /* a connection that brings nothing for so long is cut; 0: 30 */
} hsc__pull_options;

/* Checks the name, revision and file names by their spelling alone: HSC_EINVAL says what is wrong. */
hsc_status hsc__hub_check(const char *name, const hsc__pull_options *options, hsc_error *err);

/* Fetches what headscope needs of a repository. *path is the snapshot folder; free with hsc__free. With HF_HUB_OFFLINE
 * set it only says whether the cache has it.
 * HSC_EINVAL: the name, revision or a file name is not one. HSC_ENOTFOUND: no such repository, revision or file.
 * HSC_EUNSUPPORTED: it has no weights that headscope reads, or a choice must be made; the message has the advice.
 * HSC_EFORMAT: the server's answer or a checksum is wrong. HSC_EIO: network, refusal (gated, private) or disk.
 * HSC_ECANCELED. */
hsc_status hsc__hub_pull(const char *name, const hsc__pull_options *options, char **path, hsc_error *err);

#endif
