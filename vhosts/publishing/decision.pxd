# What becomes of published messages, for the compiled kernel.

cdef class Router:
    cdef object _routing
    cdef object _is_over
    cdef object _passage
    cdef object _is_reply
    cdef object _names_max
    cpdef decide(self, exchange, messages, Py_ssize_t first, Py_ssize_t end, bint whole=*)
    cdef _by_keys(self, dict routes, exchange, list keys, Py_ssize_t first, Py_ssize_t end)
