"""The shared library by ctypes, for peers that ask single functions: headscope/random.h and headscope/nn.h."""
import ctypes
import pathlib

import common
import numpy as np

F32, I64, U8 = (np.ctypeslib.ndpointer(kind, flags="C") for kind in (np.float32, np.int64, np.uint8))


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("offset", ctypes.c_uint64), ("message", ctypes.c_char * 1024)]


def load():
    """The library beside the program."""
    found = [path for name in ("libheadscope.so", "libheadscope.dylib")
             if (path := pathlib.Path(common.PROGRAM).with_name(name)).exists()]
    common.require(found, f"no shared library beside {common.PROGRAM}")
    return ctypes.CDLL(str(found[0]))


class Random:
    """hsc_random with the calls that have a name in torch."""

    class State(ctypes.Structure):
        _fields_ = [("state", ctypes.c_uint32 * 624), ("used", ctypes.c_int), ("has_normal", ctypes.c_int),
                    ("normal", ctypes.c_double)]

    def __init__(self, lib, seed):
        self.lib, self.state = lib, self.State()
        lib.hsc_random_seed(ctypes.byref(self.state), ctypes.c_uint64(seed))

    def _floats(self, function, n, *args):
        out = np.empty(n, np.float32)
        getattr(self.lib, function)(ctypes.byref(self.state), *args, out.ctypes.data_as(ctypes.c_void_p))
        return out

    def uniform(self, low, high, n):
        return self._floats("hsc_random_uniform", n, ctypes.c_float(low), ctypes.c_float(high), ctypes.c_size_t(n))

    def normal(self, n, mean=0.0, std=1.0):
        return self._floats("hsc_random_normal", n, ctypes.c_float(mean), ctypes.c_float(std), ctypes.c_size_t(n))

    def kaiming_uniform(self, n_out, n_in, a):
        return self._floats("hsc_random_kaiming_uniform", n_out * n_in, n_out, n_in, ctypes.c_double(a))

    def xavier_uniform(self, n_out, n_in, gain=1.0):
        return self._floats("hsc_random_xavier_uniform", n_out * n_in, n_out, n_in, ctypes.c_double(gain))

    def integers(self, low, high, n):
        out, err = np.empty(n, np.int64), Error()
        status = self.lib.hsc_random_integers(ctypes.byref(self.state), ctypes.c_int64(low), ctypes.c_int64(high),
                                              ctypes.c_size_t(n), out.ctypes.data_as(ctypes.c_void_p), ctypes.byref(err))
        assert status == 0, err.message
        return out

    def permutation(self, n):
        out, err = np.empty(n, np.int64), Error()
        status = self.lib.hsc_random_permutation(ctypes.byref(self.state), ctypes.c_int64(n),
                                                 out.ctypes.data_as(ctypes.c_void_p), ctypes.byref(err))
        assert status == 0, err.message
        return out


class Linear(ctypes.Structure):
    _fields_ = [("w", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("n_in", ctypes.c_int), ("n_out", ctypes.c_int),
                ("in_out", ctypes.c_int)]


class LinearGrad(ctypes.Structure):
    _fields_ = [("w", ctypes.c_void_p), ("bias", ctypes.c_void_p)]


class Mask(ctypes.Structure):
    _fields_ = [("allowed", ctypes.c_void_p), ("per_batch", ctypes.c_int), ("per_head", ctypes.c_int),
                ("causal", ctypes.c_int), ("window", ctypes.c_int)]


class AttentionShape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("n_batch", "n_heads", "n_kv_heads", "n_query", "n_key", "d_k", "d_v")]
    _fields_ += [("scale", ctypes.c_float)]


class Heads(ctypes.Structure):
    _fields_ = [("n_heads", ctypes.c_int), ("q", Linear), ("k", Linear), ("v", Linear), ("o", Linear)]


class HeadsGrad(ctypes.Structure):
    _fields_ = [(name, LinearGrad) for name in ("q", "k", "v", "o")]


class FeedForward(ctypes.Structure):
    _fields_ = [("input", Linear), ("gate", Linear), ("out", Linear), ("activation", ctypes.c_int)]


class FeedForwardGrad(ctypes.Structure):
    _fields_ = [(name, LinearGrad) for name in ("input", "gate", "out")]


class Rope(ctypes.Structure):
    _fields_ = [("d_head", ctypes.c_int), ("n_rotated", ctypes.c_int), ("interleaved", ctypes.c_int),
                ("base", ctypes.c_double)]


class Block(ctypes.Structure):
    _fields_ = [("d_model", ctypes.c_int), ("n_heads", ctypes.c_int), ("d_ff", ctypes.c_int),
                ("activation", ctypes.c_int), ("eps", ctypes.c_float)]


class Parameter(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_int64), ("count", ctypes.c_int64),
                ("n_dims", ctypes.c_int), ("shape", ctypes.c_int * 2)]


ACTIVATIONS = ["relu", "gelu", "gelu_tanh", "silu", "tanh"]


class Layers:
    """Calls of headscope/nn.h: arrays, structs and plain numbers go in as they are, a failure raises its message. What is
    passed must be kept alive by the caller."""

    def __init__(self, lib):
        self.lib = lib
        for name in ("heads", "feed_forward", "block"):
            getattr(lib, f"hsc_nn_{name}_kept").restype = ctypes.c_size_t

    @staticmethod
    def argument(value):
        if value is None:
            return ctypes.c_void_p()
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous and value.dtype in (np.float32, np.int32, np.uint8), value.dtype
            return value.ctypes.data_as(ctypes.c_void_p)
        if isinstance(value, ctypes.Structure):
            return ctypes.byref(value)
        return value

    def __call__(self, name, *args):
        err = Error()
        status = getattr(self.lib, f"hsc_nn_{name}")(*map(self.argument, args), ctypes.byref(err))
        assert status == 0, err.message.decode()

    def kept(self, name, *args):
        return np.zeros(getattr(self.lib, f"hsc_nn_{name}_kept")(*map(self.argument, args)), np.float32)


def address(array):
    return None if array is None else array.ctypes.data


def linear(w, bias=None, in_out=False):
    """hsc_nn_linear of arrays that the caller keeps."""
    n_out, n_in = w.shape[::-1] if in_out else w.shape
    return Linear(address(w), address(bias), n_in, n_out, in_out)


def linear_grad(w=None, bias=None):
    return LinearGrad(address(w), address(bias))
