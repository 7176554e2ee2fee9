# C functions that record_batch.py calls when it is compiled.
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.string cimport memcpy
