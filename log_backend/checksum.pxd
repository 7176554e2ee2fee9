# The tables, and the checksum of a place in memory, for the compiled kernel.
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy

cdef unsigned int TABLES[2048]

cpdef object crc32c(object data)

cdef unsigned int octets_crc(unsigned char* at, Py_ssize_t size) noexcept
