// The matrices between GPUs: what is printed and written of made-up figures, and the measuring with
// plain CUDA on the fake driver.
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/matrix/document.h"
#include "bench/matrix/plain.h"
#include "bench/matrix/table.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/text.h"

namespace onecopy::bench {
namespace {

using testing::Has;
using testing::ScopedEnvironment;
using Json = nlohmann::json;

constexpr uint64_t kMiB = uint64_t{1} << 20;

const Status kNoP2p{Code::kFailedPrecondition, reasons::kNoPeerAccess,
                    "GPU-a cannot reach the memory of GPU-b"};
const Status kBroken{Code::kFailedPrecondition, reasons::kDriverFailed, "cuMemcpyPeerAsync: no"};

Matrix MadeUp(size_t gpus) {
  Matrix matrix{.bytes = 256 * kMiB, .samples = 5, .cuda_version = 13000};
  matrix.driver_version = "580.65.06";
  for (size_t i = 0; i < gpus; ++i) {
    matrix.gpus.push_back(
        {"NVIDIA H200", "GPU-" + std::string(1, static_cast<char>('a' + i)), uint64_t{141} << 30});
  }
  matrix.pairs = EveryPair(gpus);
  double next = 1;
  for (PairFigures& pair : matrix.pairs) {
    for (PlainFigures* const plain : {&pair.p2p_on, &pair.p2p_off}) {
      plain->one_way_bytes_per_second = 1e9 * next++;
      plain->both_ways_bytes_per_second = 1e9 * next++;
      plain->latency_seconds = 1e-6 * next++;
    }
    pair.through_host_bytes_per_second = 1e9 * next++;
    pair.onecopy_bytes_per_second = 1e9 * next++;
    pair.onecopy_latency_seconds = 1e-6 * next++;
    pair.onecopy_path = pair.from == pair.to ? "local" : "peer-direct";
  }
  return matrix;
}

void Refuse(PlainFigures* plain, const Status& why) {
  plain->one_way_bytes_per_second = why;
  plain->both_ways_bytes_per_second = why;
  plain->latency_seconds = why;
}

std::string Printed(const Matrix& matrix) {
  std::ostringstream out;
  PrintMatrix(matrix, out);
  return out.str();
}

TEST_CASE("a matrix has a row for each GPU that bytes leave, and says what it is") {
  const std::string text = Printed(MadeUp(2));
  INFO(text);
  CHECK(
      Has(text, "2 GPUs, CUDA 13.0, driver 580.65.06\n  0  NVIDIA H200  GPU-a\n  1  NVIDIA H200"));
  CHECK(Has(text,
            "Plain CUDA, one way, P2P on (GB/s)\n"
            "from\\to         0         1\n"
            "      0      1.00     10.00\n"
            "      1     19.00     28.00\n"));
  CHECK(Has(text,
            "onecopy, the path of these transfers\n"
            "from\\to           0           1\n"
            "      0       local peer-direct\n"
            "      1 peer-direct       local\n"));
  for (const char* heading :
       {"one way, P2P off (GB/s)", "both ways at once, the sum, P2P on (GB/s)",
        "both ways at once, the sum, P2P off (GB/s)", "through pinned host memory",
        "latency of copies of 16 B, P2P on (us)", "latency of copies of 16 B, P2P off (us)",
        "onecopy, one way", "latency of transfers of 4 KiB"}) {
    CHECK(Has(text, heading));
  }
  CHECK_FALSE(Has(text, "->"));
}

TEST_CASE("a pair without P2P has no number but the reason") {
  Matrix matrix = MadeUp(2);
  Refuse(&matrix.pairs[1].p2p_on, kNoP2p);
  matrix.pairs[1].onecopy_path = "peer-bounce";
  const std::string text = Printed(matrix);
  INFO(text);
  CHECK(Has(text,
            "Plain CUDA, one way, P2P on (GB/s)\n"
            "from\\to         0         1\n"
            "      0      1.00    no P2P\n"
            "      1     19.00     28.00\n"
            "  0 -> 1: no P2P: GPU-a cannot reach the memory of GPU-b\n"));
  CHECK_FALSE(AnyFailed(matrix));

  const Json pair = Json::parse(MatrixDocument(matrix, {})).at("pairs").at(1);
  CHECK(pair.at("p2p_on_one_way_bytes_per_second").is_null());
  CHECK(pair.at("p2p_off_one_way_bytes_per_second") == 1e9 * 13);
  CHECK(pair.at("missing").size() == 3);
  CHECK(pair.at("missing").at("p2p_on_latency_seconds") ==
        Json{{"reason", "NO_PEER_ACCESS"}, {"detail", kNoP2p.message()}});
}

TEST_CASE("a figure that failed, or was stopped before, is told apart from one without P2P") {
  Matrix matrix = MadeUp(2);
  matrix.pairs[2].through_host_bytes_per_second = NotMeasured();
  matrix.pairs[2].onecopy_path.clear();
  CHECK_FALSE(AnyFailed(matrix));
  matrix.pairs[1].through_host_bytes_per_second = kBroken;
  CHECK(AnyFailed(matrix));
  const std::string text = Printed(matrix);
  INFO(text);
  CHECK(Has(text,
            "      0      7.00    failed\n      1         -     34.00\n"
            "  0 -> 1: failed: cuMemcpyPeerAsync: no\n\n"));
  const Json document = Json::parse(MatrixDocument(matrix, {}));
  CHECK(document.at("pairs").at(2).at("onecopy_path").is_null());
  CHECK(document.at("pairs").at(2).at("missing").at("through_host_bytes_per_second").at("reason") ==
        "CANCELLED");
}

TEST_CASE("one GPU has a matrix of one figure") {
  const std::string text = Printed(MadeUp(1));
  INFO(text);
  CHECK(Has(text, "1 GPU, CUDA 13.0"));
  CHECK(Has(text, "from\\to         0\n      0      1.00\n"));
  CHECK(Json::parse(MatrixDocument(MadeUp(1), {})).at("pairs").size() == 1);
}

TEST_CASE("the document has units in its names, and says which GPUs and which driver") {
  const Json document = Json::parse(
      MatrixDocument(MadeUp(2), {.machine = "a machine", .time = "now", .version = "1.2"}));
  CHECK(document.at("machine") == "a machine");
  CHECK(document.at("version") == "1.2");
  CHECK(document.at("driver_version") == "580.65.06");
  CHECK(document.at("cuda_version") == "13.0");
  CHECK(document.at("timed_by") == "events");
  CHECK(document.at("bytes") == 256 * kMiB);
  CHECK(document.at("gpus").at(1) ==
        Json{{"name", "NVIDIA H200"}, {"uuid", "GPU-b"}, {"memory_bytes", uint64_t{141} << 30}});
  REQUIRE(document.at("pairs").size() == 4);
  const Json& pair = document.at("pairs").at(1);
  CHECK(pair.at("from") == 0);
  CHECK(pair.at("to") == 1);
  CHECK(pair.at("from_uuid") == "GPU-a");
  CHECK(pair.at("to_uuid") == "GPU-b");
  CHECK(pair.at("p2p_on_one_way_bytes_per_second") == 1e9 * 10);
  CHECK(pair.at("p2p_on_both_ways_bytes_per_second") == 1e9 * 11);
  CHECK(pair.at("p2p_on_latency_seconds") == 1e-6 * 12);
  CHECK(pair.at("through_host_bytes_per_second") == 1e9 * 16);
  CHECK(pair.at("onecopy_bytes_per_second") == 1e9 * 17);
  CHECK(pair.at("onecopy_latency_seconds") == 1e-6 * 18);
  CHECK(pair.at("onecopy_path") == "peer-direct");
  CHECK(pair.at("missing").empty());
}

TEST_CASE("sizes that cannot be measured are refused, with the reason") {
  const std::vector<MatrixGpu> gpus = {{"A", "GPU-a", 64 * kMiB}, {"B", "GPU-b", 32 * kMiB}};
  CHECK(CheckSize(8 * kMiB, gpus).ok());
  const Status large = CheckSize(8 * kMiB + 1, gpus);
  CHECK(large.reason() == "BAD_ARGUMENT");
  CHECK(Has(large.message(), "GPU-b"));
  CHECK_FALSE(CheckSize(UINT64_MAX, gpus).ok());
  CHECK(Has(CheckSize(0, {}).message(), "--size must be at least 1"));
}

// The real driver stages a copy between GPUs without peer access; the fake one refuses it. This one
// stages, and counts.
CudaRef fake_driver;
int staged_copies = 0;

struct Job {
  CUdeviceptr to = 0;
  CUdeviceptr from = 0;
  size_t bytes = 0;
};

CUresult StagedCopy(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                    size_t bytes, CUstream stream) {
  const CUresult direct =
      fake_driver->MemcpyPeerAsync(to, to_context, from, from_context, bytes, stream);
  if (direct != CUDA_ERROR_INVALID_VALUE) return direct;
  ++staged_copies;
  return fake_driver->LaunchHostFunc(
      stream,
      [](void* data) {
        const std::unique_ptr<Job> job(static_cast<Job*>(data));
        std::memcpy(reinterpret_cast<void*>(job->to), reinterpret_cast<void*>(job->from),
                    job->bytes);
      },
      new Job{to, from, bytes});
}

CUresult NoCopy(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream) {
  return CUDA_SUCCESS;
}

using PeerCopyFunction = decltype(shim::CudaApi::MemcpyPeerAsync);

PlainOptions OnFake(PeerCopyFunction copy = nullptr) {
  const auto loaded = shim::LoadCuda(testing::FakeCudaPath());
  REQUIRE_OK(loaded);
  fake_driver = *loaded;
  auto api = std::make_shared<shim::CudaApi>(**loaded);
  if (copy != nullptr) api->MemcpyPeerAsync = copy;
  return {.api = std::move(api)};
}

Matrix Measured(const PlainOptions& options, uint64_t bytes) {
  Matrix matrix{.bytes = bytes, .samples = 2};
  const auto gpus = ListGpus(*options.api);
  REQUIRE_OK(gpus);
  matrix.gpus = *gpus;
  matrix.pairs = EveryPair(matrix.gpus.size());
  REQUIRE_OK(MeasurePlain(options, &matrix));
  return matrix;
}

void CheckThere(const PlainFigures& plain) {
  for (const Figure* const figure : {&plain.one_way_bytes_per_second,
                                     &plain.both_ways_bytes_per_second, &plain.latency_seconds}) {
    REQUIRE_OK(*figure);
    CHECK(**figure > 0);
  }
}

void CheckMissing(const PlainFigures& plain, const std::string& reason) {
  for (const Figure* const figure : {&plain.one_way_bytes_per_second,
                                     &plain.both_ways_bytes_per_second, &plain.latency_seconds}) {
    CHECK(figure->status().reason() == reason);
  }
}

TEST_CASE("plain CUDA measures every pair, first without peer access and then with it") {
  staged_copies = 0;
  std::vector<std::string> told;
  std::vector<int> staged_then;
  PlainOptions options = OnFake(StagedCopy);
  options.began = [&](const std::string& what) {
    told.push_back(what);
    staged_then.push_back(staged_copies);
  };
  const Matrix matrix = Measured(options, 5 * kMiB + 3);  // pieces through the host: one is short
  REQUIRE(matrix.pairs.size() == 4);
  for (const PairFigures& pair : matrix.pairs) {
    INFO(pair.from << " -> " << pair.to);
    CheckThere(pair.p2p_on);
    CheckThere(pair.p2p_off);
    REQUIRE_OK(pair.through_host_bytes_per_second);
    CHECK(*pair.through_host_bytes_per_second > 0);
  }
  REQUIRE(told.size() == 8);
  CHECK(Has(told[4], "P2P on: 0 -> 0"));
  CHECK(staged_then[4] > 0);
  CHECK(staged_copies == staged_then[4]);  // none of P2P on
  CHECK(testing::FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == 0);
}

TEST_CASE("fewer bytes than the latency's copies have are measured, too") {
  const Matrix matrix = Measured(OnFake(StagedCopy), 1);
  for (const PairFigures& pair : matrix.pairs) CheckThere(pair.p2p_on);
}

TEST_CASE("GPUs that do not reach each other are refused, not measured, with P2P on") {
  const ScopedEnvironment no_peer("FAKE_CUDA_NO_PEER", "1");
  const Matrix matrix = Measured(OnFake(StagedCopy), kMiB);
  for (const PairFigures& pair : matrix.pairs) {
    INFO(pair.from << " -> " << pair.to);
    CheckThere(pair.p2p_off);
    if (pair.from == pair.to) {
      CheckThere(pair.p2p_on);
      continue;
    }
    CheckMissing(pair.p2p_on, "NO_PEER_ACCESS");
    const std::string why = pair.p2p_on.latency_seconds.status().message();
    CHECK(Has(why, matrix.gpus[pair.from].uuid + " cannot reach the memory of " +
                       matrix.gpus[pair.to].uuid));
  }
  CHECK_FALSE(AnyFailed(matrix));
}

TEST_CASE("copies that fail, and copies whose bytes do not arrive, are said so in their figures") {
  const Matrix failed = Measured(OnFake(), kMiB);  // the fake driver refuses to stage
  CheckMissing(failed.pairs[1].p2p_off, "DRIVER_FAILED");
  CheckThere(failed.pairs[1].p2p_on);
  CheckThere(failed.pairs[0].p2p_off);
  CHECK(AnyFailed(failed));

  const Matrix wrong = Measured(OnFake(NoCopy), kMiB);
  CheckMissing(wrong.pairs[1].p2p_on, "CHECKSUM_MISMATCH");
  CheckMissing(wrong.pairs[2].p2p_off, "CHECKSUM_MISMATCH");
  CHECK(wrong.pairs[1].through_host_bytes_per_second.ok());
}

TEST_CASE("a stop leaves the figures after it unmeasured") {
  PlainOptions options = OnFake(StagedCopy);
  int begun = 0;
  options.began = [&](const std::string&) { ++begun; };
  options.stopped = [&] { return begun > 1; };
  const Matrix matrix = Measured(options, kMiB);
  CheckThere(matrix.pairs[0].p2p_off);
  CheckMissing(matrix.pairs[2].p2p_off, "CANCELLED");
  CheckMissing(matrix.pairs[0].p2p_on, "CANCELLED");
  CHECK_FALSE(AnyFailed(matrix));
}

TEST_CASE("GPUs are listed with their names, UUIDs and memory") {
  const ScopedEnvironment one("FAKE_CUDA_DEVICES", "1");
  const PlainOptions options = OnFake();
  const auto gpus = ListGpus(*options.api);
  REQUIRE_OK(gpus);
  REQUIRE(gpus->size() == 1);
  CHECK(gpus->front().name == "Fake GPU 0");
  CHECK(gpus->front().uuid.rfind("GPU-", 0) == 0);
  CHECK(gpus->front().memory_bytes == uint64_t{4} << 30);
  const Matrix matrix = Measured(options, kMiB);
  REQUIRE(matrix.pairs.size() == 1);
  CheckThere(matrix.pairs[0].p2p_off);
}

}  // namespace
}  // namespace onecopy::bench
