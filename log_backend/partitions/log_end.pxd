# The end of a log, for the compiled kernel.
from routelog.log_backend.journal.journal_groups cimport JournalGroups
from routelog.log_backend.partitions.log_intake cimport LogIntake
from routelog.log_backend.records.record_batch cimport RecordBatch, Records, new_batch
from routelog.log_backend.partitions.tail cimport Tail


cdef class LogEnd:
    cdef public unsigned long long number
    cdef readonly object directory_text
    cdef public object durability
    cdef public bint durable
    cdef public bint synced
    cdef public bint is_stream
    cdef public bint keeps_log
    cdef public bint closed
    cdef public long long next_offset
    cdef public long long open_from
    cdef public object blocked_from
    cdef public dict cursors
    cdef public long long _segments_due
    cdef public Tail _tail
    cdef LogIntake _intake
    cdef bint _journaled
    cdef long long _waits_for
    cdef long long _moved_at
    cdef long long end_of_ready(self) except? -1
    cdef RecordBatch in_memory(self, long long offset)
    cdef bint free_below(self, long long low_water) except *
    cdef long long take(self, Records records, bint waited) except? -1
    cdef int _promise(self, object durability) except? -1
    cdef int _join(self, list appended, RecordBatch batch) except? -1
    cdef int _keep(self, RecordBatch batch) except? -1
