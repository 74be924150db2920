// What Python's end finds: nanobind then tells, on standard error, of objects of ours that are
// still there, as a reference may have been lost. That is meant for us. What others hold on to, as
// threads do that outlive the program, and libraries that give nothing back once Python ends
// (pyarrow), is not lost by us, and nobody is told of it.
#pragma once

#include <nanobind/nanobind.h>

namespace onecopy::python {

// Memory that somebody was given, by the buffer protocol or DLPack, and that came back. Any thread.
void NoteLent();
void NoteGivenBack();
// Somebody will not let go of what keeps memory of ours.
inline void NoteNeverGivenBack() { NoteLent(); }

// Once, as the module is made.
void WatchExit();

// Fills in the view of memory that an object of ours has, which counts as lent until Python calls
// GiveViewBack. Slots for types.
int LendView(PyObject* self, Py_buffer* view, uint64_t address, uint64_t bytes, int flags);
void GiveViewBack(PyObject* self, Py_buffer* view);

}  // namespace onecopy::python
