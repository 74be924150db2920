#include "client/python/native/memory.h"

#include "client/cli/output/document.h"
#include "client/python/native/at_exit.h"
#include "client/python/native/errors.h"
#include "client/python/native/gil.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Memory* memory = nb::inst_ptr<Memory>(self);
  return LendView(self, view, memory->address(), memory->bytes(), flags);
}

}  // namespace

Memory::~Memory() {
  // Ends the registration, which waits for the daemon.
  const WithoutGil released;
  static_cast<void>(buffer_.Close());
}

std::string Memory::Document() const {
  return cli::ToJson(buffer_.info()).dump(-1, ' ', false, cli::Json::error_handler_t::replace);
}

void Memory::Close() {
  const WithoutGil released;
  Check(buffer_.Close());
}

PyType_Slot* MemorySlots() {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(&GiveViewBack)},
                                {0, nullptr}};
  return slots;
}

}  // namespace onecopy::python
