# What the compiled kernel takes from C, and from Python's C API; classes whose attributes it reads at once.
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy, memset

from routelog.log_backend.records.checksum cimport crc32c, crc32c_between, octets_crc


cdef class Records:
    cdef public object payload
    cdef public Py_ssize_t count
    cdef public unsigned int attributes
    cdef public bytes exchange
    cdef public Py_ssize_t keys_bytes
    cdef public Py_ssize_t properties_bytes
    cdef public Py_ssize_t bodies_bytes
    cdef public long long time
    cdef public long long last_time
    cdef long long _payload_crc
    cpdef long long payload_crc(self) except? -1


cdef class RecordBatch:
    cdef public Records records
    cdef public long long base_offset
    cdef public long long end_offset
    cdef public unsigned int leader_epoch


cpdef Records new_records(
    object payload,
    Py_ssize_t count,
    unsigned int attributes,
    bytes exchange,
    Py_ssize_t keys_bytes,
    Py_ssize_t properties_bytes,
    Py_ssize_t bodies_bytes,
    long long time,
)

cpdef RecordBatch new_batch(Records records, long long base_offset, unsigned int leader_epoch)

cpdef int put_header(bytearray buffer, Py_ssize_t at, RecordBatch batch) except? -1

cpdef object new_buffer(Py_ssize_t size)

cpdef int put_u32(bytearray buffer, Py_ssize_t at, Py_ssize_t value) except? -1

cpdef int put_u64(bytearray buffer, Py_ssize_t at, long long number) except? -1

cpdef int put_zeros(bytearray buffer, Py_ssize_t at) except? -1

cpdef int put_octets(bytearray buffer, Py_ssize_t at, object octets) except? -1

cdef int copy_octets(char* target, char* source, Py_ssize_t size) noexcept
