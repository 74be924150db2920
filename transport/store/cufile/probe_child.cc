#include "transport/store/cufile/probe_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "transport/os/error.h"
#include "transport/os/unique_fd.h"
#include "transport/shim/cuda.h"
#include "transport/shim/cufile.h"
#include "transport/store/cufile/counts.h"
#include "transport/store/cufile/failure.h"

namespace onecopy::cufile {
namespace {

constexpr size_t kFileBytes = size_t{1} << 20;

// One line, which is in the pipe before what comes next.
void Say(const std::string& key, const std::string& value) {
  std::string line = key + "=";
  for (const char c : value) line += c == '\n' ? ' ' : c;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// A file that nobody else sees, of bytes that tell themselves apart.
Result<os::UniqueFd> MakeFile(const std::string& folder, std::vector<char>& content) {
  os::UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) return os::ErrnoStatus(errno, "making a file in " + folder);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 + i / 4096);
  if (::write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
      ::fsync(fd.get()) != 0) {
    return os::ErrnoStatus(errno, "writing a file in " + folder);
  }
  const std::string again = "/proc/self/fd/" + std::to_string(fd.get());
  os::UniqueFd direct(::open(again.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!direct) return os::ErrnoStatus(errno, "opening a file in " + folder + " with O_DIRECT");
  return direct;
}

// Reads the file into the GPU's memory. Every end says what it was.
void ReadFile(const shim::CuFileApi& api, const Counts& counts, const shim::CudaApi& cuda,
              const std::string& gpu, const std::string& folder) {
  CUdeviceptr address = 0;
  if (const CUresult error = cuda.MemAlloc(&address, kFileBytes); error != CUDA_SUCCESS) {
    return Say("memory", shim::CudaErrorText(cuda, error));
  }
  auto* const at = reinterpret_cast<void*>(address);
  std::vector<char> content(kFileBytes);
  const Result<os::UniqueFd> file = MakeFile(folder, content);
  if (!file.ok()) return Say("file", file.status().message());
  Say("step", "registering a file");
  shim::cufile::Descriptor descriptor;
  descriptor.handle.fd = file->get();
  shim::cufile::Handle handle = nullptr;
  const shim::cufile::Error known = api.RegisterHandle(&handle, &descriptor);
  if (known.code != 0) return Say("file", shim::CuFileErrorText(known));
  Say("step", "registering memory of a GPU");
  const shim::cufile::Error registered = api.RegisterBuffer(at, kFileBytes, 0);
  if (registered.code != 0) return Say("memory", shim::CuFileErrorText(registered));
  Say("step", "reading a file into memory of a GPU");
  const std::optional<shim::CuFileCounts> before = counts.Read(gpu);
  errno = 0;
  const ssize_t got = api.Read(handle, at, kFileBytes, 0, 0);
  if (got != static_cast<ssize_t>(kFileBytes)) {
    return Say("read", got < 0 ? IoFailure("reading", got, errno).message()
                               : std::to_string(got) + " bytes of " + std::to_string(kFileBytes));
  }
  const std::optional<shim::CuFileCounts> after = counts.Read(gpu);
  CUstream stream = nullptr;
  void* seen = nullptr;
  CUresult copied = cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (copied == CUDA_SUCCESS) copied = cuda.MemHostAlloc(&seen, kFileBytes, 0);
  if (copied == CUDA_SUCCESS) copied = cuda.MemcpyDtoHAsync(seen, address, kFileBytes, stream);
  if (copied == CUDA_SUCCESS) copied = cuda.StreamSynchronize(stream);
  if (copied != CUDA_SUCCESS) {
    Say("read", "its bytes cannot be looked at: " + shim::CudaErrorText(cuda, copied));
  } else {
    Say("read", std::memcmp(seen, content.data(), kFileBytes) == 0 ? "OK" : kOtherBytes);
  }
  if (before && after) {
    const std::string why = WhyNotDirect(*before, *after, 1);
    Say("went", why.empty() ? "directly" : why);
    if (after->posix > before->posix) Say("posix", std::to_string(after->posix - before->posix));
  }
  Say("step", "letting go");
  api.DeregisterBuffer(at);
  api.DeregisterHandle(handle);
}

}  // namespace

int RunProbeChild(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    std::fprintf(stderr, "LIBRARY CUDA-LIBRARY FOLDER strict|lenient\n");
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  Say("step", "loading the library");
  const auto api = shim::LoadCuFile(arguments[0]);
  if (!api.ok()) {
    Say("reason", api.status().reason());
    Say("detail", api.status().message());
    Say("remedy", api.status().remedy());
    return 3;
  }
  Say("library", (*api)->library);
  Say("version", (*api)->version);
  // The driver looks for a context, where there is a GPU.
  const auto cuda = shim::LoadCuda(arguments[1]);
  std::string gpu;
  std::unique_ptr<shim::PrimaryCudaContext> context;
  std::unique_ptr<shim::ScopedCudaContext> current;
  if (cuda.ok()) {
    Say("step", "opening a GPU");
    CUdevice device = 0;
    if ((*cuda)->DeviceGet(&device, 0) == CUDA_SUCCESS) {
      context = std::make_unique<shim::PrimaryCudaContext>(**cuda, device);
      const Result<shim::CudaUuid> uuid = shim::ReadCudaUuid(**cuda, device);
      if (uuid.ok()) gpu = uuid->text;
    }
    if (context != nullptr && context->outcome() == CUDA_SUCCESS) {
      current = std::make_unique<shim::ScopedCudaContext>(**cuda, context->get());
    }
  } else {
    Say("gpu", cuda.status().message());
  }
  Say("step", "opening its driver");
  const shim::cufile::Error opened = shim::OpenCuFileDriver(**api, arguments[3] == "lenient");
  if (opened.code != 0) {
    Say("driver", shim::CuFileErrorText(opened));
    Say("driver_code", std::to_string(opened.code));
    return 4;
  }
  Say("driver", "OK");
  Say("step", "asking for its driver's properties");
  auto properties = std::make_unique<shim::cufile::Properties>();
  if ((*api)->GetProperties(properties.get()).code == 0) {
    const auto& nvidia_fs = properties->nvidia_fs;
    Say("nvidia_fs", std::to_string(nvidia_fs.major) + "." + std::to_string(nvidia_fs.minor));
    const bool compatible = (nvidia_fs.control_flags & shim::cufile::kAllowsCompatibility) != 0;
    Say("compatibility", compatible ? "allowed" : "off");
  }
  const Counts counts(*api);
  Say("counts", (*api)->counts() ? "libcufile" : counts.Read(gpu) ? "nvidia-fs" : "nobody");
  if (current != nullptr) ReadFile(**api, counts, **cuda, gpu, arguments[2]);
  Say("step", "ending");
  std::fflush(stdout);
  // Without what the library would do at the end.
  ::_exit(0);
}

}  // namespace onecopy::cufile
