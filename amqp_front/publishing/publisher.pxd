# The publishing side of a channel, for the compiled kernel.
from routelog.amqp_front.publishing.confirm_sender cimport ConfirmSender
from routelog.amqp_front.wire.command cimport PublishRun
from routelog.amqp_front.wire.record_attributes cimport record_attributes
from routelog.vhosts.counters.counters cimport MessageCounters
from routelog.vhosts.publishing.appending cimport Appending
from routelog.vhosts.publishing.client_publish cimport ClientPublish


cdef class Publisher:
    cdef object _channel
    cdef object _vhost
    cdef object _clock
    cdef object _scheduler
    cdef MessageCounters _counters
    cdef public bint confirming
    cdef public Py_ssize_t carried
    cdef ConfirmSender _confirms
    cdef public object returns
    cdef bint _is_closed
    cdef long long _known_version
    cdef long long _known_revision
    cdef object _permissions
    cdef object _routing
    cdef ClientPublish _core
    cdef Appending _appending
    cdef object _needed
    cdef public object fan_out
    cpdef publish(self, PublishRun run)
    cdef _publish(self, PublishRun run)
    cdef _carry_out(self, run, messages, decision)
    cdef _arrived(self, needed, mandatory)
    cdef _check_flags(self, PublishRun run)
    cdef _check_exchange(self, name)
