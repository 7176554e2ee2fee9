# Where the reads of a connection go, for the compiled kernel.
from routelog.amqp_front.connections.body_receiver cimport BodyReceiver


cdef class ReceiveBuffer:
    cdef object _services
    cdef object _channels
    cdef bytes _unread
    cdef BodyReceiver _body
    cdef public Py_ssize_t frame_limit
    cdef public Py_ssize_t run_limit
