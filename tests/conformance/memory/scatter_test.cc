// Many copies as one piece of work.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/conformance/memory/suite.h"

namespace onecopy::testing {
namespace {

constexpr uint64_t kFrom = 700'001;
constexpr uint64_t kTo = 900'003;

struct Pair {
  RegionRef from;
  RegionRef to;
};

void Play(const std::vector<StridedCopy>& copies, const Bytes& from, Bytes* to) {
  for (const StridedCopy& copy : copies) {
    for (uint64_t i = 0; i < copy.count; ++i) {
      std::copy_n(from.begin() + static_cast<ptrdiff_t>(copy.from + i * copy.from_stride),
                  copy.bytes, to->begin() + static_cast<ptrdiff_t>(copy.to + i * copy.to_stride));
    }
  }
}

// Copies of every alignment and length, one after the other in the destination.
std::vector<StridedCopy> RandomCopies(unsigned seed) {
  std::mt19937 random(seed);
  const auto some = [&](uint64_t most) { return random() % (most + 1); };
  std::vector<StridedCopy> copies;
  uint64_t to = some(20);
  while (true) {
    StridedCopy copy;
    copy.bytes = std::vector<uint64_t>{1,
                                       2,
                                       4,
                                       8,
                                       12,
                                       16,
                                       3,
                                       130,
                                       1 + some(300),
                                       2048,
                                       4096 + some(9000),
                                       some(200'000) + 1}[some(11)];
    if (some(1) == 1) {
      copy.count = 1 + some(copy.bytes < 1000 ? 500 : 3);
      const bool even = some(1) == 1;
      copy.from_stride = copy.bytes + (even ? copy.bytes * some(3) : some(40));
      copy.to_stride = copy.bytes + (even ? copy.bytes * some(1) : some(10));
    }
    const uint64_t length = (copy.count - 1) * copy.from_stride + copy.bytes;
    if (length > kFrom) continue;
    copy.from = some(kFrom - length);
    if (some(2) == 0) copy.from = copy.from / 16 * 16;
    if (some(2) == 0) to = (to + 15) / 16 * 16;
    copy.to = to;
    to = copy.to_end() + some(5);
    if (to > kTo) return copies;
    copies.push_back(copy);
  }
}

RegionRef RegionWith(Subject& subject, const Place& place, const Bytes& content) {
  if (place.kind == "host") return HostRegion(content);
  RegionRef region = AllocateOrFail(subject, place.device, content.size());
  WriteAll(subject.memory(), region, content);
  return region;
}

std::vector<Place> ScatterPlaces(Subject& subject) {
  std::vector<Place> places = {{"host", ""}};
  for (const std::string& device : subject.devices()) {
    const Place place{subject.memory().kind(), device};
    if (place != places.front()) places.push_back(place);
  }
  return places;
}

TEST_CASE("scattered and strided copies reach every byte and no other, in every direction") {
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(kFrom, 51);
  const Bytes before = Pattern(kTo, 52);
  for (const Place& from : ScatterPlaces(subject)) {
    for (const Place& to : ScatterPlaces(subject)) {
      if (!subject.memory().Copies(from, to)) continue;
      INFO(from.kind << " " << from.device << " to " << to.kind << " " << to.device);
      const RegionRef from_region = RegionWith(subject, from, source);
      const RegionRef to_region = RegionWith(subject, to, before);
      auto route = subject.memory().Prepare(from_region, to_region);
      REQUIRE_OK(route);
      Bytes expected = before;
      for (unsigned seed = 1; seed <= 12; ++seed) {
        const std::vector<StridedCopy> copies = RandomCopies(seed);
        REQUIRE(!copies.empty());
        const Outcome outcome = CopyManyNow(**route, copies);
        REQUIRE_OK(outcome.status);
        CHECK(outcome.on_executor);
        REQUIRE(outcome.steps != nullptr);
        REQUIRE(outcome.steps->size() == 1);
        CHECK(outcome.steps->front().from == from_region->step_name());
        CHECK(outcome.steps->front().to == to_region->step_name());
        Play(copies, source, &expected);
        REQUIRE(ReadAll(subject.memory(), to_region) == expected);
      }
      CHECK(ReadAll(subject.memory(), from_region) == source);
    }
  }
}

TEST_CASE("ten thousand ranges are one piece of work, and none at all is none") {
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(10'000 * 24, 53);
  const RegionRef to = AllocateOrFail(subject, subject.devices().front(), source.size());
  auto route = subject.memory().Prepare(HostRegion(source), to);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyManyNow(**route, {}).status);
  CHECK(ReadAll(subject.memory(), to) == Bytes(source.size()));
  std::vector<StridedCopy> copies;
  for (uint64_t i = 0; i < 10'000; ++i) copies.push_back({i * 24, (9'999 - i) * 24, 24, 0, 0, 1});
  Bytes expected(source.size());
  Play(copies, source, &expected);
  REQUIRE_OK(CopyManyNow(**route, copies).status);
  CHECK(ReadAll(subject.memory(), to) == expected);
}

}  // namespace
}  // namespace onecopy::testing
