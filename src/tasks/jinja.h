/*
 * The part of the Jinja language that chat templates are written in, with the settings that transformers renders them
 * with (trim_blocks, lstrip_blocks). What a template asks for and is not here is HSC_EUNSUPPORTED with its name and
 * line: nothing is guessed. Everything lives in one arena. The parser (jinja_lexer.c, jinja_expression.c,
 * jinja_parser.c) makes a tree; jinja_value.c has the values, jinja_call.c methods, functions, filters and tests,
 * jinja.c runs the tree.
 */
#ifndef HSC_TASKS_JINJA_H
#define HSC_TASKS_JINJA_H

#include "base/alloc.h"
#include "base/text.h"

#include <stdbool.h>

/* ------------------------------------------------------------------------------------------------------- values ----
 */

typedef enum {
    HSC__J_UNDEFINED,
    HSC__J_NONE,
    HSC__J_BOOL,
    HSC__J_INT,
    HSC__J_STRING,
    HSC__J_LIST,
    HSC__J_DICT,     /* a namespace too: only that one is ever changed */
    HSC__J_FUNCTION, /* of the environment, by name */
    HSC__J_MACRO
} hsc__jkind;

typedef struct hsc__jvalue {
    hsc__jkind kind;
    bool is_true;
    int64_t number;
    const char *text;          /* [n]; of a function its name */
    size_t n;                  /* bytes, or elements */
    struct hsc__jvalue *items; /* [n] of a list; [2n] of a dict: key, value, key, value */
    struct hsc__jdict *dict;   /* of HSC__J_DICT, so that a namespace can grow */
    const struct hsc__jnode *macro;
} hsc__jvalue;

typedef struct hsc__jdict {
    hsc__jvalue *items; /* [2n] */
    size_t n, capacity;
    bool is_namespace;
} hsc__jdict;

hsc__jvalue hsc__jstring(const char *text, size_t n);
hsc__jvalue hsc__jbool(bool is_true);
hsc__jvalue hsc__jint(int64_t number);
bool hsc__jtruth(const hsc__jvalue *v);
/* Lists are gone through, to a depth and a length that no template has use for; what lies behind that is not equal. */
bool hsc__jequal(const hsc__jvalue *a, const hsc__jvalue *b);
const char *hsc__jkind_name(const hsc__jvalue *v);
/* NULL when the dict has no such key. */
const hsc__jvalue *hsc__jget(const hsc__jdict *dict, const char *key, size_t n);
bool hsc__jput(hsc__arena *arena, hsc__jdict *dict, const char *key, size_t n, const hsc__jvalue *value);

/* -------------------------------------------------------------------------------------------------------- tree ---- */

typedef enum {
    /* expressions */
    HSC__J_LITERAL,
    HSC__J_NAME,
    HSC__J_LIST_OF,   /* kids: elements */
    HSC__J_DICT_OF,   /* kids: key, value, ... */
    HSC__J_ATTRIBUTE, /* kid 0, text */
    HSC__J_INDEX,     /* kids 0 and 1 */
    HSC__J_SLICE,     /* kid 0, then start, end, step, any of which may be NULL */
    HSC__J_CALL,      /* kid 0, then arguments; a HSC__J_KEYWORD among them has a name */
    HSC__J_KEYWORD,
    HSC__J_FILTER, /* kid 0, text, then arguments */
    HSC__J_TEST,   /* kid 0, text, then arguments */
    HSC__J_NOT,
    HSC__J_NEGATE,
    HSC__J_BINARY, /* text: the operator */
    HSC__J_CHOICE, /* kids: condition, then, else or NULL */
    /* statements */
    HSC__J_TEXT,
    HSC__J_OUTPUT,
    HSC__J_IF,  /* kids: condition, body, else or NULL */
    HSC__J_FOR, /* names in `names`; kids: iterable, condition or NULL, body, else or NULL */
    HSC__J_SET, /* kids: target (name or attribute), value; with a body instead of a value: HSC__J_SET_BLOCK */
    HSC__J_SET_BLOCK,
    HSC__J_MACRO_DEF, /* text: its name; names; kids: body, then defaults by parameter, NULL where there is none */
    HSC__J_BREAK,
    HSC__J_CONTINUE,
    HSC__J_BODY /* kids: statements */
} hsc__jnode_kind;

typedef struct hsc__jnode {
    hsc__jnode_kind kind;
    int line;
    const char *text;
    size_t n;
    hsc__jvalue value;
    struct hsc__jnode **kids;
    size_t n_kids, capacity;
    struct hsc__jnode *names; /* a HSC__J_LIST_OF of names */
} hsc__jnode;

/* ------------------------------------------------------------------------------------------------------ parsing ----
 */

typedef enum {
    HSC__JT_END,
    HSC__JT_NAME,
    HSC__JT_STRING,
    HSC__JT_INT,
    HSC__JT_OPERATOR,
    HSC__JT_CLOSE
} hsc__jtoken_kind;

typedef struct hsc__jtoken {
    hsc__jtoken_kind kind;
    const char *text;
    size_t n;
    int64_t number;
} hsc__jtoken;

typedef struct hsc__jparser {
    hsc__arena *arena;
    const char *start, *at, *end;
    int line, depth;
    hsc__jtoken token; /* under way, inside a tag */
    bool trim_newline; /* a block tag was closed: one newline after it is dropped */
    bool trim_all;     /* a tag was closed with '-' */
    hsc_error *err;
} hsc__jparser;

/* jinja_lexer.c: the next token inside a tag; HSC__JT_CLOSE at "%}" or "}}", with '-' noted. */
hsc_status hsc__jnext(hsc__jparser *p);
/* Whether the token is this operator or this word. */
bool hsc__jis(const hsc__jparser *p, const char *text);
hsc_status hsc__jexpect(hsc__jparser *p, const char *text);
/* "line N: ..." */
hsc_status hsc__jfail(hsc__jparser *p, hsc_status code, const char *what, const char *text, size_t n);
hsc__jnode *hsc__jnode_new(hsc__jparser *p, hsc__jnode_kind kind);
hsc_status hsc__jnode_add(hsc__jparser *p, hsc__jnode *node, hsc__jnode *kid);

/* jinja_expression.c */
hsc_status hsc__jparse_expression(hsc__jparser *p, hsc__jnode **out);
/* An expression, or several with commas between: a list. */
hsc_status hsc__jparse_list(hsc__jparser *p, hsc__jnode **out);
/* jinja_parser.c: the whole template. */
hsc_status hsc__jparse(hsc__arena *arena, const char *text, size_t n, hsc__jnode **out, hsc_error *err);

/* ------------------------------------------------------------------------------------------------------ running ----
 */

typedef struct hsc__jrun {
    hsc__arena *arena;
    struct hsc__jframe *frame;
    hsc__string *out;
    long steps; /* a template must come to an end */
    int depth;
    bool broke, continued;
    hsc_error *err;
} hsc__jrun;

hsc_status hsc__jrun_fail(hsc__jrun *r, int line, hsc_status code, const char *format, ...) HSC_PRINTF(4, 5);
/* jinja_call.c: args[0] is what the method, filter or test is applied to. */
hsc_status hsc__jmethod(hsc__jrun *r, const hsc__jnode *node, const char *name, size_t n_name, const hsc__jvalue *args,
                        size_t n, hsc__jvalue *out);
/* range, strftime_now and raise_exception. */
hsc_status hsc__jfunction(hsc__jrun *r, const hsc__jnode *node, const char *name, size_t n_name,
                          const hsc__jvalue *args, size_t n, hsc__jvalue *out);
hsc_status hsc__jfilter(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *args, size_t n, hsc__jvalue *out);
hsc_status hsc__jtest(hsc__jrun *r, const hsc__jnode *node, const hsc__jvalue *args, size_t n, bool *out);
/* The characters (code points) of a string as a list of strings; the elements of a list; the keys of a dict. */
hsc_status hsc__jelements(hsc__jrun *r, int line, const hsc__jvalue *v, hsc__jvalue *out);
/* Appends text. HSC_EUNSUPPORTED: a text so long that no template means it. */
hsc_status hsc__jadd(hsc__jrun *r, int line, hsc__string *out, const char *text, size_t n);
/* Appends a value as str() writes it, or as json.dumps does. HSC_EUNSUPPORTED: it holds itself, or has no end. */
hsc_status hsc__jwrite(hsc__jrun *r, int line, hsc__string *out, const hsc__jvalue *v, bool json);
/* Moves a string that was built to the arena; frees it. What went wrong while it was built is handed on. */
hsc_status hsc__jkeep(hsc__jrun *r, hsc_status status, hsc__string *text, hsc__jvalue *out);

/* Renders a template with global variables. HSC_EINVAL: the template itself refuses (raise_exception).
 * HSC_EUNSUPPORTED, HSC_EFORMAT, HSC_ENOMEM. */
hsc_status hsc__jrender(const char *text, size_t n, hsc__arena *arena, const hsc__jdict *globals, hsc__string *out,
                        hsc_error *err);

#endif
