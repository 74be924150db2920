// Calls that Python makes where nobody hears of what they raise: the callbacks of weak references.
#pragma once

#include <nanobind/nanobind.h>

namespace onecopy::python {

// A callable that does `work` to its end. Python runs handlers of signals between any two
// instructions of the main thread, also inside of a callback, where it drops what they raise
// (KeyboardInterrupt, a time-out's exception), and the rest of the callback with it. Here `work` is
// called again, with the same arguments, until it returns, and what was raised goes on in the main
// thread once the callback has returned. So `work` must be fit to be begun again where it stopped.
// What fails each time is reported as Python reports it of callbacks (sys.unraisablehook).
// Every method needs the GIL.
class Undisturbed {
 public:
  explicit Undisturbed(nanobind::callable work) : work_(std::move(work)) {}
  void Call(const nanobind::args& arguments) const;

  // For Python's collector of cycles.
  const nanobind::object& work() const { return work_; }
  void LetGo() { work_.reset(); }

 private:
  nanobind::object work_;
};

PyType_Slot* UndisturbedSlots();

}  // namespace onecopy::python
