/*
 * headscope/inspect.h: many sentences. Statistics over clusters of sentences, files of sentence pairs, the scan: which
 * head follows the answer? And detectors: what does a head do with any text, and in another file of the same model?
 *
 * The words of this header:
 *   cluster   what is drawn independently: a pair of sentences, or all pairs made from one template. Figures of its
 *             pairs are averaged first; every test, interval and effect size is over clusters.
 *   column    one head (or one head and query). Tables are [n_clusters][n_columns], row-major, float64.
 *   family    all columns that are tested together.
 *
 * All random choices come from headscope/random.h: the same seed gives the same bits on every machine. Nothing here
 * depends on the number of threads.
 */
#ifndef HEADSCOPE_INSPECT_H
#define HEADSCOPE_INSPECT_H

#include "headscope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- statistics ---- */

typedef struct hsc_table {
    const double *values; /* [n_clusters][n_columns], finite */
    int n_clusters, n_columns;
} hsc_table;

typedef struct hsc_interval {
    double low, high;
} hsc_interval;

/* Mean; standard deviation with n - 1; d_z = mean / sd (Cohen 1988: the effect in units of its own spread);
 * t = d_z sqrt(n). sd, d_z and t are NaN for n < 2; d_z and t are infinite where all values are equal and not 0, and
 * NaN where all are 0. */
typedef struct hsc_effect {
    double mean, sd, dz, t;
} hsc_effect;
HSC_API hsc_effect hsc_effect_size(const double *x, int n, int stride);

/* Most clusters for which the sign-flip test lists every assignment of signs. */
enum { HSC_EXACT_CLUSTERS = 40 };

/*
 * The two-sided sign-flip (permutation) test of mean 0 (Fisher 1935): with S(s) = sum s_i x_i,
 *     p = #{s in {-1, +1}^n : |S(s)| >= |S(1)|} / 2^n.
 * Every one of the 2^n assignments counts; they are not listed but found by merging two sorted halves of 2^(n/2) signed
 * sums each (Horowitz and Sahni 1974). Sums nearer to |S(1)| than 4 n eps sum |x_i|, the rounding of either sum,
 * count as equal. 16 MiB at n = 40. HSC_EINVAL: n is below 1 or above HSC_EXACT_CLUSTERS, or a value is not finite.
 * HSC_ENOMEM.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_sign_flip_exact(const double *x, int n, int stride, double *p, hsc_error *err);

typedef struct hsc_flip_options {
    int n_draws; /* 0: 100,000 */
    uint64_t seed;
    int n_threads; /* 0: what the system allows */
} hsc_flip_options;

/*
 * The same test for every column of a table under common signs, and the probability of the whole family:
 *     p[j]      = (1 + #{draws : |S_j| >= |S_j(1)|}) / (1 + n_draws)          (Phipson and Smyth 2010)
 *     p_fwer[j] = (1 + #{draws : max_k |t_k| >= |t_j(1)|}) / (1 + n_draws)    (Westfall and Young 1993, single step)
 * The sum of squares of a column never changes under flips, so |t| rises with |S| / sqrt(sum x^2) and that is what is
 * compared. Up to 2^n <= n_draws all 2^n assignments are gone through instead and both are exact: the share of
 * assignments, the observed one among them. A draw takes ceil(n / 32) numbers of 32 bits from the generator; cluster i
 * is turned where bit i % 32 of number i / 32 is set.
 * A column that is all 0 has no p (NaN) and is no member of the family. p and p_fwer: [n_columns], either may be NULL.
 * *n_used (may be NULL): draws, or assignments. HSC_EINVAL: an empty table or a value that is not finite. HSC_ENOMEM.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_sign_flip_family(const hsc_table *table, const hsc_flip_options *options,
                                                       double *p, double *p_fwer, int *n_used, hsc_error *err);

typedef enum {
    HSC_ADJUST_BH,   /* false discovery rate, independent or positively dependent tests (Benjamini and Hochberg 1995) */
    HSC_ADJUST_BY,   /* the same under any dependence: times 1 + 1/2 + ... + 1/m (Benjamini and Yekutieli 2001) */
    HSC_ADJUST_HOLM, /* family-wise: max over smaller p of (m - rank + 1) p, rank from 1 (Holm 1979) */
} hsc_adjust;

/* out[n]: adjusted p, at most 1. p that are NaN stay NaN and do not count in m. out may be p. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_adjust_p(hsc_adjust kind, const double *p, int n, double *out, hsc_error *err);

typedef struct hsc_bootstrap_options {
    int n_draws;   /* 0: 10,000 */
    double level;  /* 0: 0.95 */
    uint64_t seed; /* torch.manual_seed(seed); torch.randint(0, n_clusters, (n_draws, n_clusters)) */
    int n_threads; /* 0: what the system allows */
} hsc_bootstrap_options;

/* The percentile bootstrap of each column's mean over clusters (Efron 1979): out[n_columns]. One index matrix, of the
 * seed, for all columns; percentiles interpolate linearly between order statistics as numpy.percentile does. Memory:
 * 8 bytes a draw and column, and 4 MiB of indices or one draw's. HSC_EINVAL: an empty table or a value that is not
 * finite. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_bootstrap(const hsc_table *table, const hsc_bootstrap_options *options,
                                                hsc_interval *out, hsc_error *err);

/* The exact two-sided sign test: min(1, 2 P(X >= max(n_right, n_wrong))), X binomial(n_right + n_wrong, 1/2). Ties are
 * left out before. 1 when both are 0; NaN when one is negative. */
HSC_API double hsc_sign_test(int n_right, int n_wrong);

/* The fewest clusters with which one of n_tests sign-flip tests can pass Bonferroni's alpha: the least possible p is
 * 2^(1-n), so ceil(1 + log2(n_tests / alpha)), INT_MAX at most. */
HSC_API int hsc_min_clusters(int n_tests, double alpha);

/* The smallest |d_z| that a two-sided one-sample t test at level alpha / n_tests finds with probability `power` among
 * n_clusters clusters, by the noncentral t distribution. NaN when n_clusters is below hsc_min_clusters or below 2, and
 * when power is not between 0 and 1. */
HSC_API double hsc_min_dz(int n_clusters, int n_tests, double alpha, double power);

/* ------------------------------------------------------------------------------------------------------ pairs ---- */

/* One of the two sentences of a pair. Spans are bytes of `text`, [start, end); start == end: there is none. When the
 * file holds token ids, text is NULL and spans count tokens. */
typedef struct hsc_wording {
    int line;         /* of the file, from 1 */
    const char *text; /* [n_text] bytes, and a NUL after them */
    size_t n_text;
    const hsc_token *ids; /* [n_ids] */
    int n_ids;
    hsc_span a, b;  /* the candidates */
    hsc_span query; /* from where a head looks */
    hsc_span swap;  /* the words that differ between the two wordings */
} hsc_wording;

/* Two sentences that differ in a word or a few, and by it in the answer: in wording[0] it is a, in wording[1] b. */
typedef struct hsc_pair {
    const char *id;      /* unique in its file */
    const char *cluster; /* pairs of one cluster are averaged before anything is tested */
    int number;          /* place in the file, from 0, pairs that were left out counted */
    hsc_wording wording[2];
} hsc_pair;

/* A line that was left out, and why. */
typedef struct hsc_skipped {
    int line;
    const char *why;
} hsc_skipped;

/* The pairs of a file, sorted by id. Everything in it lives as long as it does. Of a long file most lies in a temporary
 * file without a name, in the folder of TMPDIR or else /var/tmp or /tmp, whose pages the system may take from memory.
 */
typedef struct hsc_pairs hsc_pairs;

/* Where bytes come from. read: up to n bytes, at least one, to out; *n_read is 0 at the end. */
typedef struct hsc_reader {
    hsc_status (*read)(void *user, char *out, size_t n, size_t *n_read, hsc_error *err);
    void *user;
} hsc_reader;

/*
 * Reads pairs from what `reader` gives, or from n bytes; `name` is the file's, for messages. No more than a line is
 * held at once, and of JSONL the ids of all until it is read.
 *
 * Marked text, a pair a line: The [a:animal] didn't cross the [b:street] because [q:it] was too {tired|wide}.
 *   [a:..] and [b:..] are the candidates, {x|y} the swapped words: with x the answer is a, with y it is b; {x|y}! turns
 *   that. [q:..] is the query; without it the query is the swapped words. A backslash makes [ ] { } | ! and \ literal.
 *   Empty lines and lines that begin with # are skipped over. The id is the line's number.
 * JSONL (the first line begins with {"), an object a line with "id"; three kinds, told apart by their fields:
 *   "cands": "text", "pronoun_span", "cands" [{"span"}, {"span"}], "answer" 0 or 1, "twin" (id of the other wording);
 *      "swap_span" or else what differs between the two texts. Winogender's lines of one template are one cluster.
 *   "name_spans": the IOI task: "prompt", "io", "s2_span", "twin". a and b are the first two names, the query is the
 *      prompt's last word, the swap is s2_span. A cluster is a template: the prompt without names, places and things.
 *   "ids": a random half twice after "bos": "T". From the token at T + j a head of induction looks at j + 1. In wording
 *      2 the token at T + k stands at T + j, so that the answer is k + 1; j = T / 3, k = 2 T / 3.
 * cluster_field (NULL: as said) names a field of JSONL lines whose value is the cluster.
 *
 * A line that cannot be used is left out and listed. HSC_EFORMAT: no line can be used (the message has the first
 * reason), a line of JSONL is no JSON object or two have one id, cluster_field is absent from a line or given for
 * marked text, or a line has more than 64 MiB. HSC_EIO: a temporary file cannot be made or written. HSC_ENOMEM. What
 * the reader returns.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_pairs_read(hsc_pairs **out, const char *name, const hsc_reader *reader,
                                                 const char *cluster_field, hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_pairs_parse(hsc_pairs **out, const char *name, const char *bytes, size_t n,
                                                  const char *cluster_field, hsc_error *err);
HSC_API void hsc_pairs_free(hsc_pairs *pairs);
HSC_API int hsc_pairs_count(const hsc_pairs *pairs);
/* NULL out of range. */
HSC_API const hsc_pair *hsc_pairs_get(const hsc_pairs *pairs, int index);
/* Lines left out, in the order of the file; NULL past the last. */
HSC_API const hsc_skipped *hsc_pairs_skipped(const hsc_pairs *pairs, int index);

/* ------------------------------------------------------------------------------------------------------- scan ---- */

/* Whose attention is read. */
typedef enum {
    HSC_QUERY_FILE, /* the query span of the file: the pronoun, [q:..] */
    HSC_QUERY_SWAP, /* the last token of the swapped words. The query itself then differs between the wordings */
    HSC_QUERY_LAST, /* the last token that is not punctuation */
    HSC_QUERY_TEXT, /* the one place of a text, as a whole word */
} hsc_scan_query;

/* What a candidate of several tokens weighs; queries of several tokens are averaged (Clark et al. 2019). */
typedef enum { HSC_KEYS_SUM, HSC_KEYS_MEAN, HSC_KEYS_LAST } hsc_scan_keys;

/* What one head gives to the candidates and to position 0, from the query. */
typedef struct hsc_seen {
    float a, b, sink;
} hsc_seen;

/* Processes, on one machine or several, that do one run together: each calls the same functions with the same
 * arguments, runs a part of the texts, and has all results at the end, the same bits as one process alone. A process
 * that fails must end the others, which would wait for it. */
typedef struct hsc_team {
    int rank, n_ranks; /* rank 0 alone loads from and saves to a store; the others have none */
    /* Process r holds bytes [starts[r], starts[r + 1]) of an array; afterwards all hold all of it. */
    hsc_status (*share)(void *user, void *bytes, const size_t *starts);
    void *user;
} hsc_team;

/* Where results lie between runs. `digest` stands for all that the weights depend on beside the model and the options:
 * token ids and positions. load: fills seen[2][n_heads] and returns 1, or 0 when the pair is not there. save: keeps it
 * for good; called for pairs in order, from one thread. */
typedef struct hsc_scan_store {
    int (*load)(void *user, const hsc_pair *pair, uint64_t digest, hsc_seen *seen);
    hsc_status (*save)(void *user, const hsc_pair *pair, uint64_t digest, const hsc_seen *seen, hsc_error *err);
    hsc_status (*flush)(void *user, hsc_error *err); /* after every batch */
    void *user;
} hsc_scan_store;

typedef struct hsc_scan_options {
    hsc_scan_query query;
    const char *query_text; /* HSC_QUERY_TEXT */
    hsc_scan_keys keys;
    int with_bos; /* non-zero: a text begins with `bos` where the tokenizer does not put it there itself */
    hsc_token bos;
    hsc_session_options session;                      /* max_tokens and max_seqs are chosen */
    const hsc_scan_store *store;                      /* NULL: nothing is kept */
    int (*tell)(void *user, int n_done, int n_pairs); /* before the first batch and after each;
                                                         non-zero stops with HSC_ECANCELED; may be NULL */
    void *user;
    const hsc_team *team; /* NULL: alone */
    size_t memory;        /* bytes for what grows with pairs times heads, roughly; 0: 32 MiB */
} hsc_scan_options;

/* The weights of all heads over the pairs of a file. */
typedef struct hsc_scan hsc_scan;

typedef struct hsc_scan_counts {
    int n_layers, n_heads;  /* of the model */
    int n_pairs, n_skipped; /* read; lines left out, by the reader and by the scan */
    int n_same; /* pairs whose tokens are equal up to the query of a causal model: they differ by exactly 0 */
    int n_used, n_clusters; /* what the statistics are about */
    int n_equal;            /* used pairs whose candidates have equally many tokens */
    int n_loaded;           /* used pairs that came from the store */
} hsc_scan_counts;

/*
 * Runs every pair once, several in a batch; in a causal model twins share what they have in common and nothing behind
 * the query is computed. Of each head only the query's weight on the candidates and on position 0 is kept. The results
 * are the same bits for any number of threads, any batch, and any division between store and run.
 * Weights (24 bytes a pair and head) and figures (16 bytes a cluster and head) lie in memory while they are few; beyond
 * options->memory in temporary files without a name, in the folder of TMPDIR or else /var/tmp or /tmp, and statistics
 * read them in pieces; so do tokens and places. In memory stay a few numbers a pair and a cluster (docs/scan.md).
 * A line is left out when it has more tokens than the context, when a span has no token, when a causal model cannot see
 * a candidate from the query, when a candidate is at position 0 of a causal model, or when another line has the same
 * tokens. The model and the pairs must outlive the scan.
 * HSC_EINVAL: no pair can be used; the message says why. HSC_ENOTFOUND: texts, but no tokenizer. HSC_EIO: a
 * temporary file cannot be made or written. As hsc_forward.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_run(hsc_scan **out, const hsc_model *model, const hsc_pairs *pairs,
                                               const hsc_scan_options *options, hsc_error *err);
HSC_API void hsc_scan_free(hsc_scan *scan);
HSC_API hsc_scan_counts hsc_scan_count(const hsc_scan *scan);
/* Lines left out, by the reader or by the scan, by line; NULL past the last. */
HSC_API const hsc_skipped *hsc_scan_skipped(const hsc_scan *scan, int index);
/* A used pair, by id; NULL past the last. */
HSC_API const hsc_pair *hsc_scan_pair(const hsc_scan *scan, int index);
/* Its weights: seen[2][n_layers * n_heads]. HSC_EINVAL: no such pair. HSC_EIO: the temporary file cannot be read. */
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_seen(const hsc_scan *scan, int index, hsc_seen *seen, hsc_error *err);

/* ---------------------------------------------------------------------------------------- figures of the heads ---- */

/* Rules that know no meaning. A head is better than one of them only if a paired test says so. */
#define HSC_RULE_LIST(X)                                                                                               \
    X(HSC_RULE_FIRST, "first", "the candidate that stands first")                                                      \
    X(HSC_RULE_NEAREST, "nearest", "the candidate that ends nearest to the query")                                     \
    X(HSC_RULE_LONGEST, "longest", "the candidate of more tokens")                                                     \
    X(HSC_RULE_OFFSET, "offset", "the token at the fixed distance that is right most often, chosen on these pairs")

typedef enum {
#define HSC_RULE_ENUM(id, name, meaning) id,
    HSC_RULE_LIST(HSC_RULE_ENUM)
#undef HSC_RULE_ENUM
        HSC_N_RULES
} hsc_rule;

/*
 * Of one head, all means over clusters of means over the cluster's pairs. With a1, b1 the weights on a and b in wording
 * 1 (the answer is a) and a2, b2 in wording 2:
 *   shift     (a1 - b1) - (a2 - b2): positive when the head follows the answer, exactly 0 when it is blind to the swap
 *   share     the same on a / (a + b) and b / (a + b), over pairs with a + b >= 0.02 in both wordings; NaN without any
 *   mass      (a1 + b1 + a2 + b2) / 2
 *   accuracy  share of wordings whose answer gets more weight; equal weights count a half. A blind head has 0.5
 *   pair_accuracy  share of pairs with both wordings right. A blind head has 0
 */
typedef struct hsc_scan_head {
    int layer, head;
    double a1, b1, a2, b2;
    double shift;
    hsc_interval ci; /* of shift */
    double dz;
    double share, mass, sink;
    double p, p_fwer, q; /* of shift: sign flips, exact to HSC_EXACT_CLUSTERS; the family is all heads. NaN: all 0 */
    double accuracy;
    hsc_interval acc_ci;
    double accuracy_equal; /* over pairs whose candidates have equally many tokens; NaN without any */
    double pair_accuracy;
    double p_pairs; /* sign test of clusters with more pairs both right against those with more both wrong */
    double p_rules[HSC_N_RULES]; /* sign flips of accuracy minus the rule's, cluster by cluster; not corrected */
} hsc_scan_head;

typedef struct hsc_scan_rule {
    double accuracy, pair_accuracy;
    int offset; /* HSC_RULE_OFFSET: query minus key, in tokens */
} hsc_scan_rule;
HSC_API hsc_scan_rule hsc_scan_rule_figures(const hsc_scan *scan, hsc_rule rule);

typedef struct hsc_scan_statistics {
    hsc_adjust fdr;           /* HSC_ADJUST_BH or HSC_ADJUST_BY */
    int n_bootstrap, n_flips; /* 0: 10,000 and 100,000 */
    uint64_t seed;
    int n_threads;
} hsc_scan_statistics;

/* out: [n_layers * n_heads], in the order of the model. HSC_EINVAL, HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_figures(const hsc_scan *scan, const hsc_scan_statistics *options,
                                                   hsc_scan_head *out, hsc_error *err);

/* ------------------------------------------------------------------------------------- choosing and reporting ---- */

/* By what the best head is chosen: |mean shift|, |t| of shift, accuracy. Equals: the lower layer and head. */
typedef enum { HSC_BY_SHIFT, HSC_BY_T, HSC_BY_ACCURACY } hsc_scan_by;

typedef struct hsc_scan_choice {
    hsc_scan_by by;
    int n_chosen;    /* 0: 1 */
    double held_out; /* share of clusters that the choice does not see; 0: 0.5 */
    hsc_scan_statistics statistics;
} hsc_scan_choice;

/* A head that was chosen on some clusters, and what it does on others. */
typedef struct hsc_held_out {
    int layer, head;
    double chosen_shift; /* on the clusters that chose it: larger than life */
    double shift;
    hsc_interval ci;
    double p; /* Holm-corrected over the chosen heads */
    double accuracy;
    hsc_interval acc_ci;
    int n_clusters; /* that it is judged on */
} hsc_held_out;

/* Splits the clusters at random, chooses on one part and judges on the other; out: [n_chosen]. HSC_EINVAL: fewer than
 * two clusters on a side, or n_chosen is above the number of heads. */
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_hold_out(const hsc_scan *scan, const hsc_scan_choice *choice,
                                                    hsc_held_out *out, hsc_error *err);
/* Chooses on all clusters of `scan` and judges on all of `other`, a scan of the same model. */
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_confirm(const hsc_scan *scan, const hsc_scan *other,
                                                   const hsc_scan_choice *choice, hsc_held_out *out, hsc_error *err);

/* Splits n_repeats times. chosen[n_layers * n_heads]: how often each head was chosen; median[..]: of its held-out
 * shifts, NaN where never chosen. */
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_cross(const hsc_scan *scan, const hsc_scan_choice *choice, int n_repeats,
                                                 int *chosen, double *median, hsc_error *err);

/* The search when nothing is there: n_repeats times the wordings of every cluster are exchanged or not, at random, and
 * the best head is chosen anew. */
typedef struct hsc_scan_null {
    double observed;     /* the best head's |shift|, |t| or accuracy */
    double median, high; /* of the best under exchange; high: the 95th percentile */
    double p;            /* (1 + those that reach the observed) / (1 + n_repeats) */
} hsc_scan_null;
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_exchange(const hsc_scan *scan, const hsc_scan_choice *choice, int n_repeats,
                                                    hsc_scan_null *out, hsc_error *err);

/* A head's shift less the shift of the control pair at the same place of another file; pairs without one are left out.
 * out: [n_layers * n_heads]. *n_pairs, *n_clusters: how many are left. HSC_EINVAL: none. */
typedef struct hsc_scan_difference {
    double control; /* mean shift of the control */
    double shift;   /* mean difference */
    hsc_interval ci;
    double p, p_fwer;
} hsc_scan_difference;
HSC_API HSC_MUST_CHECK hsc_status hsc_scan_control(const hsc_scan *scan, const hsc_scan *control,
                                                   const hsc_scan_statistics *options, hsc_scan_difference *out,
                                                   int *n_pairs, int *n_clusters, hsc_error *err);

/*
 * A ranked sweep is a search as a scan is: every head ablated in turn, patched in turn or taken apart, and the largest
 * effect is the largest of many. A column of the table is one that was tried, a row what a cluster says of it; the
 * tests are those of the scan, mean 0 in the place of shift 0.
 */
typedef struct hsc_sweep_effect {
    double mean;
    hsc_interval ci;
    double dz, p, p_fwer, q; /* as in hsc_scan_head, of the mean; the family is all columns. NaN: all 0 */
} hsc_sweep_effect;

/* out: [effects->n_columns]. options NULL: the defaults. HSC_EINVAL: fewer than two clusters, no column, a value that
 * is not finite, or fdr is neither BH nor BY. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_sweep_figures(const hsc_table *effects, const hsc_scan_statistics *options,
                                                    hsc_sweep_effect *out, hsc_error *err);

/* One that was chosen on some clusters, and what others say of it. */
typedef struct hsc_sweep_held_out {
    int column;
    double chosen_mean; /* over the clusters that chose it: larger than life */
    double mean;
    hsc_interval ci;
    double p;       /* Holm-corrected over the chosen columns */
    int n_clusters; /* that it is judged on */
} hsc_sweep_held_out;

/* As hsc_scan_hold_out, with the same split for the same seed and number of clusters: chooses by the size of the mean
 * or of t on one part, judges on the other. out: [choice->n_chosen]. HSC_EINVAL: fewer than two clusters on a side,
 * more chosen than there are columns, a choice by accuracy, or a value that is not finite. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_sweep_hold_out(const hsc_table *effects, const hsc_scan_choice *choice,
                                                     hsc_sweep_held_out *out, hsc_error *err);

/* -------------------------------------------------------------------------------------------------- detectors ---- */

/*
 * What every head mostly does, with no pairs: X(id, name, meaning). A is the head's pattern over one window of text, q
 * a query and k a key; a score is the mean of a row's figure over the rows q >= 1 that can have it, then over windows.
 * Special tokens (BOS, [CLS], [SEP]) are neither queries nor keys, but for first, cls and sep.
 * A detector that no row can have is null (NaN), not 0: next in a causal model, duplicate where no token comes again.
 * induction alone is measured on random tokens: what the tokenizer puts before a text (P tokens, a BOS mostly), then n
 * random ids twice; the mean over the second half of A[q, q - n + 1] (Olsson et al. 2022).
 */
#define HSC_DETECTOR_LIST(X)                                                                                           \
    X(HSC_DETECT_PREVIOUS, "previous", "A[q, q-1]")                                                                    \
    X(HSC_DETECT_SELF, "self", "A[q, q]")                                                                              \
    X(HSC_DETECT_FIRST, "first", "A[q, 0]; null where an encoder's special token stands there")                        \
    X(HSC_DETECT_NEXT, "next", "A[q, q+1]; null in causal models")                                                     \
    X(HSC_DETECT_DUPLICATE, "duplicate", "the sum over earlier keys with the query's token, in rows that have one")    \
    X(HSC_DETECT_INDUCTION, "induction", "weight on what came after the same token before, on random tokens twice")    \
    X(HSC_DETECT_PIECE, "piece", "from later pieces of a word to its first")                                           \
    X(HSC_DETECT_PUNCTUATION, "punctuation", "the sum over keys that are punctuation, in rows that see one")           \
    X(HSC_DETECT_CLS, "cls", "encoders: A[q, 0] where a special token stands there")                                   \
    X(HSC_DETECT_SEP, "sep", "encoders: the sum over special tokens past position 0")                                  \
    X(HSC_DETECT_ENTROPY, "entropy", "entropy of the row in nats")

typedef enum {
#define HSC_DETECTOR_ENUM(id, name, meaning) id,
    HSC_DETECTOR_LIST(HSC_DETECTOR_ENUM)
#undef HSC_DETECTOR_ENUM
        HSC_N_DETECTORS
} hsc_detector;

/* "previous", and so on; NULL out of range. Static storage. */
HSC_API const char *hsc_detector_name(hsc_detector detector);
HSC_API const char *hsc_detector_meaning(hsc_detector detector);

enum {
    HSC_DETECT_WINDOW = 256, /* most tokens of a window */
    HSC_DETECT_BINS = 9,     /* of the distance profile, as HSC_STAT_DISTANCE has them */
    HSC_EXAMPLE_TOKENS = 16, /* of an example's context */
};

/* Where what was found of windows lies between runs, so that a run that was stopped goes on. A record is bytes of this
 * library's version and this machine. Window `index` is of the random sequences or of the text; `digest` stands for its
 * tokens. load: fills record[n_bytes] and returns 1, or 0 when the window is not there. save: keeps it; called in the
 * windows' order, from one thread. flush: after every few windows. */
typedef struct hsc_detect_store {
    int (*load)(void *user, int is_random, int index, uint64_t digest, void *record, size_t n_bytes);
    hsc_status (*save)(void *user, int is_random, int index, uint64_t digest, const void *record, size_t n_bytes,
                       hsc_error *err);
    hsc_status (*flush)(void *user, hsc_error *err);
    void *user;
} hsc_detect_store;

typedef struct hsc_detect_options {
    int with_bos; /* non-zero: a window begins with `bos` where the tokenizer does not put it there itself */
    hsc_token bos;
    int n_sequences; /* random ones, at most 4096; 0: 20 */
    int length;      /* random ids of a half; 0: 50, or less where the context is short */
    uint64_t seed;   /* torch.manual_seed(seed); ids are torch.randint(low, high, (1,)) one by one, those that stand in
                        the half already and special ones left out; [100, 20000) clipped to the vocabulary, and from 0
                        where it has fewer than 100 + length */
    int max_windows; /* of the text, at most 4096; 0: 200. What lies behind them is not read */
    int n_bootstrap; /* 0: 10,000 */
    hsc_session_options session;                    /* max_tokens and max_seqs are chosen */
    int (*tell)(void *user, int n_done, int n_all); /* after each window; n_all 0: not known yet. Non-zero stops with
                                                       HSC_ECANCELED; may be NULL */
    void *user;
    const hsc_team *team;          /* NULL: alone */
    const hsc_detect_store *store; /* NULL: nothing is kept; of a team rank 0 alone has one */
} hsc_detect_options;

/* The row where a head's figure is largest: the heaviest key that the detector looks for, and the text up to the query.
 * n_tokens 0: there is none. */
typedef struct hsc_detect_example {
    int window, query, key; /* positions in the window */
    float weight;           /* the row's figure */
    hsc_token key_id;
    hsc_token tokens[HSC_EXAMPLE_TOKENS]; /* the last is the query */
    int n_tokens;
} hsc_detect_example;

/* One head by one detector. The interval is a bootstrap over windows, or over sequences for induction. */
typedef struct hsc_detect_score {
    double score; /* NaN: null */
    hsc_interval ci;
    double tl; /* what TransformerLens's detect_head gives with "mul" for previous, duplicate and induction: all rows
                  and all tokens, the sum divided by the number of rows; NaN for other detectors */
    hsc_detect_example best; /* none for entropy */
} hsc_detect_score;

typedef struct hsc_detect hsc_detect;

typedef struct hsc_detect_counts {
    int n_layers, n_heads;
    int n_windows, n_tokens; /* of the text, tokens that the tokenizer adds left out */
    int n_sequences, length; /* of random ids */
    int n_before, n_after;   /* tokens put before and after every window */
    int on_random;           /* non-zero: there was no text; all detectors are about the random sequences */
    int is_cut;              /* non-zero: the text went on behind the last window */
    hsc_token before;        /* the first token put before a window; -1: none */
    int n_loaded;            /* windows and sequences that came from the store */
} hsc_detect_counts;

/*
 * Runs the random sequences and the windows of a text (NULL: none; all detectors are then about the random sequences)
 * and keeps sums of every row as it goes by. The text is cut into windows of HSC_DETECT_WINDOW tokens, or the context
 * where that is shorter, regardless of sentences; a last window of fewer than 16 tokens is left out unless it is the
 * only one. Memory: a figure of every head, detector and window, and one window's rows; the model must outlive the
 * result. HSC_EINVAL: options out of range, a vocabulary or context too small, no tokens. HSC_ENOTFOUND: a text, but no
 * tokenizer. As hsc_forward besides.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_detect_run(hsc_detect **out, const hsc_model *model, const char *text, size_t n,
                                                 const hsc_detect_options *options, hsc_error *err);
HSC_API void hsc_detect_free(hsc_detect *detect);
HSC_API hsc_detect_counts hsc_detect_count(const hsc_detect *detect);
/* out: [n_layers * n_heads]. HSC_EINVAL: no such detector. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_detect_scores(const hsc_detect *detect, hsc_detector detector,
                                                    hsc_detect_score *out, hsc_error *err);
/* out: [n_layers * n_heads][HSC_DETECT_BINS], mean weight by log2 of the distance. */
HSC_API void hsc_detect_profile(const hsc_detect *detect, double *out);

/*
 * How far the patterns of each head differ between two files of one model. Both run the same windows; per row the
 * Jensen-Shannon distance, sqrt((KL(a|m) + KL(b|m)) / 2) in bits with m = (a + b) / 2 (Endres and Schindelin 2003): 0
 * the same, 1 nothing in common. A window's figure is the mean over rows q >= 1, whatever the tokens.
 */
typedef struct hsc_drift {
    double distance; /* mean over windows */
    hsc_interval ci; /* over windows */
    double largest;  /* of a row */
} hsc_drift;

/* HSC_EINVAL when layers, heads, d_model, vocabulary or mask differ, or the tokenizers know other tokens; the message
 * names the field. */
HSC_API HSC_MUST_CHECK hsc_status hsc_drift_check(const hsc_model *a, const hsc_model *b, hsc_error *err);

/* out: [n_layers * n_heads]. The windows are hsc_detect_run's of the first model; without a text the random sequences.
 * Memory: all patterns of one window. As hsc_drift_check and hsc_detect_run. */
HSC_API HSC_MUST_CHECK hsc_status hsc_drift_run(const hsc_model *a, const hsc_model *b, const char *text, size_t n,
                                                const hsc_detect_options *options, hsc_drift *out, hsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
