# Consumers with credit, for the compiled kernel.


cdef class CreditRing:
    cdef dict _rings
    cdef list _priorities
    cdef dict _spent
    cpdef add(self, consumer)
    cpdef next(self)
    cpdef spend(self, consumer)
    cpdef long long size(self, priority) except? -1
    cpdef has_credit(self, consumer)
