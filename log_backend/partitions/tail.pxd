# The tail, for the compiled kernel.
from routelog.log_backend.partitions.log_intake cimport LogIntake
from routelog.log_backend.records.record_batch cimport RecordBatch, Records


cdef class Tail:
    cdef list _batches
    cdef Py_ssize_t _start
    cdef Py_ssize_t _unflushed
    cdef LogIntake _intake
    cdef public long long bytes
    cdef public long long unflushed_bytes
    cdef public bint is_unordered
    cdef long long _latest
    cpdef bint append(self, RecordBatch batch) except *
    cpdef RecordBatch find(self, long long offset)
    cpdef long long drop_up_to(self, long long end, let_go) except? -1
    cdef long long _drop(self) except? -1
    cdef int _count_unflushed(self, long long size) except? -1
    cdef _compact(self)
