# The places of the trie, for the compiled kernel.
cdef class TopicPlace:
    cdef public dict children
    cdef public object held
    cdef public bint is_pound
