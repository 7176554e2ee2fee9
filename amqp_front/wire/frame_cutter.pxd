# C functions that frame_cutter.py calls when it is compiled.
from routelog.log_backend.records.property_list cimport PropertyWalk
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcmp
