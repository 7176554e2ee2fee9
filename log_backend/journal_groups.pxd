# What gathers for the journal, for the compiled kernel.
from log_backend.journal_entry cimport JournalEntry


cdef class JournalGroup:
    cdef public long long position
    cdef public list pieces
    cdef public Py_ssize_t count
    cdef public Py_ssize_t bytes
    cdef public bint waited
    cdef public bint synced


cdef class JournalGroups:
    cdef public object failure
    cdef public long long pending_bytes
    cdef list _groups
    cdef JournalGroup _last
    cdef object _on_entry
    cdef object _on_pressure
    cdef bint _pressed
    cdef list _together
    cpdef long long append(self, JournalEntry entry, bint waited, bint synced) except? -1
