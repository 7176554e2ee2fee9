# What the compiled kernel takes from C, and from the record batch.
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.string cimport memcpy

from routelog.log_backend.records.record_batch cimport Records, new_buffer, new_records, put_octets, put_u32, put_u64
