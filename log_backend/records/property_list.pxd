# The walk of property lists, for the compiled kernel.


cdef class PropertyWalk:
    cdef const unsigned char[::1] _octets
    cdef object _source
    cdef str _fault
    cdef Py_ssize_t _headers_at
    cdef Py_ssize_t _headers_end
    cdef bint _unknown
    cdef public int delivery_mode
    cdef public bint carbon_copy
    cdef public long long values
    cpdef bint well_formed(self, Py_ssize_t at, Py_ssize_t end) except *
    cdef bint _walk(self, Py_ssize_t at, Py_ssize_t end, list places) except *
    cdef int _walk_whole(self, Py_ssize_t end, list places) except? -1
    cdef bint _table(self, Py_ssize_t at, Py_ssize_t end, int depth) except *
    cdef bint _array(self, Py_ssize_t at, Py_ssize_t end, int depth) except *
    cdef Py_ssize_t _field_end(self, Py_ssize_t at, Py_ssize_t end, int depth) except? -2
    cdef bint _names_carbon_copy(self, Py_ssize_t at, Py_ssize_t length) except *
    cdef Py_ssize_t _value_end(self, Py_ssize_t at, Py_ssize_t end, int depth) except? -2
    cdef object _decoded_table(self, Py_ssize_t at, Py_ssize_t end, object moment)
    cdef Py_ssize_t _after(self, Py_ssize_t at) except? -2
    cdef object _decoded(self, Py_ssize_t at, object moment)
    cdef unsigned int _u32(self, Py_ssize_t at) except *
