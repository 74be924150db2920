#include "client/python/native/gil.h"

#include <unistd.h>

namespace onecopy::python {

void StayUntilTheProcessEnds() noexcept {
  for (;;) ::pause();
}

bool HasGil() { return NB_CALL(gil_check)(); }

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {}

WithoutGil::~WithoutGil() {
  CallPython([this] { PyEval_RestoreThread(state_); });
}

WithGil::WithGil() : state_(CallPython([] { return PyGILState_Ensure(); })) {}

}  // namespace onecopy::python
