// The shared library is made of static ones; CMake asks for a source of its own.
