#include "client/python/native/undisturbed.h"

#include <optional>

#include "client/python/native/gil.h"
#include "client/python/native/waiting.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

// More than any program has signals at once; `work` itself fails then.
constexpr int kMostCalls = 16;

// By the main thread, between two instructions of its program. `kept` is a reference to an
// exception.
int Raise(void* kept) {
  const nb::object exception = nb::steal(static_cast<PyObject*>(kept));
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  return -1;
}

// The first one counts, as if it had come between two instructions.
void RaiseLater(const nb::object& exception) {
  PyObject* const kept = nb::object(exception).release().ptr();
  if (Py_AddPendingCall(&Raise, kept) == 0) return;
  // Too many are waiting already, which no program ever has: say it now.
  static_cast<void>(Raise(kept));
  nb::raise_python_error();
}

int VisitWork(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Undisturbed>(self)->work().ptr());
  return 0;
}

int ClearWork(PyObject* self) {
  nb::inst_ptr<Undisturbed>(self)->LetGo();
  return 0;
}

}  // namespace

void Undisturbed::Call(const nb::args& arguments) const {
  const nb::object work = work_;
  std::optional<nb::object> raised;
  for (int calls = 1;; ++calls) {
    try {
      CallPython([&] { work(*arguments); });
      break;
    } catch (nb::python_error& failure) {
      // Other threads run no handlers of signals.
      if (calls == kMostCalls || !IsMainThread()) throw;
      if (!raised) raised = nb::borrow(failure.value());
    }
  }
  if (raised) RaiseLater(*raised);
}

PyType_Slot* UndisturbedSlots() {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&VisitWork)},
                                {Py_tp_clear, reinterpret_cast<void*>(&ClearWork)},
                                {0, nullptr}};
  return slots;
}

}  // namespace onecopy::python
