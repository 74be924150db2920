// Python's lock (the GIL), given up and taken in ways that the end of the process survives.
//
// When the main thread ends, so does the process, whatever its daemon threads do. Before 3.14
// Python ends a thread that wants the lock from then on with pthread_exit, which unwinds the
// thread's stack like an exception that nobody may stop. Frames of C++ that cannot be unwound (a
// destructor, a `catch (...)`, what is noexcept) turn that into SIGABRT. So a thread that comes to
// its end here stays where it is, without the lock, as Python's own threads do from 3.14 on.
#pragma once

#include <nanobind/nanobind.h>

#include <cxxabi.h>

namespace onecopy::python {

// Never returns, and uses no processor. The process can end anyway.
[[noreturn]] void StayUntilTheProcessEnds() noexcept;

// Whether this thread has it.
bool HasGil();

// While it lives, other threads may run Python code, and this one must not.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

// The lock, for a thread that may not have it: one of somebody else's. Python must be initialized.
class WithGil {
 public:
  WithGil();
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  const PyGILState_STATE state_;
};

// Calls what may run Python code, which lets others have the lock meanwhile. Needs the lock.
template <typename Call>
auto CallPython(const Call& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    StayUntilTheProcessEnds();
  }
}

}  // namespace onecopy::python
