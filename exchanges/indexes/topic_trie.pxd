# The places of the trie, for the compiled kernel.
cdef class TopicPlace:
    cdef public dict children
    cdef public TopicPlace star
    cdef public TopicPlace pound
    cdef public object held
    cdef public bint is_pound
