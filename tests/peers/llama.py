"""llama.cpp's logits and patterns. It has no interface for patterns; its callback for every step of the graph is asked for
the softmax of each layer. Keys and values stay float32 and attention is not fused, so that the products alone deviate.
Wants llama-cpp-python, whose own module loads the libraries that are called here by name."""
import ctypes
import pathlib

import llama_cpp
import numpy as np

SOFTMAX = "kq_soft_max-"
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)


@llama_cpp.llama_log_callback
def _silent(level, text, user):
    pass


def _tensor_library():
    folder = pathlib.Path(llama_cpp.__file__).parent / "lib"
    library = ctypes.CDLL(str(next(path for path in folder.iterdir() if path.stem.endswith("ggml-base"))))
    library.ggml_get_name.restype, library.ggml_get_name.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    library.ggml_nbytes.restype, library.ggml_nbytes.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    library.ggml_backend_tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    library.ggml_backend_tensor_get.restype = None
    return library


class Engine:
    def __init__(self, path, n_ctx, n_threads):
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.library, self.softmax = _tensor_library(), {}
        self.callback = CALLBACK(self._see)
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        assert self.model, f"llama.cpp cannot open {path}"
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = n_ctx
        options.n_threads = options.n_threads_batch = n_threads
        options.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
        options.cb_eval = ctypes.cast(self.callback, type(options.cb_eval))
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        assert self.context, "llama.cpp makes no context"

    def _see(self, tensor, is_question, _):
        """Asked before each step whether its result is wanted, and called again when it is there."""
        name = self.library.ggml_get_name(tensor).decode()
        if is_question:
            return name.startswith(SOFTMAX)
        values = np.empty(self.library.ggml_nbytes(tensor) // 4, np.float32)
        self.library.ggml_backend_tensor_get(tensor, values.ctypes.data, 0, values.nbytes)
        self.softmax[int(name.removeprefix(SOFTMAX))] = values
        return True

    def run(self, ids):
        """{"logits": [n_pos][d_vocab], "pattern.L": [n_heads][n_query][n_key]} of one text from an empty cache."""
        n, batch = len(ids), llama_cpp.llama_batch_init(len(ids), 0, 1)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        batch.n_tokens = n
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        assert llama_cpp.llama_decode(self.context, batch) == 0, "llama_decode failed"
        n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self.context), (n, n_vocab)).copy()
        llama_cpp.llama_batch_free(batch)
        n_heads = llama_cpp.llama_model_n_head(self.model)
        patterns = {f"pattern.{layer}": values.reshape(n_heads, n, -1)[:, :, :n] for layer, values in self.softmax.items()}
        self.softmax = {}
        return {"logits": logits, **patterns}

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)
