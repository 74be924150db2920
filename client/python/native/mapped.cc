#include "client/python/native/mapped.h"

#include "client/cli/output/document.h"
#include "client/python/native/errors.h"
#include "client/python/native/gil.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

int GetMappedBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Mapped* memory = nb::inst_ptr<Mapped>(self);
  if (memory->cuda_device().has_value()) {
    PyErr_SetString(PyExc_BufferError,
                    "this memory is a GPU's: use DLPack, or the CUDA array interface");
    return -1;
  }
  return PyBuffer_FillInfo(view, self, reinterpret_cast<void*>(memory->address()),
                           static_cast<Py_ssize_t>(memory->bytes()), 0, flags);
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
                                {0, nullptr}};
  return slots;
}

}  // namespace onecopy::python
