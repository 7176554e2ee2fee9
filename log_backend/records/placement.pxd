# Where batches go in a segment, for the compiled kernel.
from routelog.log_backend.records.record_batch cimport RecordBatch, Records


cdef class Placement:
    cdef public Py_ssize_t end
    cdef public long long size
    cdef public bint transient
    cdef public list indexed
