# What the records of a run are marked with, for the compiled kernel.
cpdef int record_attributes(run) except? -1
