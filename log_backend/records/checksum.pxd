# The tables, and the checksum of a place in memory, for the compiled kernel.
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy

cdef extern from *:
    """
    #ifdef __SSE4_2__
    #include <nmmintrin.h>
    enum { CRC_INSTRUCTION = 1, SHORT_BYTES_MAX = 2048 };
    #else
    enum { CRC_INSTRUCTION = 0, SHORT_BYTES_MAX = 768 };
    #define _mm_crc32_u64(crc, word) (crc)
    #endif
    """
    bint CRC_INSTRUCTION
    Py_ssize_t SHORT_BYTES_MAX
    unsigned long long _mm_crc32_u64(unsigned long long crc, unsigned long long word) noexcept nogil

cdef unsigned int TABLES[2048]

cpdef object crc32c(object data)

cpdef unsigned int crc32c_between(bytearray buffer, Py_ssize_t at, Py_ssize_t end) noexcept

cdef unsigned int octets_crc(unsigned char* at, Py_ssize_t size) noexcept nogil
