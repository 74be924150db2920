// Which way reads take on a mount, and when measuring overrules what its kind suggests.
#include "transport/store/posix/mounts.h"

#include <linux/magic.h>

#include "tests/support/catch.h"

namespace onecopy::posix {
namespace {

using Seconds = std::chrono::duration<double>;

// By turns, with these times for each segment past the page cache and through it.
Trial Tried(const std::array<double, 3>& direct, const std::array<double, 3>& cached) {
  Trial trial(0);
  for (size_t segment = 0; segment < Trial::kSegments; ++segment) {
    const size_t pair = segment / 2;
    trial.Note(segment, Seconds(Trial::IsFirst(segment) ? direct[pair] : cached[pair]));
  }
  return trial;
}

Verdict Judged(const std::array<double, 3>& direct, const std::array<double, 3>& cached,
               bool kind) {
  const auto ratios = Tried(direct, cached).Compare();
  REQUIRE(ratios);
  return JudgeWays(*ratios, kind);
}

TEST_CASE("file systems are known by their number, and others go through the page cache") {
  CHECK(std::string(KindOf(EXT4_SUPER_MAGIC).name) == "ext4");
  CHECK(KindOf(EXT4_SUPER_MAGIC).direct);
  CHECK(KindOf(TMPFS_MAGIC).in_memory);
  CHECK(std::string(KindOf(0x0bd00bd0).name) == "lustre");
  CHECK_FALSE(KindOf(NFS_SUPER_MAGIC).direct);
  // As kernels of 32 bits tell a number whose first bit is set.
  CHECK(std::string(KindOf(0xffffffffff534d42UL).name) == "cifs");
  CHECK_FALSE(KindOf(12345).direct);
  CHECK_FALSE(KindOf(12345).in_memory);
}

TEST_CASE("segments take turns, and so does who begins") {
  const Trial trial(4096);
  CHECK(trial.SegmentOf(0) == Trial::kSegments);
  CHECK(trial.SegmentOf(4096) == 0);
  CHECK(trial.SegmentOf(4096 + Trial::kSegmentBytes - 1) == 0);
  CHECK(trial.SegmentOf(4096 + Trial::kSegmentBytes) == 1);
  CHECK(trial.SegmentOf(4096 + Trial::kSegments * Trial::kSegmentBytes) == Trial::kSegments);
  CHECK(trial.SegmentOf(UINT64_MAX) == Trial::kSegments);
  size_t direct = 0;
  for (size_t segment = 0; segment < Trial::kSegments; segment += 2) {
    CHECK(Trial::IsFirst(segment) != Trial::IsFirst(segment + 1));
    direct += Trial::IsFirst(segment) ? 1 : 0;
  }
  CHECK(direct == 2);
}

TEST_CASE("only what was clearly faster each time overrules the kind") {
  const Verdict slow = Judged({2, 2, 2}, {1, 1, 1}, true);
  CHECK_FALSE(slow.direct);
  CHECK(slow.direct_to_cached == 0.5);
  CHECK(Judged({1, 1, 1}, {2, 2, 2}, false).direct);
  // Once as fast, or hardly faster: the kind counts.
  for (const bool kind : {false, true}) {
    CHECK(Judged({2, 1, 2}, {1, 1, 1}, kind).direct == kind);
    CHECK(Judged({1, 1, 1}, {2, 1, 2}, kind).direct == kind);
    CHECK(Judged({1, 1, 1}, {1.2, 1.2, 1.2}, kind).direct == kind);
  }
}

TEST_CASE("what is not measured whole says nothing, and what takes too long is given up") {
  Trial trial(0);
  CHECK_FALSE(trial.Compare());
  for (size_t segment = 0; segment + 1 < Trial::kSegments; ++segment) {
    trial.Note(segment, Seconds(0.1));
    trial.Note(segment, Seconds(9));  // what was noted stays
  }
  CHECK_FALSE(trial.over());
  CHECK_FALSE(trial.Compare());
  trial.Note(Trial::kSegments, Seconds(1));  // of none
  CHECK_FALSE(trial.over());
  trial.Note(Trial::kSegments - 1, Seconds(0.1));
  CHECK(trial.over());
  CHECK(trial.Compare() == Trial::Ratios{1, 1, 1});

  Trial stuck(0);
  stuck.Note(0, Trial::kLongest + Seconds(1));
  CHECK(stuck.over());
  CHECK_FALSE(stuck.Compare());
}

TEST_CASE("a mount is tried by one file at a time, and once") {
  Mounts mounts;
  const FileSystemKind& ext4 = KindOf(EXT4_SUPER_MAGIC);
  CHECK(mounts.Take(1) == nullptr);  // of which nothing is known
  CHECK(mounts.Of(1, ext4) == Verdict{true, {}});
  auto turn = mounts.Take(1);
  REQUIRE(turn != nullptr);
  CHECK(mounts.Take(1) == nullptr);
  turn.reset();  // it came to nothing
  turn = mounts.Take(1);
  REQUIRE(turn != nullptr);
  turn->End(Verdict{false, 0.5});
  turn.reset();
  CHECK(mounts.Take(1) == nullptr);
  CHECK(mounts.Of(1, ext4) == Verdict{false, 0.5});
  CHECK(mounts.Describe().at("mount 0:1") ==
        "ext4, page cache, O_DIRECT measured as 0.50 of the page cache");
  // The number has become another file system's.
  CHECK(mounts.Of(1, KindOf(NFS_SUPER_MAGIC)) == Verdict{false, {}});
  CHECK(mounts.Take(1) != nullptr);
}

TEST_CASE("a trial without verdict leaves the kind's, and is not repeated") {
  Mounts mounts;
  const FileSystemKind& nfs = KindOf(NFS_SUPER_MAGIC);
  CHECK_FALSE(mounts.Of(7, nfs).direct);
  mounts.Take(7)->End(std::nullopt);
  CHECK(mounts.Take(7) == nullptr);
  CHECK(mounts.Of(7, nfs) == Verdict{false, {}});
  CHECK(mounts.Describe().at("mount 0:7") == "nfs, page cache, too slow to be measured");
}

TEST_CASE("of more mounts than are remembered the kind counts") {
  Mounts mounts;
  const FileSystemKind& ext4 = KindOf(EXT4_SUPER_MAGIC);
  for (dev_t mount = 0; mount < Mounts::kMost + 5; ++mount) CHECK(mounts.Of(mount, ext4).direct);
  CHECK(mounts.Describe().size() == Mounts::kMost);
  CHECK(mounts.Take(Mounts::kMost + 1) == nullptr);
}

}  // namespace
}  // namespace onecopy::posix
