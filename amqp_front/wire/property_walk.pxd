# The walk of property lists, for the compiled kernel.


cdef class PropertyWalk:
    cdef const unsigned char[::1] _octets
    cdef public int delivery_mode
    cdef public bint carbon_copy
    cpdef bint well_formed(self, Py_ssize_t at, Py_ssize_t end) except *
    cdef bint _table_well_formed(self, Py_ssize_t at, Py_ssize_t end, int depth) except *
    cdef bint _names_carbon_copy(self, Py_ssize_t at, Py_ssize_t length) except *
    cdef Py_ssize_t _value_end(self, Py_ssize_t at, Py_ssize_t end, int depth) except? -2
    cdef bint _array_well_formed(self, Py_ssize_t at, Py_ssize_t end, int depth) except *
    cdef unsigned int _u32(self, Py_ssize_t at) except *
