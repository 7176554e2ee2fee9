# The journal's entries, for the compiled kernel.
from log_backend.record_batch cimport RecordBatch, Records, new_buffer, put_header, put_u64


cdef class JournalEntry:
    cdef public object change
    cdef public unsigned long long partition
    cpdef list pieces(self)
