# What a connection carries out in one turn, for the compiled kernel.
from routelog.amqp_front.sockets.rota cimport Rota


cdef class CommandTurn:
    cdef Rota _rota
    cdef object _monotonic
    cdef public double until
    cdef long long _number
    cdef bint _has_waited
    cdef bint _is_late
    cdef bint _said_all
    cdef public long long commands_left
    cpdef begin(self)
