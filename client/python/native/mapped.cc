#include "client/python/native/mapped.h"

#include "client/cli/output/document.h"
#include "client/python/native/at_exit.h"
#include "client/python/native/errors.h"
#include "client/python/native/gil.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

int GetMappedBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Mapped* memory = nb::inst_ptr<Mapped>(self);
  if (memory->cuda_device().has_value()) {
    PyErr_SetString(PyExc_BufferError,
                    "this is GPU memory: use DLPack or the CUDA array interface");
    return -1;
  }
  return LendView(self, view, memory->address(), memory->span_bytes(), flags);
}

}  // namespace

Mapped::~Mapped() {
  const WithoutGil released;  // a driver may take its time
  static_cast<void>(buffer_.Close());
}

std::string Mapped::Document() const {
  return cli::ToJson(buffer_.info()).dump(-1, ' ', false, cli::Json::error_handler_t::replace);
}

void Mapped::CheckValid() const { Check(buffer_.CheckValid()); }

PyType_Slot* MappedSlots() {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetMappedBuffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(&GiveViewBack)},
                                {0, nullptr}};
  return slots;
}

}  // namespace onecopy::python
