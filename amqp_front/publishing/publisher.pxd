# The publishing side of a channel, for the compiled kernel.
from routelog.amqp_front.publishing.confirm_sender cimport ConfirmSender
from routelog.amqp_front.wire.command cimport PublishRun
from routelog.amqp_front.wire.record_attributes cimport record_attributes
from routelog.vhosts.counters.counters cimport ExchangeCounters, MessageCounters
from routelog.vhosts.publishing.appending cimport Appending
from routelog.vhosts.publishing.decision cimport Router


cdef class Publisher:
    cdef object _channel
    cdef object _vhost
    cdef object _clock
    cdef object _scheduler
    cdef MessageCounters _counters
    cdef ExchangeCounters _exchange_counters
    cdef public bint confirming
    cdef public Py_ssize_t carried
    cdef ConfirmSender _confirms
    cdef readonly object returns
    cdef bint _is_closed
    cdef bytes _name
    cdef str _exchange
    cdef long long _known_version
    cdef long long _known_revision
    cdef object _permissions
    cdef object _routing
    cdef object _key
    cdef tuple _queues
    cdef long long _queues_version
    cdef Appending _appending
    cdef Router _router
    cdef object _needed
    cdef public object fan_out
    cpdef publish(self, PublishRun run)
    cdef _publish(self, PublishRun run)
    cdef _queues_of(self, exchange, key)
    cdef _carry_out(self, run, decision)
    cdef _deliver(self, run, decision)
    cdef _arrived(self, needed)
    cdef _check_flags(self, PublishRun run)
    cdef _check_exchange(self, name)
