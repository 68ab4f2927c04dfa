/*
 * parallel-for on POSIX threads, and the number of threads that affinity and control group allow.
 *
 * Every thread that calls hsc__parallel_for has a team of its own, made on first use and kept. Between two loops its
 * members look for the next one for some microseconds, long enough for the gap between two steps of a layer, and then
 * sleep. The caller works too, and when no task is left it closes the loop: it waits for members that have joined,
 * never for one that the system has not woken yet. So a loop is never slower than the caller alone, however busy the
 * machine is.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "base/parallel.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

enum {
    MAX_MEMBERS = 1023, /* with the caller no more than the gate has place for */
    SPINS = 2000,       /* looks before a thread sleeps: tens of microseconds */
};

typedef struct team team;

typedef struct member {
    team *of;
    int worker;       /* 1 .. n_members; the caller is worker 0 */
    uint64_t started; /* the round at which it was made */
    pthread_t thread;
} member;

/*
 * The gate is one word, so that a member sees round, width and door together:
 *   round << 32 | n_workers << 17 | closed << 16 | members inside
 * The fields below it are written before the gate opens and stay until the last member is out.
 */
enum { WORKERS_SHIFT = 17, CLOSED = 1 << 16, INSIDE = CLOSED - 1 };

struct team {
    hsc__task_fn fn;
    void *context;
    size_t n_tasks;
    _Alignas(64) atomic_size_t next; /* the next task */
    _Alignas(64) _Atomic uint64_t gate;
    _Alignas(64) atomic_int sleeping; /* threads that wait on a condition */
    atomic_bool leave;
    pthread_mutex_t lock;
    pthread_cond_t start, finish;
    pid_t process; /* threads do not survive a fork */
    bool busy;     /* a loop runs: one inside it is run by its caller alone */
    int n_members;
    member *members[MAX_MEMBERS];
};

static uint64_t round_of(uint64_t gate)
{
    return gate >> 32;
}

static int workers_of(uint64_t gate)
{
    return (int)(gate >> WORKERS_SHIFT & 0x7FFF);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void wake(team *t, pthread_cond_t *condition)
{
    if (atomic_load(&t->sleeping) == 0) return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(condition);
    pthread_mutex_unlock(&t->lock);
}

static void take_tasks(team *t, int worker)
{
    size_t task;
    while ((task = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < t->n_tasks)
        t->fn(t->context, task, worker);
}

/* Waits until the round differs from `seen`: looks for a while, then sleeps. Returns the gate. */
static uint64_t wait_for_round(team *t, uint64_t seen)
{
    uint64_t gate = 0;
    for (int i = 0; i < SPINS; i++) {
        gate = atomic_load(&t->gate);
        if (round_of(gate) != seen) return gate;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleeping, 1);
    while (round_of(gate = atomic_load(&t->gate)) == seen) pthread_cond_wait(&t->start, &t->lock);
    atomic_fetch_sub(&t->sleeping, 1);
    pthread_mutex_unlock(&t->lock);
    return gate;
}

/* Goes in if the round is still open and has a place for this worker. */
static bool join(team *t, uint64_t gate, int worker)
{
    uint64_t round = round_of(gate);
    while (!(gate & CLOSED) && round_of(gate) == round && worker < workers_of(gate)) {
        if (atomic_compare_exchange_weak(&t->gate, &gate, gate + 1)) return true;
    }
    return false;
}

static void *run_member(void *argument)
{
    const member *m = argument;
    team *t = m->of;
    uint64_t seen = m->started;
    for (;;) {
        uint64_t gate = wait_for_round(t, seen);
        seen = round_of(gate);
        if (atomic_load(&t->leave)) return NULL;
        if (!join(t, gate, m->worker)) continue;
        take_tasks(t, m->worker);
        gate = atomic_fetch_sub(&t->gate, 1) - 1;
        if ((gate & CLOSED) && (gate & INSIDE) == 0) wake(t, &t->finish);
    }
}

static void open_gate(team *t, int n_workers)
{
    uint64_t round = round_of(atomic_load(&t->gate)) + 1;
    atomic_store(&t->gate, round << 32 | (uint64_t)n_workers << WORKERS_SHIFT);
    wake(t, &t->start);
}

/* Shuts the door and waits until everybody inside is out. */
static void close_gate(team *t)
{
    uint64_t gate = atomic_fetch_or(&t->gate, CLOSED);
    for (int i = 0; i < SPINS && (gate & INSIDE); i++) {
        relax();
        gate = atomic_load(&t->gate);
    }
    if ((gate & INSIDE) == 0) return;
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleeping, 1);
    while (atomic_load(&t->gate) & INSIDE) pthread_cond_wait(&t->finish, &t->lock);
    atomic_fetch_sub(&t->sleeping, 1);
    pthread_mutex_unlock(&t->lock);
}

/* A thread's team ends with the thread. After a fork there is nobody to join. */
static void free_team(void *argument)
{
    team *t = argument;
    if (t->process == getpid()) {
        atomic_store(&t->leave, true);
        open_gate(t, 1);
        for (int i = 0; i < t->n_members; i++) pthread_join(t->members[i]->thread, NULL);
        pthread_mutex_destroy(&t->lock);
        pthread_cond_destroy(&t->start);
        pthread_cond_destroy(&t->finish);
    }
    for (int i = 0; i < t->n_members; i++) hsc__free(t->members[i]);
    hsc__free_aligned(t);
}

static pthread_key_t team_key;
static bool have_key;

static void make_key(void)
{
    have_key = pthread_key_create(&team_key, free_team) == 0;
}

static team *new_team(void)
{
    team *t = hsc__malloc_aligned(sizeof *t);
    if (!t) return NULL;
    *t = (team){.process = getpid()};
    if (pthread_mutex_init(&t->lock, NULL) == 0) {
        if (pthread_cond_init(&t->start, NULL) == 0) {
            if (pthread_cond_init(&t->finish, NULL) == 0) {
                if (pthread_setspecific(team_key, t) == 0) return t;
                pthread_cond_destroy(&t->finish);
            }
            pthread_cond_destroy(&t->start);
        }
        pthread_mutex_destroy(&t->lock);
    }
    hsc__free_aligned(t);
    return NULL;
}

/* This thread's team, or NULL when the system has no memory or threads for one: the caller then works alone. */
static team *my_team(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    if (!have_key) return NULL;
    team *t = pthread_getspecific(team_key);
    if (t && t->process != getpid()) {
        pthread_setspecific(team_key, NULL);
        free_team(t);
        t = NULL;
    }
    return t ? t : new_team();
}

static void add_members(team *t, int n_members)
{
    while (t->n_members < n_members && t->n_members < MAX_MEMBERS) {
        member *m = hsc__malloc(sizeof *m);
        if (!m) return;
        *m = (member){.of = t, .worker = t->n_members + 1, .started = round_of(atomic_load(&t->gate))};
        if (pthread_create(&m->thread, NULL, run_member, m) != 0) {
            hsc__free(m);
            return;
        }
        t->members[t->n_members++] = m;
    }
}

void hsc__parallel_for(int n_threads, size_t n_tasks, hsc__task_fn fn, void *context)
{
    if (n_threads > 0 && n_tasks < (size_t)n_threads) n_threads = (int)n_tasks;
    if (n_threads > MAX_MEMBERS + 1) n_threads = MAX_MEMBERS + 1;
    team *t = n_threads > 1 ? my_team() : NULL;
    if (!t || t->busy) {
        for (size_t i = 0; i < n_tasks; i++) fn(context, i, 0);
        return;
    }
    add_members(t, n_threads - 1);
    t->fn = fn;
    t->context = context;
    t->n_tasks = n_tasks;
    atomic_store_explicit(&t->next, 0, memory_order_relaxed);
    t->busy = true;
    open_gate(t, n_threads);
    take_tasks(t, 0);
    close_gate(t);
    t->busy = false;
}

/* cgroup v2's "max 100000" or "150000 100000", or v1's pair of files; 0 when there is no quota. */
static int quota_threads(void)
{
    long quota = -1, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f) {
        if (fscanf(f, "%ld %ld", &quota, &period) != 2) quota = -1;
        fclose(f);
    } else {
        FILE *q = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r");
        FILE *p = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r");
        if (q && p && (fscanf(q, "%ld", &quota) != 1 || fscanf(p, "%ld", &period) != 1)) quota = -1;
        if (q) fclose(q);
        if (p) fclose(p);
    }
    if (quota <= 0 || period <= 0) return 0;
    long n = (quota + period - 1) / period;
    return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}

int hsc__default_threads(void)
{
    int n = 0;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
#endif
    if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = quota_threads();
    if (quota && quota < n) n = quota;
    return n < 1 ? 1 : n;
}
