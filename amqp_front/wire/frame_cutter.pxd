# C functions that frame_cutter.py calls when it is compiled.
from routelog.amqp_front.wire.property_walk cimport PropertyWalk
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcmp
