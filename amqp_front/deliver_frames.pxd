# C functions that deliver_frames.py calls when it is compiled.
from libc.string cimport memcpy
