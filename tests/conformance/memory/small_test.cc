// Short routes: copies made by the thread that asks, where the memory has such.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/conformance/memory/suite.h"

namespace onecopy::testing {
namespace {

// A short route, or null where this memory says that it has none.
std::unique_ptr<SmallCopyRoute> ShortOrNone(Subject& subject, const RegionRef& from,
                                            const RegionRef& to) {
  // As a first transfer does, by which the memory learns what its copies are.
  auto longer = subject.memory().Prepare(from, to);
  REQUIRE_OK(longer);
  REQUIRE_OK((*longer)->Prove(0, 0, 1));
  auto route = subject.memory().PrepareSmall(from, to);
  if (route.ok()) return std::move(*route);
  CHECK(route.status().code() == Code::kFailedPrecondition);
  CHECK(route.status().reason() == reasons::kNotApplicable);
  return nullptr;
}

// Two of a device, and what goes there and comes back.
struct Regions {
  RegionRef from;
  RegionRef to;
  RegionRef host;
  RegionRef back;

  static Regions Make(Subject& subject, const std::string& device, const Bytes& source) {
    return {AllocateOrFail(subject, device, source.size()),
            AllocateOrFail(subject, device, source.size()), HostRegion(source),
            HostRegion(Bytes(source.size()))};
  }
};

void Await(SmallCopyRoute& route, uint64_t mark) {
  Status failure;
  while (!route.Reached(mark, &failure)) ::sched_yield();
  REQUIRE_OK(failure);
}

TEST_CASE("short copies reach every byte and no other, in every direction") {
  ONECOPY_SUBJECT(subject);
  std::vector<std::string> devices = subject.devices();
  const Bytes source = Pattern(100'007, 61);
  for (const std::string& from_device : devices) {
    for (const std::string& to_device : devices) {
      INFO(from_device << " to " << to_device);
      const RegionRef from = AllocateOrFail(subject, from_device, source.size());
      const RegionRef to = AllocateOrFail(subject, to_device, source.size());
      const RegionRef host = HostRegion(source);
      const RegionRef back = HostRegion(Bytes(source.size()));
      const auto in = ShortOrNone(subject, host, from);
      if (in == nullptr) return;
      const auto over = ShortOrNone(subject, from, to);
      const auto out = ShortOrNone(subject, to, back);
      REQUIRE(over != nullptr);
      REQUIRE(out != nullptr);
      const StepList steps = over->steps()->Get();
      REQUIRE(steps->size() == 1);
      CHECK(steps->front().by == subject.copied_by());
      REQUIRE_OK(in->Begin(0, 0, source.size()));
      Await(*in, in->Mark());
      Bytes expected(source.size());
      for (const auto& [at, into, bytes] : std::vector<std::array<size_t, 3>>{
               {0, 0, 1}, {1, 3, 7}, {4095, 65537, 4097}, {100'006, 100'006, 1}}) {
        REQUIRE_OK(over->Begin(at, into, bytes));
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(into));
      }
      Await(*over, over->Mark());
      REQUIRE_OK(out->Begin(0, 0, source.size()));
      Await(*out, out->Mark());
      CHECK(ReadAll(subject.memory(), back) == expected);
    }
  }
}

TEST_CASE("a short copy that reaches beyond either memory is not made, and fails") {
  ONECOPY_SUBJECT(subject);
  const Bytes content = Pattern(4096, 64);
  const RegionRef to = AllocateOrFail(subject, subject.devices().front(), content.size());
  WriteAll(subject.memory(), to, content);
  const auto route = ShortOrNone(subject, HostRegion(Pattern(4096, 65)), to);
  if (route == nullptr) return;
  for (const auto& [at, into, bytes] : std::vector<std::array<uint64_t, 3>>{
           {0, 1, 4096}, {1, 0, 4096}, {uint64_t{1} << 46, 0, 64}, {0, ~uint64_t{0} - 7, 16}}) {
    INFO(bytes << " bytes from " << at << " to " << into);
    const Status begun = route->Begin(at, into, bytes);
    CHECK(begun.code() == Code::kInternal);
    CHECK(begun.reason() == reasons::kRangeOutOfBuffer);
  }
  Await(*route, route->Mark());
  CHECK(ReadAll(subject.memory(), to) == content);
}

TEST_CASE("marks are reached in order, and one says that nothing was begun since the last") {
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(64 * 256, 62);
  const RegionRef to = AllocateOrFail(subject, subject.devices().front(), source.size());
  const auto route = ShortOrNone(subject, HostRegion(source), to);
  if (route == nullptr) return;
  Status failure;
  CHECK(route->Reached(route->Mark(), &failure));
  uint64_t last = route->Mark();
  std::vector<uint64_t> marks;
  for (uint64_t i = 0; i < 256; ++i) {
    REQUIRE_OK(route->Begin(i * 64, i * 64, 64));
    marks.push_back(route->Mark());
    CHECK(marks.back() >= last);
    CHECK(route->Mark() == marks.back());
    last = marks.back();
  }
  Await(*route, last);
  for (const uint64_t mark : marks) CHECK(route->Reached(mark, &failure));
  REQUIRE_OK(failure);
  CHECK(ReadAll(subject.memory(), to) == source);
}

TEST_CASE("a short route keeps both its regions, and more marks than there is room for wait") {
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(4096, 63);
  RegionRef from = HostRegion(source);
  RegionRef to = AllocateOrFail(subject, subject.devices().front(), source.size());
  const std::weak_ptr<Region> kept = to;
  auto route = ShortOrNone(subject, from, to);
  if (route == nullptr) return;
  from.reset();
  to.reset();
  CHECK_FALSE(kept.expired());
  uint64_t mark = 0;
  for (int i = 0; i < 5000; ++i) {
    REQUIRE_OK(route->Begin(0, 0, 64));
    mark = route->Mark();
  }
  Await(*route, mark);
  route.reset();
  CHECK(kept.expired());
}

TEST_CASE("long copies reach every byte and no other, and short ones beside them, too") {
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern((5 << 20) + 3, 66);
  for (const std::string& device : subject.devices()) {
    INFO(device);
    const auto [from, to, host, back] = Regions::Make(subject, device, source);
    const auto small = ShortOrNone(subject, from, to);
    std::vector<std::unique_ptr<SmallCopyRoute>> routes;
    for (const auto& [one, other] : {std::pair{host, from}, {from, to}, {to, back}}) {
      auto route = subject.memory().PrepareLong(one, other);
      if (!route.ok()) {
        CHECK(route.status().code() == Code::kFailedPrecondition);
        CHECK(route.status().reason() == reasons::kNotApplicable);
        return;
      }
      routes.push_back(std::move(*route));
    }
    REQUIRE(small != nullptr);
    CHECK(routes[1]->steps()->Get()->front().by == subject.copied_by());
    REQUIRE_OK(routes[0]->Begin(0, 0, source.size()));
    Await(*routes[0], routes[0]->Mark());
    const uint64_t bytes = source.size() - 4099;
    REQUIRE_OK(routes[1]->Begin(4097, 1, bytes));
    const uint64_t mark = routes[1]->Mark();
    REQUIRE_OK(small->Begin(5, bytes + 1, 4096));
    Await(*small, small->Mark());
    Await(*routes[1], mark);
    CHECK(routes[1]->Begin(1, 0, source.size()).reason() == reasons::kRangeOutOfBuffer);
    REQUIRE_OK(routes[2]->Begin(0, 0, source.size()));
    Await(*routes[2], routes[2]->Mark());
    Bytes expected(source.size());
    std::copy_n(source.begin() + 4097, bytes, expected.begin() + 1);
    std::copy_n(source.begin() + 5, 4096,
                expected.begin() + 1 + static_cast<std::ptrdiff_t>(bytes));
    CHECK(ReadAll(subject.memory(), back) == expected);
  }
}

TEST_CASE("lists of pieces reach every byte and no other, and are refused beyond the ends") {
  constexpr uint64_t kPiece = 1027;
  constexpr uint64_t kPieces = 1024;
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(2 * kPieces * kPiece, 68);
  for (const std::string& device : subject.devices()) {
    INFO(device);
    const RegionRef from = AllocateOrFail(subject, device, source.size());
    const RegionRef to = AllocateOrFail(subject, device, source.size());
    WriteAll(subject.memory(), from, source);
    WriteAll(subject.memory(), to, Bytes(source.size()));
    if (ShortOrNone(subject, from, to) == nullptr) return;
    auto prepared = subject.memory().PrepareLong(from, to);
    auto short_one = subject.memory().PrepareSmall(from, to);
    REQUIRE_OK(short_one);
    SmallCopyRoute& route = prepared.ok() ? **prepared : **short_one;
    if (route.most_list_bytes() == 0) {
      CHECK(route.BeginMany(std::vector<CopyPiece>{{0, 0}}, 1).code() == Code::kInternal);
      continue;
    }
    const uint64_t pieces = std::min(kPieces, route.most_list_bytes() / kPiece);
    Bytes expected(source.size());
    std::vector<CopyPiece> list;
    for (uint64_t i = 0; i < pieces; ++i) {
      list.push_back({(2 * (pieces - 1 - i) + 1) * kPiece, (2 * i) * kPiece});
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(list.back().from), kPiece,
                  expected.begin() + static_cast<std::ptrdiff_t>(list.back().to));
    }
    // As many as may be under way, and then once more when they have ended.
    for (int round = 0; round < 2; ++round) {
      Status begun;
      int lists = 0;
      while (lists < 20 && (begun = route.BeginMany(list, kPiece)).ok()) ++lists;
      CHECK(lists > 3);
      if (lists < 20) CHECK(begun.reason() == reasons::kQuota);
      Await(route, route.Mark());
    }
    list.back().to = source.size() - kPiece + 1;
    CHECK(route.BeginMany(list, kPiece).reason() == reasons::kRangeOutOfBuffer);
    list.back() = {source.size(), 0};
    CHECK(route.BeginMany(list, kPiece).reason() == reasons::kRangeOutOfBuffer);
    CHECK(ReadAll(subject.memory(), to) == expected);
  }
}

TEST_CASE("more long routes than a device has streams carry each its own bytes") {
  constexpr size_t kManyRoutes = 100;
  constexpr uint64_t kPart = 70'000;
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(kManyRoutes * kPart, 67);
  for (const std::string& device : subject.devices()) {
    INFO(device);
    const auto [from, to, host, back] = Regions::Make(subject, device, source);
    auto in = subject.memory().PrepareLong(host, from);
    if (!in.ok()) {
      CHECK(in.status().reason() == reasons::kNotApplicable);
      return;
    }
    REQUIRE_OK((*in)->Begin(0, 0, source.size()));
    Await(**in, (*in)->Mark());
    std::vector<std::unique_ptr<SmallCopyRoute>> routes;
    for (size_t i = 0; i < kManyRoutes; ++i) {
      auto route = subject.memory().PrepareLong(from, to);
      REQUIRE_OK(route);
      routes.push_back(std::move(*route));
    }
    std::vector<uint64_t> marks;
    for (size_t i = 0; i < kManyRoutes; ++i) {
      const uint64_t at = i * kPart;
      REQUIRE_OK(routes[i]->Begin(at, source.size() - at - kPart, kPart));
      marks.push_back(routes[i]->Mark());
    }
    for (size_t i = kManyRoutes; i-- > 0;) {
      Await(*routes[i], marks[i]);
      routes.pop_back();  // others go on by the stream that it had
    }
    auto out = subject.memory().PrepareLong(to, back);
    REQUIRE_OK(out);
    REQUIRE_OK((*out)->Begin(0, 0, source.size()));
    Await(**out, (*out)->Mark());
    Bytes expected(source.size());
    for (size_t i = 0; i < kManyRoutes; ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i * kPart);
      std::copy_n(source.begin() + at, kPart,
                  expected.end() - at - static_cast<std::ptrdiff_t>(kPart));
    }
    CHECK(ReadAll(subject.memory(), back) == expected);
  }
}

}  // namespace
}  // namespace onecopy::testing
