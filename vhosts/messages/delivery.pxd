# A slice of a batch on its way to a consumer, for the compiled kernel.
from routelog.log_backend.records.record_batch cimport Records


cdef class Delivery:
    cdef public object partition
    cdef public Records records
    cdef public Py_ssize_t index
    cdef public Py_ssize_t count
    cdef public long long offset
    cdef public bint redelivered
    cdef public object partition_index


cpdef Delivery new_delivery(
    object partition,
    Records records,
    Py_ssize_t index,
    Py_ssize_t count,
    long long offset,
    bint redelivered,
)
