/*
 * Quads of the quantised types whose blocks of 32 values follow each other as a scale, perhaps a minimum, and 16 bytes
 * of codes of 4 bits: read as they lie, codes and scales found by permutations of 16-bit words. The codes are those of
 * quad_codes, the scales those of find_scales. Include after q8_types.h.
 */
#ifndef HSC_KERNELS_AVX512_Q8_WORDS_H
#define HSC_KERNELS_AVX512_Q8_WORDS_H

INLINE bool lies_in_words(hsc_dtype dtype)
{
    return dtype == HSC_Q4_0 || dtype == HSC_Q4_1 || dtype == HSC_IQ4_NL;
}

/* Lane i of 128 bits: the eight words from `first` + i * step on. */
INLINE vi runs_of_words(int first, int step)
{
    const vi lane = _mm512_setr_epi64(0, 0, 0x0001000100010001, 0x0001000100010001, 0x0002000200020002,
                                      0x0002000200020002, 0x0003000300030003, 0x0003000300030003);
    const vi word = _mm512_broadcast_i32x4(_mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm512_add_epi16(_mm512_add_epi16(word, _mm512_set1_epi16((short)first)),
                            _mm512_mullo_epi16(lane, _mm512_set1_epi16((short)step)));
}

/* Lane i of 128 bits: the first two words of block i, of one vector and another in turn; blocks are `step` apart. */
INLINE vi heads_in_turn(int step)
{
    const vi lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const vi both = _mm512_set1_epi64(0x0021002000010000);
    return _mm512_add_epi32(_mm512_mullo_epi32(lane, vi_set1(step * 0x00010001)), both);
}

/* Codes of four rows' quads at `offset`. heads: in lane g of 128 bits each row's scale and minimum of group g. Groups
 * past n_groups are not read and have no meaning. */
INLINE void four_quads(hsc_dtype dtype, const unsigned char *const rows[4], size_t offset, int n_groups, codes w[4],
                       vi *heads)
{
    const int bytes = (int)hsc__dtype_block_bytes(dtype), step = bytes / 2, skip = dtype == HSC_Q4_1 ? 2 : 1;
    const __mmask64 exist = n_groups < QUAD ? ((uint64_t)1 << n_groups * bytes) - 1 : ~(uint64_t)0;
    vi row[4];
    UNROLL
    for (int j = 0; j < 4; j++) {
        const unsigned char *b = rows[j] + offset;
        row[j] = n_groups < QUAD ? _mm512_maskz_loadu_epi8(exist, b) : _mm512_loadu_si512(b);
        vi pieces = _mm512_permutexvar_epi16(runs_of_words(skip, step), row[j]);
        if (n_groups == QUAD) { /* whose last codes lie past the vector */
            const __m128i last = _mm_loadu_si128((const void *)(b + 3 * bytes + 2 * skip));
            pieces = _mm512_mask_broadcast_i32x4(pieces, 0xF000, last);
        }
        w[j] = halfbytes(pieces);
        if (dtype == HSC_IQ4_NL) w[j] = look_up(w[j]);
    }
    const vi turn = heads_in_turn(step);
    *heads = _mm512_mask_mov_epi32(_mm512_permutex2var_epi16(row[0], turn, row[1]), 0xCCCC,
                                   _mm512_permutex2var_epi16(row[2], turn, row[3]));
}

/* heads[g] has the rows in lanes. */
INLINE void scales_of_heads(hsc_dtype dtype, const vi heads[QUAD], quad_scales *s)
{
    UNROLL
    for (int g = 0; g < QUAD; g++) {
        s->scale[g][0] = vf_from_low_f16(heads[g]);
        if (dtype == HSC_Q4_1) s->minimum[g][0] = vf_from_low_f16(vi_shr(heads[g], 16));
    }
}

#endif
