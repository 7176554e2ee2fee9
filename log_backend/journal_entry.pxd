# The journal's entries, for the compiled kernel.
from log_backend.gathering cimport Gathering
from log_backend.record_batch cimport RecordBatch, Records, put_u64


cpdef int put_batch_entry(Gathering gathering, unsigned long long partition, RecordBatch batch) except? -1
