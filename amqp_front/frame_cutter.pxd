# C functions that frame_cutter.py calls when it is compiled.
from libc.string cimport memcmp
