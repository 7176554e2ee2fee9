# Unsettled deliveries, for the compiled kernel.


cdef class UnackedRun:
    cdef public unsigned long long first_tag
    cdef public unsigned long long end_tag
    cdef public object partition
    cdef public long long offset
    cdef public object consumer
    cpdef UnackedRun cut(self, unsigned long long first_tag, unsigned long long end_tag)


cpdef UnackedRun new_run(
    unsigned long long first_tag,
    unsigned long long end_tag,
    object partition,
    long long offset,
    object consumer,
)


cpdef long long messages_of(list runs) except? -1


cdef class Unacked:
    cdef list _runs
    cpdef add(self, UnackedRun run)
    cpdef list take(self, unsigned long long first, unsigned long long last)
    cdef Py_ssize_t _index(self, unsigned long long tag) except? -1
    cdef list _remove(
        self, Py_ssize_t at, Py_ssize_t end, unsigned long long first, unsigned long long end_tag
    )
