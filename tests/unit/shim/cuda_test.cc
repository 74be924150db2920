#include "transport/shim/cuda.h"

#include <atomic>
#include <fstream>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/temp_folder.h"
#include "transport/memory/cuda/factory.h"
#include "transport/shim/library.h"

namespace onecopy {
namespace {

using testing::FakeCudaPath;
using testing::ScopedEnvironment;
using testing::TestLibrary;

// The memory that the daemon would have with this driver.
std::unique_ptr<Memory> MakeMemory(const std::string& library) {
  Backend<Memory> backend = cuda::Describe();
  BackendContext context{"test", Settings(backend.settings), library, {}};
  auto memory = backend.create(context);
  REQUIRE_OK(memory);
  return std::move(*memory);
}

// A driver that cannot be used is said to be so, alike, by the loader and by the memory.
void CheckUnusable(const std::string& library, std::string_view reason,
                   const std::vector<std::string>& words) {
  const Status status = shim::LoadCuda(library).status();
  INFO(status.ToString());
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reason);
  CHECK_FALSE(status.remedy().empty());
  for (const std::string& word : words) {
    INFO(word);
    CHECK(status.message().find(word) != std::string::npos);
  }
  const std::unique_ptr<Memory> memory = MakeMemory(library);
  const std::vector<MemoryCapability> capabilities = memory->Describe();
  REQUIRE(capabilities.size() == 1);
  CHECK(capabilities.front().kind == "cuda");
  CHECK(capabilities.front().device.empty());
  CHECK_FALSE(capabilities.front().viability.viable);
  CHECK(capabilities.front().viability.reason == reason);
  CHECK(capabilities.front().viability.detail == status.message());
  CHECK(capabilities.front().viability.remedy == status.remedy());
  CHECK(memory->FindDevice("cuda:0").status().reason() == reason);
  CHECK(memory->FindDevice("floppy").status().code() == Code::kNotFound);
  CHECK(memory->Allocate("GPU-1", 4096).status().reason() == reason);
  CHECK_FALSE(memory->Copies({"host", ""}, {"cuda", "GPU-1"}));
  ImportRequest request;
  request.form = "cuda-ipc";
  request.bytes = 1;
  CHECK(memory->Import(request).status().reason() == reason);
}

TEST_CASE("a driver's library that is absent is NO_DRIVER, with its path") {
  CheckUnusable("/nowhere/libcuda.so.1", reasons::kNoDriver, {"/nowhere/libcuda.so.1"});
}

TEST_CASE("where a library is missing, what to install is named") {
  const Status missing =
      shim::Library::Open("", "libnowhere.so.1", "cuda", reasons::kNoDriver, "its package")
          .status();
  CHECK(missing.reason() == reasons::kNoDriver);
  CHECK(missing.remedy() == "install its package, or set its path under [libraries] cuda");
  const Status driver = shim::LoadCuda("").status();
  if (driver.reason() != reasons::kNoDriver) ONECOPY_SKIP("this machine has a driver");
  CHECK(driver.remedy().find("libcuda1") != std::string::npos);
}

TEST_CASE("a file that is no library is NO_DRIVER") {
  const testing::TempFolder folder;
  const std::string path = folder / "not_a_library.so";
  std::ofstream(path) << "text";
  CheckUnusable(path, reasons::kNoDriver, {path});
}

TEST_CASE("a library that is not the driver is NO_DRIVER") {
  CheckUnusable("libm.so.6", reasons::kNoDriver, {"libm.so.6", "cuDriverGetVersion"});
}

TEST_CASE("the toolkit's stub is NO_DRIVER") {
  const ScopedEnvironment stub("FAKE_CUDA_VERSION", "-34");
  CheckUnusable(FakeCudaPath(), reasons::kNoDriver, {"stub"});
}

TEST_CASE("a driver older than CUDA 12.4 is DRIVER_TOO_OLD, with both versions") {
  const ScopedEnvironment old("FAKE_CUDA_VERSION", "12030");
  CheckUnusable(FakeCudaPath(), reasons::kDriverTooOld, {"12.3", "12.4"});
}

TEST_CASE("the version counts before the GPUs: an old driver without GPU is too old") {
  const ScopedEnvironment old("FAKE_CUDA_VERSION", "12020");
  const ScopedEnvironment none("FAKE_CUDA_INIT", "100");
  CheckUnusable(FakeCudaPath(), reasons::kDriverTooOld, {"12.2", "12.4"});
}

TEST_CASE("a driver without a function that is needed is DRIVER_TOO_OLD, and names it") {
  CheckUnusable(TestLibrary("libonecopy_fake_cuda_old.so"), reasons::kDriverTooOld,
                {"cuMemCreate", "13.0"});
}

TEST_CASE("a driver that sees no GPU is NO_GPU, and says what hides them") {
  const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", "7");
  {
    const ScopedEnvironment none("FAKE_CUDA_INIT", "100");
    CheckUnusable(FakeCudaPath(), reasons::kNoGpu, {"CUDA_VISIBLE_DEVICES is \"7\""});
  }
  const ScopedEnvironment none("FAKE_CUDA_DEVICES", "0");
  CheckUnusable(FakeCudaPath(), reasons::kNoGpu, {"13.0"});
}

TEST_CASE("another error of cuInit is DRIVER_FAILED with its native name") {
  const ScopedEnvironment mismatch("FAKE_CUDA_INIT", "803");
  CheckUnusable(FakeCudaPath(), reasons::kDriverFailed,
                {"cuInit", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "803"});
}

TEST_CASE("an error without a name is told by its number") {
  const ScopedEnvironment strange("FAKE_CUDA_INIT", "12345");
  CheckUnusable(FakeCudaPath(), reasons::kDriverFailed, {"12345"});
}

TEST_CASE("a driver of 12.4 is used, and GPUs are named as nvidia-smi names them") {
  const ScopedEnvironment version("FAKE_CUDA_VERSION", "12040");
  const auto api = shim::LoadCuda(FakeCudaPath());
  REQUIRE_OK(api);
  CHECK((*api)->driver_version == 12040);
  const auto uuid = shim::ReadCudaUuid(**api, 1);
  REQUIRE_OK(uuid);
  CHECK(uuid->text == "GPU-a15a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a");
  CHECK_FALSE(uuid->mig);
}

TEST_CASE("a MIG instance is told from a whole GPU") {
  const ScopedEnvironment mig("FAKE_CUDA_MIG", "1");
  const auto api = shim::LoadCuda(FakeCudaPath());
  REQUIRE_OK(api);
  const auto uuid = shim::ReadCudaUuid(**api, 0);
  REQUIRE_OK(uuid);
  CHECK(uuid->text == "MIG-a05a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01");
  CHECK(uuid->mig);
}

TEST_CASE("a driver's events tell the time between them once both have ended") {
  const auto loaded = shim::LoadCuda(FakeCudaPath());
  REQUIRE_OK(loaded);
  const shim::CudaApi& api = **loaded;
  const shim::PrimaryCudaContext context(api, 0);
  const shim::ScopedCudaContext scope(api, context.get());
  CUstream stream = nullptr;
  REQUIRE(api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CUevent begin = nullptr;
  CUevent end = nullptr;
  CUevent untimed = nullptr;
  REQUIRE(api.EventCreate(&begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(api.EventCreate(&end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(api.EventCreate(&untimed, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  float milliseconds = -1;
  CHECK(api.EventElapsedTime(&milliseconds, begin, end) == CUDA_ERROR_INVALID_HANDLE);
  std::atomic<bool> held = true;
  CHECK(api.EventRecord(begin, stream) == CUDA_SUCCESS);
  CHECK(api.LaunchHostFunc(
            stream,
            [](void* of) {
              while (*static_cast<std::atomic<bool>*>(of)) std::this_thread::yield();
            },
            &held) == CUDA_SUCCESS);
  CHECK(api.EventRecord(end, stream) == CUDA_SUCCESS);
  CHECK(api.EventRecord(untimed, stream) == CUDA_SUCCESS);
  CHECK(api.EventElapsedTime(&milliseconds, begin, end) == CUDA_ERROR_NOT_READY);
  held = false;
  CHECK(api.StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(api.EventElapsedTime(&milliseconds, begin, end) == CUDA_SUCCESS);
  CHECK(milliseconds >= 0);
  CHECK(api.EventElapsedTime(&milliseconds, begin, untimed) == CUDA_ERROR_INVALID_HANDLE);
  for (const CUevent event : {begin, end, untimed}) {
    CHECK(api.EventDestroy(event) == CUDA_SUCCESS);
  }
  CHECK(api.StreamDestroy(stream) == CUDA_SUCCESS);
}

TEST_CASE("versions are written as people write them") {
  CHECK(shim::CudaVersionText(12040) == "12.4");
  CHECK(shim::CudaVersionText(13000) == "13.0");
  CHECK(shim::CudaVersionText(12100) == "12.10");
}

}  // namespace
}  // namespace onecopy
