import unittest

from checks import cuda_header

DEPS = """a.o: #deps 2, deps mtime 1 (VALID)
    /src/a.cc
    /usr/local/include/cuda.h

b.o: #deps 2, deps mtime 1 (VALID)
    /src/b.cc
    ../../transport/shim/cuda.h

c.o: #deps 2, deps mtime 1 (VALID)
    ../../c.cc
    ../deps/cuda/include/cuda.h

d.o: #deps 2, deps mtime 1 (VALID)
    ../../d.cc
    /usr/include/linux/cuda.h
"""


class CudaHeaderTest(unittest.TestCase):
    def test_objects_are_found_by_the_toolkits_header_wherever_it_lies(self):
        self.assertEqual(cuda_header.including(DEPS, "cuda.h"), {"a.o", "c.o"})
