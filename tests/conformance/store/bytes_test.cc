// Every byte goes where it should, and each call ends once.
#include <atomic>
#include <thread>

#include "tests/conformance/store/store_case.h"
#include "tests/support/catch.h"
#include "tests/support/event.h"

namespace {

using namespace onecopy::testing;
using namespace onecopy;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSizes[] = {0, 1, 511, 4095, 4096, 4097, 65536, kMiB + 3, 5 * kMiB};

}  // namespace

TEST_CASE("what is read is what the file holds, at any place and length") {
  StoreCase stores;
  for (const std::string& below : FileSystems()) {
    const Folder folder(below);
    for (const bool direct : {false, true}) {
      for (const uint64_t bytes : kSizes) {
        INFO(below << ", " << bytes << " bytes" << (direct ? ", O_DIRECT" : ""));
        WritePattern(folder / "in", bytes, bytes);
        auto file = stores.Open(folder / "in", FileUse::kRead, direct);
        REQUIRE_OK(file);
        CHECK((*file)->bytes() == bytes);
        const RegionRef region = Pages(bytes + 4096);
        REQUIRE_OK(Read(**file, 0, {region, 0, bytes}).status);
        CHECK(FirstWrong({region, 0, bytes}, bytes) == bytes);
        // From inside, to an address that no device likes.
        const uint64_t from = bytes / 3;
        REQUIRE_OK(Read(**file, from, {region, 7, bytes - from}).status);
        CHECK(FirstWrong({region, 7, bytes - from}, bytes, from) == bytes - from);
      }
    }
  }
}

TEST_CASE("what is written is what the file holds, at any place and length") {
  StoreCase stores;
  for (const std::string& below : FileSystems()) {
    const Folder folder(below);
    for (const bool direct : {false, true}) {
      for (const uint64_t bytes : kSizes) {
        INFO(below << ", " << bytes << " bytes" << (direct ? ", O_DIRECT" : ""));
        WritePattern(folder / "out", 0, 0);
        auto file = stores.Open(folder / "out", FileUse::kWrite, direct);
        REQUIRE_OK(file);
        const RegionRef region = Pages(bytes + 1);
        Fill({region, 0, bytes}, bytes);
        REQUIRE_OK(Write(**file, 0, {region, 0, bytes}).status);
        CHECK(IsPattern(folder / "out", bytes, bytes));
      }
    }
  }
}

TEST_CASE("pieces of both ways beside each other do not disturb each other") {
  StoreCase stores;
  constexpr uint64_t kBytes = 8 * kMiB + 10;
  constexpr uint64_t kFirst = 4096 - 5;  // the file has something before
  for (const std::string& below : FileSystems()) {
    INFO(below);
    const Folder folder(below);
    WritePattern(folder / "out", 5, 3);
    auto file = stores.Open(folder / "out", FileUse::kWrite, true);
    REQUIRE_OK(file);
    const RegionRef region = Pages(kBytes + 4096);
    // The whole grains of the file lie at whole grains of memory.
    Fill({region, 5, kBytes}, 9);
    Fill({region, 0, 5}, 3);
    std::atomic<uint64_t> left = 0;
    std::atomic<bool> failed = false;
    Event all;
    std::vector<ByteRange> pieces = {{5, kFirst}};
    for (uint64_t at = 4096; at < kBytes + 5; at += 256 * 1024) {
      const uint64_t rest = kBytes + 5 - at;
      if (rest >= 256 * 1024) {
        pieces.push_back({at, 256 * 1024});
      } else {
        pieces.push_back({at, rest / 4096 * 4096});
        pieces.push_back({at + rest / 4096 * 4096, rest % 4096});
      }
    }
    left = pieces.size();
    for (const ByteRange& piece : pieces) {
      (*file)->Write(piece.offset, {region, piece.offset, piece.bytes},
                     [&](const Status& status, FilePass) {
                       if (!status.ok()) failed = true;
                       if (--left == 0) all.Set();
                     });
    }
    all.Wait();
    CHECK_FALSE(failed);
    const RegionRef seen = Pages(kBytes + 4096);
    auto back = stores.Open(folder / "out", FileUse::kRead);
    REQUIRE_OK(back);
    CHECK((*back)->bytes() == kBytes + 5);
    REQUIRE_OK(Read(**back, 0, {seen, 0, kBytes + 5}).status);
    CHECK(FirstWrong({seen, 0, 5}, 3) == 5);
    CHECK(FirstWrong({seen, 5, kBytes}, 9) == kBytes);
  }
}

TEST_CASE("far more than may be under way at a time ends, each once") {
  StoreCase stores;
  constexpr uint64_t kPiece = 4096;
  constexpr uint64_t kPieces = 500;
  for (const std::string& below : FileSystems()) {
    const Folder folder(below);
    WritePattern(folder / "in", kPiece * kPieces, 1);
    auto file = stores.Open(folder / "in", FileUse::kRead, true);
    REQUIRE_OK(file);
    const RegionRef region = Pages(kPiece * kPieces);
    std::vector<std::atomic<int>> ends(kPieces);
    std::atomic<uint64_t> left = kPieces;
    Event all;
    for (uint64_t i = 0; i < kPieces; ++i) {
      (*file)->Read(i * kPiece, {region, i * kPiece, kPiece},
                    [&, i](const Status& status, FilePass) {
                      if (status.ok()) ++ends[i];
                      if (--left == 0) all.Set();
                    });
    }
    all.Wait();
    for (const std::atomic<int>& one : ends) CHECK(one == 1);
    CHECK(FirstWrong({region, 0, kPiece * kPieces}, 1) == kPiece * kPieces);
  }
}

TEST_CASE("a file that has become shorter is told, and so is memory that is not there") {
  StoreCase stores;
  for (const std::string& below : FileSystems()) {
    for (const bool direct : {false, true}) {
      INFO(below << (direct ? ", O_DIRECT" : ""));
      const Folder folder(below);
      WritePattern(folder / "in", 4 * kMiB, 1);
      auto file = stores.Open(folder / "in", FileUse::kRead, direct);
      REQUIRE_OK(file);
      const RegionRef region = Pages(4 * kMiB);
      const RegionRef gone =
          std::make_shared<Region>(Place{"host", {}}, nullptr, kMiB, true, Region::Release());
      const Moved missing = Read(**file, 0, {gone, 0, kMiB});
      CHECK(missing.status.code() == Code::kAborted);
      CHECK(missing.status.reason() == "MEMORY_FAULT");
      REQUIRE(::truncate((folder / "in").c_str(), kMiB + 100) == 0);
      const Moved moved = Read(**file, 0, {region, 0, 4 * kMiB});
      CHECK(moved.status.code() == Code::kDataLoss);
      CHECK(moved.status.message().find("ended at byte " + std::to_string(kMiB + 100)) !=
            std::string::npos);
    }
  }
}
