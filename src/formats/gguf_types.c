/* Block sizes as ggml's ggml-common.h declares the structures. */
#include "formats/gguf_types.h"

#include <stddef.h>
#include <string.h>

static const hsc__ggml_type types[] = {
    [0] = {"F32", HSC_F32, 1, 4},
    [1] = {"F16", HSC_F16, 1, 2},
    [2] = {"Q4_0", HSC_Q4_0, 32, 18},
    [3] = {"Q4_1", HSC_Q4_1, 32, 20},
    [6] = {"Q5_0", HSC_Q5_0, 32, 22},
    [7] = {"Q5_1", HSC_Q5_1, 32, 24},
    [8] = {"Q8_0", HSC_Q8_0, 32, 34},
    [9] = {"Q8_1", HSC_OTHER, 32, 36},
    [10] = {"Q2_K", HSC_Q2_K, 256, 84},
    [11] = {"Q3_K", HSC_Q3_K, 256, 110},
    [12] = {"Q4_K", HSC_Q4_K, 256, 144},
    [13] = {"Q5_K", HSC_Q5_K, 256, 176},
    [14] = {"Q6_K", HSC_Q6_K, 256, 210},
    [15] = {"Q8_K", HSC_OTHER, 256, 292},
    [16] = {"IQ2_XXS", HSC_OTHER, 256, 66},
    [17] = {"IQ2_XS", HSC_OTHER, 256, 74},
    [18] = {"IQ3_XXS", HSC_OTHER, 256, 98},
    [19] = {"IQ1_S", HSC_OTHER, 256, 50},
    [20] = {"IQ4_NL", HSC_IQ4_NL, 32, 18},
    [21] = {"IQ3_S", HSC_OTHER, 256, 110},
    [22] = {"IQ2_S", HSC_OTHER, 256, 82},
    [23] = {"IQ4_XS", HSC_IQ4_XS, 256, 136},
    [24] = {"I8", HSC_I8, 1, 1},
    [25] = {"I16", HSC_I16, 1, 2},
    [26] = {"I32", HSC_I32, 1, 4},
    [27] = {"I64", HSC_I64, 1, 8},
    [28] = {"F64", HSC_F64, 1, 8},
    [29] = {"IQ1_M", HSC_OTHER, 256, 56},
    [30] = {"BF16", HSC_BF16, 1, 2},
    [34] = {"TQ1_0", HSC_OTHER, 256, 54},
    [35] = {"TQ2_0", HSC_OTHER, 256, 66},
    [39] = {"MXFP4", HSC_OTHER, 32, 17},
    [40] = {"NVFP4", HSC_OTHER, 64, 36},
    [41] = {"Q1_0", HSC_OTHER, 128, 18},
};

const hsc__ggml_type *hsc__ggml_type_find(uint32_t number)
{
    if (number >= sizeof types / sizeof *types || !types[number].name) return NULL;
    return &types[number];
}

const hsc__ggml_type *hsc__ggml_type_named(const char *name, uint32_t *number)
{
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!types[i].name || strcmp(types[i].name, name) != 0) continue;
        *number = i;
        return &types[i];
    }
    return NULL;
}
