# What a client publishes, for the compiled kernel.
from routelog.vhosts.counters.counters cimport ExchangeCounters
from routelog.vhosts.publishing.appending cimport Appending
from routelog.vhosts.publishing.decision cimport Router


cdef class ClientPublish:
    cdef object _vhost
    cdef object _targets
    cdef object _routing
    cdef object _clock
    cdef readonly bytes name
    cdef readonly str exchange
    cdef readonly ExchangeCounters counters
    cdef readonly Appending appending
    cdef Router _router
    cdef object _key
    cdef tuple _queues
    cdef long long _queues_version
    cpdef turn_to(self, name, exchange)
    cpdef queues_of(self, key)
    cpdef decide(self, messages, Py_ssize_t first, Py_ssize_t end)
    cpdef carry_out(self, messages, decision)
    cdef _deliver(self, messages, decision)
