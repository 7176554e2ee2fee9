# What partitions share when they grow, for the compiled kernel.
from routelog.log_backend.journal.journal_groups cimport JournalGroups


cdef class LogIntake:
    cdef public JournalGroups groups
    cdef public unsigned int leader_epoch
    cdef public long long tail_bytes
    cdef public long long tail_bytes_watched
    cdef public long long unflushed_bytes
    cdef public long long room
    cdef object _on_watched
    cdef public object let_go
    cdef public list appended
    cdef public bint is_committing
    cdef public bint is_moving
    cpdef grew(self, long long size)
