# The search for the routes of a run's messages, for the compiled kernel.
from routelog.vhosts.posting.appending cimport Appending


cdef class RouteSearch:
    cdef object _routing
    cdef Appending _turn
    cpdef by_keys(self, dict routes, exchange, list keys)
