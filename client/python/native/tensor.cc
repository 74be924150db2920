#include "client/python/native/tensor.h"

#include <memory>
#include <utility>

#include "client/python/native/at_exit.h"
#include "client/python/native/gil.h"
#include "client/python/native/text.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

[[noreturn]] void ThrowBufferError(const std::string& text) {
  throw nb::buffer_error(text.c_str());
}

// `strides` in units of `unit_bits`; null: compact.
std::vector<int64_t> StridesOf(const int64_t* strides, const std::vector<int64_t>& shape,
                               int64_t unit_bits, int64_t item_bits) {
  std::vector<int64_t> found(shape.size());
  int64_t next = item_bits;
  for (size_t i = shape.size(); i-- > 0;) {
    found[i] = strides != nullptr ? strides[i] * unit_bits : next;
    next *= shape[i];
  }
  return found;
}

Tensor Describe(const dlpack::Tensor& from, uint64_t flags, const std::string& protocol) {
  Tensor tensor;
  tensor.address = reinterpret_cast<uintptr_t>(from.data) + from.byte_offset;
  tensor.device = from.device;
  tensor.type = from.type;
  // Values of less than a byte lie in a byte each, where the flag says so.
  const bool padded = (flags & ManagedTensorVersioned::kSubBytePadded) != 0 && from.type.bits < 8;
  tensor.bits = (padded ? 8ULL : from.type.bits) * from.type.lanes;
  if (from.dimensions > 0) tensor.shape.assign(from.shape, from.shape + from.dimensions);
  tensor.strides = StridesOf(from.strides, tensor.shape, static_cast<int64_t>(tensor.bits),
                             static_cast<int64_t>(tensor.bits));
  tensor.read_only = (flags & ManagedTensorVersioned::kReadOnly) != 0;
  tensor.protocol = protocol;
  return tensor;
}

template <typename Managed>
Tensor Take(Managed* managed, uint64_t flags, const std::string& protocol) {
  const auto release = [managed] {
    if (Py_IsInitialized() == 0) NoteNeverGivenBack();  // NumPy's does nothing then
    if (managed->deleter != nullptr) managed->deleter(managed);
  };
  Tensor tensor = Describe(managed->tensor, flags, protocol);
  tensor.release = release;
  return tensor;
}

Tensor TakeVersioned(ManagedTensorVersioned* managed, const std::string& protocol) {
  if (managed->version.major != 1) {
    const uint32_t major = managed->version.major;
    if (managed->deleter != nullptr) managed->deleter(managed);
    ThrowBufferError("this array speaks DLPack " + std::to_string(major) +
                     ", and this onecopy knows version 1: update onecopy");
  }
  return Take(managed, managed->flags, protocol);
}

Tensor FromCapsule(const nb::object& capsule) {
  PyObject* const object = capsule.ptr();
  if (PyCapsule_IsValid(object, ManagedTensorVersioned::kName) != 0) {
    auto* managed = static_cast<ManagedTensorVersioned*>(
        PyCapsule_GetPointer(object, ManagedTensorVersioned::kName));
    PyCapsule_SetName(object, ManagedTensorVersioned::kUsedName);
    return TakeVersioned(managed, "dlpack");
  }
  if (PyCapsule_IsValid(object, ManagedTensor::kName) != 0) {
    auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(object, ManagedTensor::kName));
    PyCapsule_SetName(object, ManagedTensor::kUsedName);
    return Take(managed, 0, "dlpack-legacy");
  }
  if (PyCapsule_IsValid(object, ManagedTensorVersioned::kUsedName) != 0 ||
      PyCapsule_IsValid(object, ManagedTensor::kUsedName) != 0) {
    ThrowBufferError(
        "this DLPack capsule was already consumed: pass the array itself, or a new capsule of it");
  }
  const char* name = PyCapsule_GetName(object);
  ThrowBufferError("a capsule named '" + std::string(name == nullptr ? "" : name) +
                   "' does not hold a DLPack tensor: pass the array itself");
}

// Null where its type has none that we know.
const dlpack::ExchangeApi* ExchangeApiOf(const nb::object& array) {
  const nb::object found = nb::getattr(array.type(), "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_IsValid(found.ptr(), dlpack::ExchangeApi::kName) == 0) return nullptr;
  const auto* api = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(found.ptr(), dlpack::ExchangeApi::kName));
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api;
}

nb::object CapsuleOf(const nb::object& array) {
  const nb::object method = nb::getattr(array, "__dlpack__");
  try {
    return method(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();  // of before version 1
}

Tensor FromBuffer(const nb::object& array) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(array.ptr(), view.get(), PyBUF_FULL_RO) != 0) nb::raise_python_error();
  Py_buffer* const held = view.release();
  Tensor tensor;
  tensor.release = [held] {
    PyBuffer_Release(held);
    delete held;
  };
  if (held->suboffsets != nullptr) {
    for (int i = 0; i < held->ndim; ++i) {
      if (held->suboffsets[i] >= 0) {
        ThrowBufferError(
            "a buffer of pointers to rows is not one block of memory: copy it into a plain one");
      }
    }
  }
  tensor.address = reinterpret_cast<uintptr_t>(held->buf);
  tensor.bits = 8 * static_cast<uint64_t>(held->itemsize);
  tensor.format = held->format == nullptr ? "B" : held->format;
  for (int i = 0; i < held->ndim; ++i) tensor.shape.push_back(held->shape[i]);
  std::vector<int64_t> strides;
  for (int i = 0; held->strides != nullptr && i < held->ndim; ++i) {
    strides.push_back(held->strides[i]);
  }
  tensor.strides = StridesOf(strides.empty() ? nullptr : strides.data(), tensor.shape, 8,
                             static_cast<int64_t>(tensor.bits));
  tensor.read_only = held->readonly != 0;
  tensor.protocol = "buffer";
  return tensor;
}

// An exported tensor: all that it points to, and what keeps its memory.
template <typename Managed>
struct Exported {
  Managed managed = {};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  PyObject* owner = nullptr;  // a reference of its own

  static void Delete(Managed* managed) {
    auto* exported = static_cast<Exported*>(managed->context);
    // Other threads of a consumer may end it. While Python ends only the thread that has the lock
    // gets it; afterwards there is nothing to give back.
    if (nb::is_alive() && HasGil()) {
      Py_DECREF(exported->owner);
      NoteGivenBack();
    } else if (Py_IsInitialized() != 0) {
      const WithGil held;
      Py_DECREF(exported->owner);
      NoteGivenBack();
    }
    delete exported;
  }

  // Of a capsule that nobody consumed.
  static void DeleteCapsule(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
    managed->deleter(managed);
  }
};

template <typename Managed>
nb::object ToCapsule(const nb::object& owner, const dlpack::Tensor& tensor,
                     const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                     Managed managed) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->shape = shape;
  exported->strides = strides;
  exported->managed = managed;
  exported->managed.tensor = tensor;
  exported->managed.tensor.shape = exported->shape.data();
  exported->managed.tensor.strides = exported->strides.data();
  exported->managed.context = exported.get();
  exported->managed.deleter = &Exported<Managed>::Delete;
  PyObject* capsule =
      PyCapsule_New(&exported->managed, Managed::kName, &Exported<Managed>::DeleteCapsule);
  if (capsule == nullptr) nb::raise_python_error();
  exported->owner = nb::object(owner).release().ptr();
  NoteLent();
  static_cast<void>(exported.release());
  return nb::steal(capsule);
}

}  // namespace

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  std::swap(address, other.address);
  std::swap(device, other.device);
  std::swap(bits, other.bits);
  std::swap(type, other.type);
  std::swap(format, other.format);
  std::swap(shape, other.shape);
  std::swap(strides, other.strides);
  std::swap(read_only, other.read_only);
  std::swap(protocol, other.protocol);
  std::swap(release, other.release);
  return *this;
}

Tensor::~Tensor() {
  if (release) release();
}

// By Python's own calls: there is one of these for each array of thousands.
static nb::object TupleOf(const std::vector<int64_t>& values, int64_t unit) {
  nb::object made = nb::steal<nb::object>(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  if (!made.is_valid()) nb::raise_python_error();
  for (size_t i = 0; i < values.size(); ++i) {
    PyObject* const value = PyLong_FromLongLong(values[i] / unit);
    if (value == nullptr) nb::raise_python_error();
    PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), value);
  }
  return made;
}

nb::tuple Tensor::Fields() const {
  return nb::make_tuple(address, bits / 8, TupleOf(shape, 1), TupleOf(strides, 8),
                        nb::make_tuple(device.type, device.id), read_only, protocol, Type());
}

nb::object Tensor::Type() const {
  if (format) return nb::cast(*format);
  return nb::make_tuple(type.code, type.bits, type.lanes);
}

// Whether it is a tensor of torch whose elements are the conjugates or the negatives of its bytes:
// the exchange API hands those out without a word.
static bool IsLazy(const nb::object& array) {
  for (const char* bit : {"is_conj", "is_neg"}) {
    const nb::object ask = nb::getattr(array, bit, nb::none());
    if (!ask.is_none() && nb::cast<bool>(ask())) return true;
  }
  return false;
}

// Runs code of the array's own type.
static Tensor Import(const nb::object& array) {
  if (PyCapsule_CheckExact(array.ptr())) return FromCapsule(array);
  if (IsLazy(array)) throw nb::buffer_error("its conjugate or negative bit is set");
  if (const dlpack::ExchangeApi* api = ExchangeApiOf(array)) {
    ManagedTensorVersioned* managed = nullptr;
    if (api->from_object(array.ptr(), &managed) != 0) nb::raise_python_error();
    return TakeVersioned(managed, "dlpack-c");
  }
  if (nb::hasattr(array, "__dlpack__")) return FromCapsule(CapsuleOf(array));
  return FromBuffer(array);
}

Tensor ImportTensor(const nb::object& array) {
  return CallPython([&] { return Import(array); });
}

std::optional<std::tuple<uint64_t, uint64_t, bool, bool, nb::object, nb::object>> FlatMemoryOf(
    const nb::object& array) {
  Tensor tensor;
  try {
    const bool plain = PyObject_CheckBuffer(array.ptr()) != 0;
    if (!plain && CallPython([&] { return ExchangeApiOf(array); }) == nullptr) return std::nullopt;
    tensor = CallPython([&] { return plain ? FromBuffer(array) : Import(array); });
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C
    return std::nullopt;
  } catch (const nb::builtin_exception&) {
    return std::nullopt;
  }
  const bool on_gpu = tensor.device.type == dlpack::kCuda;
  if (!on_gpu && tensor.device.type != dlpack::kCpu) return std::nullopt;
  auto bits = static_cast<int64_t>(tensor.bits);
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != bits) return std::nullopt;
    bits *= tensor.shape[i];
  }
  if (bits % 8 != 0) return std::nullopt;
  return std::tuple(tensor.address, static_cast<uint64_t>(bits) / 8, tensor.read_only, on_gpu,
                    tensor.Type(), TupleOf(tensor.shape, 1));
}

nb::object ExportTensor(const nb::object& owner, uint64_t address, const dlpack::Device& device,
                        const dlpack::DataType& type, const std::vector<int64_t>& shape,
                        const std::vector<int64_t>& strides, bool read_only, bool versioned) {
  const dlpack::Tensor tensor = {reinterpret_cast<void*>(address),
                                 device,
                                 static_cast<int32_t>(shape.size()),
                                 type,
                                 nullptr,
                                 nullptr,
                                 0};
  if (versioned) {
    ManagedTensorVersioned managed = {};
    managed.version = {1, 0};
    managed.flags = read_only ? ManagedTensorVersioned::kReadOnly : 0;
    return ToCapsule(owner, tensor, shape, strides, managed);
  }
  return ToCapsule(owner, tensor, shape, strides, ManagedTensor());
}

}  // namespace onecopy::python
