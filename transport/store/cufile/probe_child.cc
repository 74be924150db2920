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

#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"
#include "transport/shim/cuda.h"
#include "transport/shim/cufile.h"
#include "transport/store/cufile/batches.h"
#include "transport/store/cufile/counts.h"
#include "transport/store/cufile/failure.h"

namespace onecopy::cufile {
namespace {

constexpr size_t kFileBytes = size_t{1} << 20;
constexpr unsigned kProbedEntries = 16;

// One line, which is in the pipe before what comes next.
void Say(const std::string& key, const std::string& value) {
  std::string line = key + "=";
  for (const char c : value) line += c == '\n' ? ' ' : c;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// A file that no other process sees, of bytes that tell themselves apart.
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

// Memory of a GPU with a file beside it, and what is needed to see what came of them.
struct Bench {
  const shim::CuFileApi& api;
  const Counts& counts;
  const shim::CudaApi& cuda;
  const std::string& gpu;
  CUdeviceptr memory = 0;
  void* seen = nullptr;  // of the host: what was in the GPU's memory
  CUstream stream = nullptr;
  std::vector<char> content = std::vector<char>(kFileBytes);
  shim::cufile::Handle handle = nullptr;

  void* at() const { return reinterpret_cast<void*>(memory); }
  CUresult Prepare() {
    CUresult made = cuda.MemAlloc(&memory, kFileBytes);
    if (made == CUDA_SUCCESS) made = cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (made == CUDA_SUCCESS) made = cuda.MemHostAlloc(&seen, kFileBytes, 0);
    return made;
  }
  // Whether the GPU has these bytes.
  std::string Compare(const std::vector<char>& expected) const {
    CUresult copied = cuda.MemcpyDtoHAsync(seen, memory, kFileBytes, stream);
    if (copied == CUDA_SUCCESS) copied = cuda.StreamSynchronize(stream);
    if (copied != CUDA_SUCCESS) {
      return "its bytes cannot be inspected: " + shim::CudaErrorText(cuda, copied);
    }
    return std::memcmp(seen, expected.data(), kFileBytes) == 0 ? "OK" : kOtherBytes;
  }
};

// Reads the file into the GPU's memory by one call. Every end says what it was.
void ReadWhole(const Bench& bench) {
  Say("step", "reading a file into memory of a GPU");
  const std::optional<shim::CuFileCounts> before = bench.counts.Read(bench.gpu);
  errno = 0;
  const ssize_t got = bench.api.Read(bench.handle, bench.at(), kFileBytes, 0, 0);
  if (got != static_cast<ssize_t>(kFileBytes)) {
    return Say("read", got < 0 ? IoFailure("reading", got, errno).message()
                               : std::to_string(got) + " bytes of " + std::to_string(kFileBytes));
  }
  const std::optional<shim::CuFileCounts> after = bench.counts.Read(bench.gpu);
  Say("read", bench.Compare(bench.content));
  if (!before || !after) return;
  const std::string why = WhyNotDirect(*before, *after, 1);
  Say("went", why.empty() ? "directly" : why);
  if (after->posix > before->posix) Say("posix", std::to_string(after->posix - before->posix));
}

// Blocks of the file into others of the memory, by one batch. What came of it.
std::string ReadBatch(const Bench& bench) {
  constexpr size_t kBlock = kFileBytes / kProbedEntries;
  std::vector<BatchPiece> pieces;
  std::vector<char> expected(kFileBytes);
  for (size_t i = 0; i < kProbedEntries; ++i) {
    const size_t to = kProbedEntries - 1 - i;
    pieces.push_back({i * kBlock, to * kBlock, kBlock});
    std::memcpy(expected.data() + to * kBlock, bench.content.data() + i * kBlock, kBlock);
  }
  auto properties = std::make_unique<shim::cufile::Properties>();
  if (bench.api.GetProperties(properties.get()).code != 0) return "its driver has no properties";
  if (properties->max_batch < kProbedEntries) {
    return "its driver takes " + std::to_string(properties->max_batch) + " entries at most";
  }
  const auto api = std::make_shared<const shim::CuFileApi>(bench.api);
  Batches batches(api, {.entries = kProbedEntries});
  const std::optional<shim::CuFileCounts> before = bench.counts.Read(bench.gpu);
  const std::atomic<bool> never = false;
  const std::vector<BatchEnd> ends =
      batches.Run(false, bench.handle, static_cast<std::byte*>(bench.at()), pieces, never);
  const std::optional<shim::CuFileCounts> after = bench.counts.Read(bench.gpu);
  if (!batches.broken().empty()) return batches.broken();
  for (const BatchEnd& end : ends) {
    if (end.how == BatchEnd::How::kNotTaken) return "an entry was not taken";
    if (end.how != BatchEnd::How::kMoved || end.result != static_cast<ssize_t>(kBlock)) {
      return "an entry ended with " + std::to_string(end.result) + " instead of " +
             std::to_string(kBlock);
    }
  }
  if (const std::string same = bench.Compare(expected); same != "OK") return same;
  if (!before || !after) return "nothing counts its operations";
  const std::string why = WhyNotDirect(*before, *after, kProbedEntries);
  return why.empty() ? kBatchWorks : why;
}

// Every end says what it was.
void TryFile(Bench& bench, const std::string& folder, bool batch) {
  if (const CUresult error = bench.Prepare(); error != CUDA_SUCCESS) {
    return Say("memory", shim::CudaErrorText(bench.cuda, error));
  }
  const Result<os::UniqueFd> file = MakeFile(folder, bench.content);
  if (!file.ok()) return Say("file", file.status().message());
  Say("step", "registering a file");
  shim::cufile::Descriptor descriptor;
  descriptor.handle.fd = file->get();
  const shim::cufile::Error known = bench.api.RegisterHandle(&bench.handle, &descriptor);
  if (known.code != 0) return Say("file", shim::CuFileErrorText(known));
  Say("step", "registering memory of a GPU");
  const shim::cufile::Error registered = bench.api.RegisterBuffer(bench.at(), kFileBytes, 0);
  if (registered.code != 0) return Say("memory", shim::CuFileErrorText(registered));
  ReadWhole(bench);
  if (batch && bench.api.batches()) {
    Say("step", kBatchStep);
    const std::string came = ReadBatch(bench);
    Say("batch", came);
    Say("batch_counts", shim::DescribeCuFileBatches(bench.api));
  } else if (batch) {
    Say("batch", "the library has no such call");
  }
  Say("step", "letting go");
  bench.api.DeregisterBuffer(bench.at());
  bench.api.DeregisterHandle(bench.handle);
}

}  // namespace

int RunProbeChild(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    std::fprintf(stderr, "LIBRARY CUDA-LIBRARY FOLDER strict|lenient[+batch]\n");
    return 2;
  }
  const std::string& mode = arguments[3];
  const bool lenient = mode.starts_with(kLenient);
  const bool batch = mode == kStrictWithBatches || mode == kLenientWithBatches;
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
  const shim::cufile::Error opened = shim::OpenCuFileDriver(**api, lenient);
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
  if (current != nullptr) {
    Bench bench{**api, counts, **cuda, gpu};
    TryFile(bench, arguments[2], batch);
  }
  Say("step", "ending");
  std::fflush(stdout);
  // Without what the library would do at the end.
  ::_exit(0);
}

}  // namespace onecopy::cufile
