# The log that a queue appends to, for the compiled kernel.
from routelog.log_backend.partitions.log_end cimport LogEnd
from routelog.log_backend.records.record_batch cimport Records
from routelog.vhosts.counters.counters cimport MessageCounters
