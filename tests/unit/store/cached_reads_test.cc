// Who copies out of the page cache, when measuring decides, and that what was decided is done.
#include "transport/store/posix/cached_reads.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "tests/support/memory.h"
#include "transport/os/base/unique_fd.h"
#include "transport/store/posix/drive_places.h"
#include "transport/store/posix/posix_file.h"
#include "transport/store/posix/posix_store.h"

namespace onecopy::posix {
namespace {

using namespace onecopy::testing;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kPiece = kMiB;

void Decide(CachedReads& reads, const Trial::Ratios& threads_to_ring) {
  const auto turn = reads.Take();
  REQUIRE(turn != nullptr);
  turn->End(threads_to_ring);
}

// A file in memory, of so many bytes: zeroes that take no room but for a pattern at the beginning.
os::UniqueFd FileOf(uint64_t bytes) {
  os::UniqueFd fd(::memfd_create("file", MFD_CLOEXEC));
  REQUIRE(fd);
  const RegionRef pattern = HostRegion(kMiB);
  Fill({pattern, 0, kMiB}, 1);
  REQUIRE(::write(fd.get(), pattern->address(), kMiB) == static_cast<ssize_t>(kMiB));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  return fd;
}

// So many pieces at a time, or all.
bool ReadAll(StoreFile& file, const RegionRef& region,
             uint64_t at_a_time = std::numeric_limits<uint64_t>::max()) {
  std::atomic<bool> failed = false;
  for (uint64_t at = 0; at < region->bytes();) {
    const uint64_t pieces = std::min(at_a_time, (region->bytes() - at) / kPiece);
    std::atomic<uint64_t> left = pieces;
    Event all;
    for (uint64_t i = 0; i < pieces; ++i, at += kPiece) {
      file.Read(at, {region, at, kPiece}, [&](const Status& status, FilePass) {
        if (!status.ok()) failed = true;
        if (--left == 0) all.Set();
      });
    }
    all.Wait();
  }
  return !failed && FirstWrong({region, 0, kMiB}, 1) == kMiB &&
         region->address()[kMiB] == std::byte{0};
}

Result<std::shared_ptr<StoreFile>> Open(Store& store, const os::UniqueFd& fd) {
  auto opened = std::make_shared<std::promise<Result<std::shared_ptr<StoreFile>>>>();
  OpenFileRequest request;
  request.fd = fd.get();
  request.name = "file";
  store.Open(std::move(request), [opened](Result<std::shared_ptr<StoreFile>> file) {
    opened->set_value(std::move(file));
  });
  return opened->get_future().get();
}

std::string CachedReadsOf(const Store& store) {
  const auto words = store.Describe().attributes;
  const auto found = words.find("cached_reads");
  return found == words.end() ? "" : found->second;
}

TEST_CASE("the ring stays unless threads were clearly faster each time, with two files") {
  CachedReads clear(true);
  CHECK_FALSE(clear.by_threads());
  CHECK(clear.Describe().at("cached_reads") == "io_uring, not measured yet");
  Decide(clear, {1.2, 1.5, 1.6});
  CHECK_FALSE(clear.by_threads());
  CHECK(clear.Describe().at("cached_reads") ==
        "io_uring, threads measured as 1.50 of io_uring, to be confirmed");
  Decide(clear, {1.11, 1.3, 1.4});
  CHECK(clear.by_threads());
  CHECK(clear.threads_to_ring() == 1.3);
  CHECK(clear.Describe().at("cached_reads") == "threads, threads measured as 1.30 of io_uring");
  CHECK(clear.Take() == nullptr);

  CachedReads once(true);
  Decide(once, {1.09, 2, 3});
  CHECK_FALSE(once.by_threads());
  CHECK(once.Describe().at("cached_reads") == "io_uring, threads measured as 2.00 of io_uring");
  CHECK(once.Take() == nullptr);

  CachedReads contradicted(true);
  Decide(contradicted, {2, 2, 2});
  Decide(contradicted, {0.9, 2, 2});
  CHECK_FALSE(contradicted.by_threads());
  CHECK(contradicted.Take() == nullptr);
}

TEST_CASE("threads stay where it began with them, unless the ring was clearly faster, twice") {
  CachedReads clear(true, true);
  CHECK(clear.by_threads());
  CHECK(clear.Describe().at("cached_reads") == "threads, not measured yet");
  Decide(clear, {0.5, 0.6, 0.9});
  CHECK(clear.by_threads());
  CHECK(clear.Describe().at("cached_reads") ==
        "threads, threads measured as 0.60 of io_uring, to be confirmed");
  Decide(clear, {0.4, 0.7, 0.9});
  CHECK_FALSE(clear.by_threads());
  CHECK(clear.Describe().at("cached_reads") == "io_uring, threads measured as 0.70 of io_uring");
  CHECK(clear.Take() == nullptr);

  CachedReads once(true, true);
  Decide(once, {0.5, 0.6, 0.92});
  CHECK(once.by_threads());
  CHECK(once.Take() == nullptr);

  CachedReads contradicted(true, true);
  Decide(contradicted, {0.5, 0.5, 0.5});
  Decide(contradicted, {0.5, 0.5, 1.1});
  CHECK(contradicted.by_threads());
  CHECK(contradicted.Take() == nullptr);

  // What somebody has said is not overruled by how many cores there are.
  CHECK_FALSE(CachedReads(false, true).by_threads());
}

TEST_CASE("one file at a time is tried, until one has told") {
  CachedReads reads(true);
  auto turn = reads.Take();
  REQUIRE(turn != nullptr);
  CHECK(reads.Take() == nullptr);
  turn = nullptr;  // it came to nothing
  turn = reads.Take();
  REQUIRE(turn != nullptr);
  turn->End(std::nullopt);
  turn = nullptr;
  CHECK(reads.Take() == nullptr);
  CHECK(reads.Describe().at("cached_reads") == "io_uring, too slow to be measured");
}

TEST_CASE("where somebody has said who reads, nothing is tried") {
  CachedReads reads(false);
  CHECK(reads.Take() == nullptr);
  CHECK(reads.Describe().empty());
  CHECK_FALSE(reads.by_threads());
}

TEST_CASE("what was decided is done with what is in memory, and is said") {
  for (const bool threads : {false, true}) {
    INFO((threads ? "threads" : "io_uring"));
    auto reads = std::make_shared<CachedReads>(true);
    const double ratio = threads ? 1.5 : 0.5;
    Decide(*reads, {ratio, ratio, ratio});
    if (threads) Decide(*reads, {ratio, ratio, ratio});
    auto mounts = std::make_shared<Mounts>();
    const os::UniqueFd fd = FileOf(8 * kMiB);
    OpenFileRequest request;
    request.fd = fd.get();
    request.name = "file";
    DrivePlaces drives{Topology{}};
    auto facts = InspectDescriptor(request, *mounts, drives, *reads);
    REQUIRE_OK(facts);
    CHECK(facts->cached);
    CHECK(facts->who == nullptr);
    auto lane = Lane::Make(0, 0, true, std::make_shared<HeldMemory>());
    REQUIRE_OK(lane);
    if (!(*lane)->has_ring()) ONECOPY_SKIP("this process may have no io_uring");
    auto made = std::make_shared<std::promise<std::shared_ptr<PosixFile>>>();
    (*lane)->loop().Post([&] {
      made->set_value(std::make_shared<PosixFile>(std::move(request), std::move(*facts), Cut(),
                                                  PosixFile::Known{mounts, reads}, *lane));
    });
    const std::shared_ptr<PosixFile> file = made->get_future().get();
    CHECK(ReadAll(*file, Pages(8 * kMiB)));
    (*lane)->Settle();
    CHECK(file->how().starts_with(threads ? "posix: threads, " : "posix: io_uring, "));
    CHECK(file->how().find(threads
                               ? "(threads at 1.50 of the rate of io_uring)"
                               : "(threads at 0.50 of the rate of io_uring)") != std::string::npos);
  }
}

TEST_CASE("a large file in memory is read by both, and decides for the next") {
  PosixStore store({.io = PosixStore::Io::kAuto});
  if (CachedReadsOf(store).empty()) ONECOPY_SKIP("this process may have no io_uring");
  CHECK(CachedReadsOf(store) == "io_uring, not measured yet");
  const os::UniqueFd fd = FileOf(CachedReads::kLeastBytes);
  const RegionRef region = Pages(CachedReads::kLeastBytes);
  {
    // Whoever asks for little at a time is no measure.
    auto slow = Open(store, fd);
    REQUIRE_OK(slow);
    CHECK((*slow)->how().ends_with(", measured while it was read"));
    CHECK(ReadAll(**slow, region, 1));
    CHECK(CachedReadsOf(store) == "io_uring, not measured yet");
  }
  {
    auto first = Open(store, fd);
    REQUIRE_OK(first);
    CHECK(ReadAll(**first, region));
    CHECK((*first)->how().find("posix: io_uring and threads, ") == 0);
    CHECK((*first)->how().find("of the rate of io_uring), measured") != std::string::npos);
  }
  const std::string measured = CachedReadsOf(store);
  CHECK(measured.find(", threads measured as ") != std::string::npos);
  if (measured.ends_with("to be confirmed")) {
    auto second = Open(store, fd);
    REQUIRE_OK(second);
    CHECK(ReadAll(**second, region));
    CHECK((*second)->how().find("posix: io_uring and threads, ") == 0);
  }
  const std::string decided = CachedReadsOf(store);
  CHECK_FALSE(decided.ends_with("to be confirmed"));
  auto next = Open(store, fd);
  REQUIRE_OK(next);
  CHECK(ReadAll(**next, region));
  const std::string who = decided.substr(0, decided.find(','));
  CHECK((*next)->how().starts_with("posix: " + who + ", "));
  CHECK_FALSE((*next)->how().ends_with("measured while it was read"));
}

TEST_CASE("a store of which somebody has said who reads does as it was told") {
  for (const auto io : {PosixStore::Io::kRing, PosixStore::Io::kThreads}) {
    PosixStore store({.io = io});
    if (!store.Describe().viability.viable) ONECOPY_SKIP("this process may have no io_uring");
    CHECK(CachedReadsOf(store).empty());
    const os::UniqueFd fd = FileOf(CachedReads::kLeastBytes);
    auto file = Open(store, fd);
    REQUIRE_OK(file);
    CHECK(ReadAll(**file, Pages(8 * kMiB)));
    CHECK((*file)->how().starts_with(io == PosixStore::Io::kRing ? "posix: io_uring, "
                                                                 : "posix: threads, "));
    CHECK((*file)->how().find("measured") == std::string::npos);
  }
}

}  // namespace
}  // namespace onecopy::posix
