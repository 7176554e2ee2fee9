# A partition as its queue sees it, for the compiled kernel.
from routelog.log_backend.partitions.cursor cimport Cursor
from routelog.log_backend.partitions.log_end cimport LogEnd
from routelog.log_backend.records.record_batch cimport RecordBatch, Records
from routelog.vhosts.messages.delivery cimport Delivery, new_delivery


cdef class QueuePartition:
    cdef public LogEnd log
    cdef public Cursor cursor
    cdef public object rules
    cdef public object order
    cdef public object counters
    cdef public object on_expiring
    cdef object _notify
    cdef public long long next_offset
    cdef public long long delivered_before
    cdef public long long in_flight
    cdef public list returned
    cdef public long long _returned_count
    cdef public long long _pauses
    cdef public tuple _until_resumed
    cdef public object _withheld
    cdef public list _unused
    cdef public object purged
    cdef public long long _settled_ahead
    cpdef long long count_ready(self) except? -1
    cpdef take(self, long long count_max, long long bytes_max)
    cpdef settle(self, long long first, long long end, reason=*)
    cpdef long long skip_settled(self) except? -1
