# What gathers for the journal, for the compiled kernel.
from routelog.log_backend.records.checksum cimport crc32c_between
from routelog.log_backend.records.gathering cimport Gathering
from routelog.log_backend.journal.journal_entry cimport put_batch_again_entry, put_batch_entry
from routelog.log_backend.records.record_batch cimport (
    RecordBatch,
    Records,
    new_buffer,
    put_u32,
    put_u64,
    put_zeros,
)


cdef class JournalGroup:
    cdef public long long position
    cdef public unsigned long long epoch
    cdef public unsigned int checksum
    cdef public Gathering content
    cdef public Py_ssize_t count
    cdef readonly dict first_offsets
    cdef readonly dict moved_offsets
    cdef public Records records
    cdef public bint waited
    cdef public bint synced
    cdef int _put_file(
        self,
        bytearray head,
        unsigned long long number,
        unsigned long long salt,
        long long first,
        long long committed,
    ) except? -1
    cdef int _put_chained(
        self,
        bytearray head,
        Py_ssize_t length,
        unsigned int shard,
        unsigned long long epoch,
        unsigned int previous,
    ) except? -1
    cdef int _seal(self, bytearray head) except? -1


cdef class JournalGroups:
    cdef public object failure
    cdef readonly bint gathers
    cdef public bint is_replicated
    cdef public bint is_held
    cdef public long long pending_bytes
    cdef list _groups
    cdef JournalGroup _last
    cdef object _on_entry
    cdef object _on_pressure
    cdef bint _pressed
    cdef bint _together
    cdef list _writing
    cdef readonly long long promised
    cpdef long long append_batch(
        self, unsigned long long partition, RecordBatch batch, bint waited, bint synced
    ) except? -1
    cdef JournalGroup _group_for(self, Py_ssize_t size)
    cdef JournalGroup _growing(self)
    cdef JournalGroup _follow(self)
    cpdef int hide(self, unsigned long long partition, long long offset) except? -1
    cpdef int withhold(self, unsigned long long partition, long long offset) except? -1
    cpdef long long first_moved(self, unsigned long long partition, long long end) except? -1
    cdef long long _added(self, JournalGroup group, Py_ssize_t size, bint waited, bint synced) except? -1
