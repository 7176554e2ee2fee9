# Counters, for the compiled kernel.


cdef class ChangedCounters:
    cdef public bint is_watched
    cdef public list noted


cdef class Counters:
    cdef ChangedCounters _changed
    cdef public bint is_noted
    cdef public double sampled_at
    cdef readonly tuple rates
    cdef tuple _sampled
    cpdef note(self)


cdef class ExchangeFlow(Counters):
    cdef readonly bytes exchange
    cdef readonly long long publish


cdef class MessageCounters(Counters):
    cdef MessageCounters _above
    cdef public object owner
    cdef readonly dict from_exchanges
    cdef readonly dict from_queues
    cdef ExchangeFlow _exchange_flow
    cdef MessageCounters _queue
    cdef MessageCounters _queue_flow
    cdef public long long ready_sampled
    cdef public long long unacked_sampled
    cdef readonly long long publish
    cdef readonly long long to_confirm
    cdef readonly long long confirm
    cdef readonly long long return_unroutable
    cdef readonly long long drop_unroutable
    cdef readonly long long deliver
    cdef readonly long long deliver_no_ack
    cdef readonly long long get
    cdef readonly long long get_no_ack
    cdef readonly long long get_empty
    cdef readonly long long redeliver
    cdef readonly long long ack
    cdef readonly long long rejected
    cdef readonly long long expired
    cdef readonly long long maxlen
    cdef readonly long long delivery_limit
    cpdef published(self, long long count)
    cpdef published_to(self, bytes exchange, long long count)
    cdef _takes_from(self, MessageCounters queue)
    cpdef expects_confirms(self, long long count)
    cpdef confirmed(self, long long count)
    cpdef unroutable(self, long long count, bint returned)
    cpdef delivered(self, MessageCounters channel, long long count, bint no_ack, bint redelivered)
    cdef _delivered(self, long long count, bint no_ack, bint redelivered)
    cpdef got(self, MessageCounters channel, bint no_ack, bint redelivered)
    cdef _got(self, bint no_ack, bint redelivered)
    cpdef got_nothing(self, MessageCounters channel)
    cdef _got_nothing(self)
    cpdef acked(self, MessageCounters channel, long long count)
    cdef _acked(self, long long count)
    cpdef refused(self, MessageCounters channel, long long count)
    cdef _refused(self, long long count)


cdef class ExchangeCounters(Counters):
    cdef readonly long long publish_in
    cdef readonly long long publish_out
    cpdef published(self, long long count, long long routed)


cdef class TrafficCounters(Counters):
    cdef TrafficCounters _above
    cdef readonly long long recv_oct
    cdef readonly long long recv_cnt
    cdef readonly long long send_oct
    cdef readonly long long send_cnt
    cpdef received(self, Py_ssize_t size)
    cdef _sent(self, Py_ssize_t size)
