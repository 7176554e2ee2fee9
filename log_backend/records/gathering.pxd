# What is written one behind the other, for the compiled kernel.
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize

from routelog.log_backend.records.record_batch cimport RecordBatch, Records, copy_octets, new_buffer, put_header, put_octets


cdef class Gathering:
    cdef public Py_ssize_t bytes
    cdef public bytearray open
    cdef Py_ssize_t _used
    cdef list _whole
    cpdef Py_ssize_t room(self, Py_ssize_t size) except? -1
    cdef int _grow(self, Py_ssize_t size) except? -1
    cpdef int add(self, object octets) except? -1
    cpdef int add_batch(self, RecordBatch batch) except? -1
    cpdef int copy_to(self, bytearray buffer, Py_ssize_t at) except? -1
    cdef int _close(self) except? -1
