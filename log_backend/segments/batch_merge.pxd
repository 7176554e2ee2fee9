# The batches that are merged, for the compiled kernel.
from routelog.log_backend.records.record_batch cimport RecordBatch, Records, new_batch
