# Where the reads of a connection go, for the compiled kernel.
from routelog.amqp_front.connections.body_receiver cimport BodyReceiver
from routelog.vhosts.counters.counters cimport TrafficCounters


cdef class ReceiveBuffer:
    cdef object _services
    cdef object _channels
    cdef TrafficCounters _traffic
    cdef bytes _unread
    cdef BodyReceiver _body
    cdef public Py_ssize_t frame_limit
    cdef public Py_ssize_t run_limit
