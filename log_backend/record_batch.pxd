# What the compiled kernel takes from C, and from Python's C API; classes whose attributes it reads at once.
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from libc.string cimport memcpy


cdef class Records:
    cdef public object payload
    cdef public object count
    cdef public object attributes
    cdef public object exchange
    cdef public object keys_bytes
    cdef public object properties_bytes
    cdef public object bodies_bytes
    cdef public object time
    cdef public object last_time
    cdef object _payload_crc
    cpdef object payload_crc(self)


cdef class RecordBatch:
    cdef public Records records
    cdef public object base_offset
    cdef public object end_offset
    cdef public object leader_epoch


cpdef object crc32c(object data)
