"""Compiled inner loops (numba): arrays in, arrays out, no policy."""

from mustlink.kernels.threads import ensure_cache_folder

ensure_cache_folder()
