# The tables, and the checksum of a place in memory, for the compiled kernel.
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy

cdef extern from *:
    """
    #ifdef __SSE4_2__
    #include <nmmintrin.h>
    enum { CRC_INSTRUCTION = 1, SHORT_BYTES_MAX = 65536 };
    #else
    enum { CRC_INSTRUCTION = 0, SHORT_BYTES_MAX = 768 };
    #define _mm_crc32_u64(crc, word) (crc)
    #endif
    """
    bint CRC_INSTRUCTION
    Py_ssize_t SHORT_BYTES_MAX
    unsigned long long _mm_crc32_u64(unsigned long long crc, unsigned long long word) noexcept nogil

cdef unsigned int TABLES[2048]
cdef unsigned int STRETCH_TABLES[1024]

cpdef object crc32c(object data)

cpdef object crc32c_on(object crc, object data)

cpdef unsigned int crc32c_between(bytearray buffer, Py_ssize_t at, Py_ssize_t end) noexcept

cpdef unsigned int crc32c_joined(unsigned int before, unsigned int behind, unsigned long long behind_bytes) noexcept

cdef unsigned int octets_crc(unsigned char* at, Py_ssize_t size) noexcept nogil

cdef unsigned int octets_crc_on(unsigned int crc, unsigned char* at, Py_ssize_t size) noexcept nogil

# Here, as Python has no name for a buffer's type.
cdef inline object buffer_crc(unsigned int crc, object data):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < 1024 * 1024:
            return octets_crc_on(crc, <unsigned char*> view.buf, view.len)
        with nogil:
            crc = octets_crc_on(crc, <unsigned char*> view.buf, view.len)
        return crc
    finally:
        PyBuffer_Release(&view)
