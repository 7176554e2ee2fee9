# Patterns in lanes, for the compiled kernel.
cdef class LanePattern:
    cdef public list words
    cdef public object found_by
    cdef public object held
    cdef public PatternLanes lanes
    cdef public Py_ssize_t lane


cdef class WordLanes:
    cdef Py_ssize_t state
    cdef unsigned long long lanes
    cdef WordLanes more


cdef class KeyWords:
    cdef list distinct
    cdef object numbers
    cdef object columns
    cdef object room


cdef class PatternLanes:
    cdef public list patterns
    cdef dict _words
    cdef object _stars
    cdef object _loops
    cdef object _ends
    cdef list _queues
    cdef unsigned long long _hits
    cdef list _matched
    cdef _forget(self)
    cdef list _led_to(self, unsigned long long hits)
