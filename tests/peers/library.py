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
