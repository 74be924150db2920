// The owning end of a ucx link, for a test to read from: a process of its own, since cuda_ipc joins
// processes. Arguments: device ("cuda:0"), bytes, the file of libucp (may be empty), and whose
// memory: "daemon" as the product allocates it for UCX ([cuda] allocation = "legacy"), "vmm" as it
// does otherwise (cuMemCreate), "client" by cuMemAlloc. Speaks lines,
// one answer each, bytes as hexadecimal digits:
//   accept OFFER -> answer ANSWER    export -> key KEY    withdraw -> withdrawn
#include <cstdio>
#include <future>
#include <iostream>
#include <string>

#include "tests/gpu/ucx_link.h"

namespace onecopy::testing {
namespace {

// Bytes whose values the test knows, from this process's memory to the GPU's.
Status FillGpu(const shim::CudaApi& api, const Region& region) {
  std::vector<std::byte> bytes(region.bytes());
  Fill(bytes.data(), bytes.size(), kUcxSeed);
  int ordinal = 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  const auto address = reinterpret_cast<CUdeviceptr>(region.address());
  CUresult error = api.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  if (error == CUDA_SUCCESS) error = api.DeviceGet(&device, ordinal);
  if (error == CUDA_SUCCESS) error = api.DevicePrimaryCtxRetain(&context, device);
  if (error == CUDA_SUCCESS) error = api.CtxSetCurrent(context);
  if (error == CUDA_SUCCESS) error = api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (error == CUDA_SUCCESS)
    error = api.MemcpyHtoDAsync(address, bytes.data(), bytes.size(), stream);
  if (error == CUDA_SUCCESS) error = api.StreamSynchronize(stream);
  if (error == CUDA_SUCCESS) return OkStatus();
  return {Code::kInternal, "TEST", shim::CudaErrorText(api, error)};
}

// Memory as programs have it; it stays until the process ends.
Result<RegionRef> ClientsMemory(const shim::CudaApi& api, int ordinal, const std::string& uuid,
                                uint64_t bytes) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  CUresult error = api.DeviceGet(&device, ordinal);
  if (error == CUDA_SUCCESS) error = api.DevicePrimaryCtxRetain(&context, device);
  if (error == CUDA_SUCCESS) error = api.CtxSetCurrent(context);
  if (error == CUDA_SUCCESS) error = api.MemAlloc(&address, bytes);
  if (error != CUDA_SUCCESS) {
    return Status(Code::kInternal, "TEST", shim::CudaErrorText(api, error));
  }
  return std::make_shared<Region>(Place{"cuda", uuid}, reinterpret_cast<std::byte*>(address), bytes,
                                  false, Region::Release());
}

Status Serve(const std::string& device, uint64_t bytes, const std::string& library,
             const std::string& whose) {
  cuda::CudaMemory::Options options;
  options.node = "owner";
  if (whose == "daemon") options.allocation = cuda::Allocation::kLegacy;
  cuda::CudaMemory memory(options, TheDriver());
  ONECOPY_ASSIGN_OR_RETURN(const std::string uuid, memory.FindDevice(device));
  RegionRef region;
  if (whose != "client") {
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Region> allocated, memory.Allocate(uuid, bytes));
    region = std::move(allocated);
  } else {
    ONECOPY_ASSIGN_OR_RETURN(
        region, ClientsMemory(**TheDriver(), std::stoi(device.substr(5)), uuid, bytes));
  }
  ONECOPY_RETURN_IF_ERROR(FillGpu(**TheDriver(), *region));
  const std::unique_ptr<Link> link = MakeUcxLink("owner", library);
  ONECOPY_ASSIGN_OR_RETURN(const auto registered, link->Register(region));
  (void)registered;
  std::shared_ptr<Connection> connection;
  RemoteKey key;
  std::string word;
  while (std::cin >> word) {
    if (word == "accept") {
      std::cin >> word;
      ONECOPY_ASSIGN_OR_RETURN(Link::Accepted accepted, Accept(*link, "reader", FromHex(word)));
      connection = std::move(accepted.connection);
      std::cout << "answer " << ToHex(accepted.answer) << std::endl;
    } else if (word == "export") {
      std::promise<Result<RemoteKey>> exported;
      connection->Export({region, 0, bytes},
                         [&](Result<RemoteKey> made) { exported.set_value(std::move(made)); });
      ONECOPY_ASSIGN_OR_RETURN(key, exported.get_future().get());
      std::cout << "key " << ToHex(key) << std::endl;
    } else if (word == "withdraw") {
      RevokeAndWait(*connection, key);
      std::cout << "withdrawn" << std::endl;
    }
  }
  connection.reset();
  link->Shutdown();
  return OkStatus();
}

}  // namespace
}  // namespace onecopy::testing

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  onecopy::shim::PrepareUcxEnvironment();
  const onecopy::Status status =
      onecopy::testing::Serve(argv[1], std::stoull(argv[2]), argv[3], argv[4]);
  if (status.ok()) return 0;
  std::cout << "error " << status.ToString() << std::endl;
  return 1;
}
