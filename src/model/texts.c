/* Texts read by themselves. */
#include "model/texts.h"

#include "base/status.h"

const hsc_config *hsc__texts_config(const hsc_model *model)
{
    const hsc_config *encoder = hsc_model_encoder(model);
    return encoder ? encoder : hsc_model_config(model);
}

hsc_site hsc__texts_pattern(const hsc_model *model)
{
    return hsc_model_encoder(model) ? HSC_ENC_PATTERN : HSC_PATTERN;
}

hsc_status hsc__texts_session(hsc_session **out, const hsc_model *model, const hsc_session_options *options,
                              hsc_error *err)
{
    hsc_session_options o = *options;
    if (!hsc_model_encoder(model)) return hsc_session_new(out, model, &o, err);
    HSC_FAIL_IF(o.mask.window || o.mask.allowed, HSC_EINVAL,
                "%s is an encoder-decoder: a window is about its decoder, and its encoder reads the texts",
                hsc_model_config(model)->name);
    o.max_source = o.max_tokens;
    o.max_tokens = 1;
    return hsc_session_new(out, model, &o, err);
}

hsc_status hsc__texts_forward(hsc_session *session, const hsc_batch *batch, hsc_error *err)
{
    bool encoder = hsc_model_encoder(hsc_session_model(session)) != NULL;
    return encoder ? hsc_session_read_source(session, batch, err) : hsc_forward(session, batch, err);
}
