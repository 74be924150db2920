#include "client/python/native/memory.h"

#include <unistd.h>

#include <cstring>
#include <string>

#include "client/cli/output/document.h"
#include "client/python/native/at_exit.h"
#include "client/python/native/errors.h"
#include "client/python/native/gil.h"
#include "onecopy/reasons.h"
#include "transport/os/memory/fault_trap.h"

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
  return cli::ToJson(info()).dump(-1, ' ', false, cli::Json::error_handler_t::replace);
}

void Memory::Close() {
  // In a child the lock may be held for ever by a thread that is not there.
  if (::getpid() != process_) {
    throw StatusError({Code::kFailedPrecondition, reasons::kForked,
                       "this memory was made before the process forked, and belongs to the parent "
                       "process",
                       "leave it to the parent process, or connect only in the child"});
  }
  if (!as_was_) as_was_ = buffer_.info();
  const WithoutGil released;
  const std::lock_guard lock(closing_);
  Check(buffer_.Close());
}

namespace {

// A plain view of an object's bytes, for as long as it lives.
class View {
 public:
  View(const nb::object& object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) nb::raise_python_error();
  }
  ~View() { PyBuffer_Release(&view_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  uint64_t bytes() const { return static_cast<uint64_t>(view_.len); }

 private:
  Py_buffer view_;
};

}  // namespace

void CopyBytes(const nb::object& target, const nb::object& source) {
  const View to(target, PyBUF_WRITABLE);
  const View from(source, PyBUF_SIMPLE);
  if (to.bytes() != from.bytes()) {
    throw StatusError({Code::kInvalidArgument, reasons::kSizeMismatch,
                       std::to_string(from.bytes()) + " bytes do not fit into exactly " +
                           std::to_string(to.bytes())});
  }
  const WithoutGil released;
  if (os::TouchForeign(from.data(), from.bytes(),
                       [&] { std::memcpy(to.data(), from.data(), from.bytes()); })) {
    return;
  }
  throw StatusError({Code::kAborted, reasons::kMemoryFault,
                     "a page of the memory to copy is missing (SIGBUS): its file was truncated, or "
                     "cannot be read",
                     "keep the file's length while it is mapped"});
}

PyType_Slot* MemorySlots() {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(&GiveViewBack)},
                                {0, nullptr}};
  return slots;
}

}  // namespace onecopy::python
