#include "client/python/native/at_exit.h"

#include <atomic>
#include <cstdint>

namespace onecopy::python {

namespace nb = nanobind;

namespace {

std::atomic<int64_t> lent{0};

// The last but nanobind's own word.
void AtTheVeryEnd() {
  if (lent.load() > 0) nb::set_leak_warnings(false);
}

}  // namespace

void NoteLent() { lent.fetch_add(1); }
void NoteGivenBack() { lent.fetch_sub(1); }

void WatchExit() {
  if (Py_AtExit(&AtTheVeryEnd) != 0) nb::set_leak_warnings(false);  // too many want to know
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    // Python has waited for all others: these stay.
    const nb::object alive = nb::module_::import_("threading").attr("active_count")();
    if (nb::cast<int>(alive) > 1) nb::set_leak_warnings(false);
  }));
}

int LendView(PyObject* self, Py_buffer* view, uint64_t address, uint64_t bytes, int flags) {
  const int failed = PyBuffer_FillInfo(view, self, reinterpret_cast<void*>(address),
                                       static_cast<Py_ssize_t>(bytes), 0, flags);
  if (failed == 0) NoteLent();
  return failed;
}

void GiveViewBack(PyObject* /*self*/, Py_buffer* /*view*/) { NoteGivenBack(); }

}  // namespace onecopy::python
