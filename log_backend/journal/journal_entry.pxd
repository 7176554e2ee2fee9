# The journal's entries, for the compiled kernel.
from routelog.log_backend.records.gathering cimport Gathering
from routelog.log_backend.records.record_batch cimport RecordBatch, Records, put_u64


cpdef int put_batch_entry(Gathering gathering, unsigned long long partition, RecordBatch batch) except? -1

cpdef int put_batch_again_entry(
    Gathering gathering, unsigned long long partition, RecordBatch batch
) except? -1
