# What deliver_frames.py takes from C, and from the kernel, when it is compiled.
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy

from routelog.log_backend.records.record_batch cimport Records, new_buffer, put_octets
