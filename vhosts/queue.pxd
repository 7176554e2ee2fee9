# The log that a queue appends to, for the compiled kernel.
from log_backend.log_end cimport LogEnd
from log_backend.record_batch cimport Records
