// The layout of DLPack's structures, versions 0 and 1, and of its C exchange API (1.3): what Python
// objects hand over. Names are the specification's, in our style.
#pragma once

#include <cstdint>

namespace onecopy::python::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

struct Device {
  int32_t type;
  int32_t id;
};

enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaque = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t dimensions;
  DataType type;
  int64_t* shape;
  int64_t* strides;  // in elements; null: compact, the last dimension fastest
  uint64_t byte_offset;
};

struct ManagedTensor {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsedName = "used_dltensor";

  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct ManagedTensorVersioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsedName = "used_dltensor_versioned";
  static constexpr uint64_t kReadOnly = 1;
  static constexpr uint64_t kSubBytePadded = 4;

  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  uint64_t flags;
  Tensor tensor;
};

// What the capsule `__dlpack_c_exchange_api__` of a tensor's type points to.
struct ExchangeApi {
  static constexpr const char* kName = "dlpack_exchange_api";

  Version version;
  ExchangeApi* previous;  // of an older major version; null: none
  int (*allocate)(Tensor*, ManagedTensorVersioned**, void*,
                  void (*)(void*, const char*, const char*));
  int (*from_object)(void* object, ManagedTensorVersioned** out);
  int (*to_object)(ManagedTensorVersioned* tensor, void** out);
  int (*borrow)(void* object, Tensor* out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

}  // namespace onecopy::python::dlpack
