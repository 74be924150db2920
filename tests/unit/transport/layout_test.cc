#include "transport/core/ranges/layout.h"

#include <algorithm>
#include <limits>
#include <random>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

std::vector<uint64_t> BytesOf(const StridedRange& range) {
  std::vector<uint64_t> bytes;
  for (uint64_t i = 0; i < range.count; ++i) {
    for (uint64_t k = 0; k < range.bytes; ++k) bytes.push_back(range.offset + i * range.stride + k);
  }
  return bytes;
}

std::vector<StridedRange> PiecesOf(const Layout& layout) {
  std::vector<StridedRange> pieces;
  for (const StridedRange& piece : layout.pieces()) pieces.push_back(piece);
  return pieces;
}

// By looking at each byte.
bool PlainOverlap(const StridedRange& a, const StridedRange& b) {
  const std::vector<uint64_t> of_a = BytesOf(a);  // ascending, as both must be for the search
  const std::vector<uint64_t> of_b = BytesOf(b);
  return std::any_of(of_a.begin(), of_a.end(), [&](uint64_t byte) {
    return std::binary_search(of_b.begin(), of_b.end(), byte);
  });
}

}  // namespace

TEST_CASE("neighbours are joined, and offsets count from the first byte") {
  const std::vector<StridedRange> ranges = {
      {100, 50, 0, 1}, {150, 50, 7, 1}, {300, 8, 8, 4}, {332, 1, 0, 1}, {60, 4, 32, 3}};
  const auto layout = Layout::Make(ranges, "source");
  REQUIRE_OK(layout);
  CHECK(layout->bytes() == 100 + 33 + 12);
  CHECK(layout->extent() == ByteRange{60, 273});
  CHECK(PiecesOf(*layout) ==
        std::vector<StridedRange>{{40, 100, 0, 1}, {240, 33, 0, 1}, {0, 4, 32, 3}});
  CHECK(layout->start(1) == 100);
  CHECK(layout->start(2) == 133);
  CHECK(layout->PieceAt(132) == 1);
  CHECK(layout->PieceAt(133) == 2);
  CHECK(layout->least_element() == 4);
  CHECK_FALSE(layout->contiguous());
  const std::vector<StridedRange> one = {{5, 4, 4, 10}, {45, 5, 0, 1}};
  CHECK(Layout::Make(one, "source")->contiguous());
}

TEST_CASE("ranges of one length are the same payload, whichever way they are given") {
  std::mt19937 random(23);
  const auto some = [&](uint64_t most) { return random() % (most + 1); };
  int kept_as_offsets = 0;
  int overlapping = 0;
  for (int round = 0; round < 3'000; ++round) {
    const uint64_t bytes = 1 + some(7);
    const uint64_t grid = some(2) == 0 ? 1 : bytes;  // of one, and of none
    std::vector<uint64_t> offsets(1 + some(12));
    std::vector<StridedRange> ranges;
    for (uint64_t& offset : offsets) {
      offset = 5 + some(40) * grid;
      ranges.push_back({offset, bytes, 0, 1});
    }
    const auto equal = Layout::MakeEqual(offsets, bytes, "destination");
    const auto plain = Layout::Make(ranges, "destination");
    REQUIRE_OK(equal);
    REQUIRE_OK(plain);
    CHECK(equal->bytes() == plain->bytes());
    CHECK(equal->extent() == plain->extent());
    CHECK(equal->contiguous() == plain->contiguous());
    std::vector<uint64_t> of_equal;
    for (const StridedRange& piece : equal->pieces()) {
      for (const uint64_t byte : BytesOf(piece)) of_equal.push_back(byte);
    }
    std::vector<uint64_t> of_plain;
    for (const StridedRange& piece : plain->pieces()) {
      for (const uint64_t byte : BytesOf(piece)) of_plain.push_back(byte);
    }
    CHECK(of_equal == of_plain);
    size_t joined = 0;
    for (size_t i = 0; i < equal->size(); ++i) joined += equal->FollowsOn(i) ? 1 : 0;
    CHECK(equal->size() - joined == plain->size());
    const bool apart = plain->CheckDisjoint("destination").ok();
    CHECK(equal->CheckDisjoint("destination").ok() == apart);
    kept_as_offsets += equal->equal_bytes() == 0 ? 0 : 1;
    overlapping += apart ? 0 : 1;
  }
  CHECK(kept_as_offsets > 1'000);
  CHECK(overlapping > 300);
  CHECK(overlapping < 2'900);
}

TEST_CASE("what is wrong with a range of one length is said as of any other") {
  const auto refused = [](std::vector<uint64_t> offsets, uint64_t bytes) {
    return Layout::MakeEqual(std::move(offsets), bytes, "source").status();
  };
  CHECK(refused({0, 8}, 0).reason() == reasons::kBadSize);
  CHECK(refused({}, 8).code() == Code::kInvalidArgument);
  CHECK(refused(std::vector<uint64_t>(kMaxRanges + 1), 8).code() == Code::kInvalidArgument);
  const Status beyond = refused({0, kMax - 6, 64}, 8);
  CHECK(beyond.reason() == reasons::kRangeOutOfBuffer);
  CHECK(beyond.message().find("source range 1") != std::string::npos);
  CHECK(refused({0, kMax / 2, 0}, kMax / 2).reason() == reasons::kRangeOutOfBuffer);  // together
}

TEST_CASE("a hundred thousand blocks in any order are seen to be apart, or not, on any grid") {
  for (const uint64_t bytes : {uint64_t{16}, uint64_t{48}, uint64_t{1} << 40}) {
    for (const uint64_t shift : {uint64_t{0}, uint64_t{5}}) {
      std::vector<uint64_t> offsets(100'003);
      for (uint64_t i = 0; i < offsets.size(); ++i) {
        const uint64_t place = i * 617 % offsets.size();
        offsets[i] = place * (bytes + 2 * shift) + place % 3 * shift;
      }
      CHECK(AreApart(offsets, bytes));
      offsets[77'777] = offsets[3] + bytes - 1;
      CHECK_FALSE(AreApart(offsets, bytes));
      offsets[77'777] = offsets[3];
      CHECK_FALSE(AreApart(offsets, bytes));
    }
  }
}

TEST_CASE("a range without bytes, of overlapping elements, or beyond 64 bits is refused") {
  struct Case {
    StridedRange range;
    Code code;
    std::string_view reason;
  };
  const Case cases[] = {
      {{0, 0, 0, 1}, Code::kInvalidArgument, reasons::kBadSize},
      {{0, 4, 8, 0}, Code::kInvalidArgument, reasons::kBadSize},
      {{0, 4, 3, 2}, Code::kInvalidArgument, reasons::kRangesOverlap},
      {{0, 4, 0, 2}, Code::kInvalidArgument, reasons::kRangesOverlap},
      {{kMax, 2, 0, 1}, Code::kOutOfRange, reasons::kRangeOutOfBuffer},
      {{2, kMax, 0, 1}, Code::kOutOfRange, reasons::kRangeOutOfBuffer},
      {{0, 4, kMax / 2, 4}, Code::kOutOfRange, reasons::kRangeOutOfBuffer},
      {{0, 1, uint64_t{1} << 33, uint64_t{1} << 33}, Code::kOutOfRange, reasons::kRangeOutOfBuffer},
      {{0, uint64_t{1} << 33, uint64_t{1} << 33, uint64_t{1} << 33},
       Code::kOutOfRange,
       reasons::kRangeOutOfBuffer},
      {{kMax - 8, 4, 4, 3}, Code::kOutOfRange, reasons::kRangeOutOfBuffer},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.range.offset, bad.range.bytes, bad.range.stride, bad.range.count);
    const std::vector<StridedRange> ranges = {{0, 1, 0, 1}, bad.range};
    const Status status = Layout::Make(ranges, "source").status();
    CHECK(status.code() == bad.code);
    CHECK(status.reason() == bad.reason);
    CHECK(status.message().find("source range 1") != std::string::npos);
  }
  const std::vector<StridedRange> two_halves = {{0, kMax / 2 + 1, 0, 1}, {0, kMax / 2 + 1, 0, 1}};
  CHECK(Layout::Make(two_halves, "source").status().code() == Code::kOutOfRange);
  CHECK(Layout::Make({}, "source").status().code() == Code::kInvalidArgument);
  const std::vector<StridedRange> many(kMaxRanges + 1, {0, 1, 0, 1});
  CHECK(Layout::Make(many, "source").status().code() == Code::kInvalidArgument);
}

TEST_CASE("whether strided ranges have a common byte is told exactly") {
  std::mt19937 random(7);
  const auto some = [&](uint64_t most) { return random() % (most + 1); };
  int overlapping = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto any = [&] {
      StridedRange range{some(120), 1 + some(9), 0, 1 + some(12)};
      range.stride = range.bytes + some(25);
      return range;
    };
    const StridedRange a = any();
    const StridedRange b = any();
    const bool truth = PlainOverlap(a, b);
    overlapping += truth ? 1 : 0;
    if (Overlap(a, b) != truth || Overlap(b, a) != truth) {
      CAPTURE(a.offset, a.bytes, a.stride, a.count, b.offset, b.bytes, b.stride, b.count);
      FAIL("wrong: they " << (truth ? "do" : "do not") << " overlap");
    }
  }
  CHECK(overlapping > 50'000);
  CHECK(overlapping < 190'000);
}

TEST_CASE("the columns of a long array of structures are told apart at once") {
  const uint64_t rows = uint64_t{1} << 50;
  CHECK_FALSE(Overlap({0, 4, 32, rows}, {4, 4, 32, rows}));
  CHECK(Overlap({0, 5, 32, rows}, {4, 4, 32, rows}));
  // Strides without a common factor meet somewhere, unless they end before.
  CHECK(Overlap({0, 1, 999'983, rows / 999'983}, {1, 1, 1'000'003, rows / 1'000'003}));
  CHECK_FALSE(Overlap({0, 1, 999'983, 1000}, {1, 1, 1'000'003, 1000}));
}

TEST_CASE("destination ranges that share a byte are refused, interleaved ones are not") {
  const auto check = [](const std::vector<StridedRange>& ranges) {
    auto layout = Layout::Make(ranges, "destination");
    REQUIRE_OK(layout);
    return layout->CheckDisjoint("destination");
  };
  CHECK(check({{100, 10, 0, 1}, {90, 10, 0, 1}, {110, 1, 0, 1}, {0, 4, 16, 5}}).ok());
  CHECK(check({{0, 4, 16, 100}, {4, 4, 16, 100}, {12, 4, 16, 100}, {8, 4, 0, 1}}).ok());
  CHECK(check({{100, 10, 0, 1}, {50, 51, 0, 1}}).reason() == reasons::kRangesOverlap);
  CHECK(check({{0, 4, 16, 100}, {8, 4, 16, 100}, {162, 8, 0, 1}}).reason() ==
        reasons::kRangesOverlap);
  std::vector<StridedRange> comb;
  for (uint64_t i = 0; i < 10'000; ++i) comb.push_back({i * 2, 1, 30'000'000 + 2 * i, 1000});
  CHECK(check(comb).reason() == reasons::kQuota);
}

TEST_CASE("as many columns as there may be are told apart by their stride") {
  const uint64_t stride = kMaxRanges * 2;
  std::vector<StridedRange> columns;
  for (uint64_t i = 0; i < kMaxRanges; ++i) columns.push_back({i * 2, 2, stride, 1000});
  const auto layout = Layout::Make(columns, "destination");
  REQUIRE_OK(layout);
  CHECK(layout->CheckDisjoint("destination").ok());
  // An array read by its columns, beside one that is written.
  const uint64_t bytes = layout->bytes();
  CHECK(CheckApart({&*layout, 0}, {nullptr, bytes, bytes}, "they overlap").ok());
  CHECK(CheckApart({&*layout, bytes}, {nullptr, 0, bytes}, "they overlap").ok());
  CHECK(CheckApart({&*layout, 0}, {nullptr, bytes - 1, bytes}, "they overlap").reason() ==
        reasons::kRangesOverlap);
  columns[77'777].bytes = 3;
  const auto wide = Layout::Make(columns, "destination");
  REQUIRE_OK(wide);
  CHECK(wide->CheckDisjoint("destination").reason() == reasons::kRangesOverlap);
  // The last column's elements end with the next stride's first.
  columns[77'777].bytes = 2;
  columns.back().bytes = 3;
  const auto wrapped = Layout::Make(columns, "destination");
  REQUIRE_OK(wrapped);
  CHECK(wrapped->CheckDisjoint("destination").reason() == reasons::kRangesOverlap);
}

TEST_CASE("whichever way is left to look for a common byte, it is found, or nothing is said") {
  std::mt19937 random(11);
  const auto some = [&](uint64_t most) { return random() % (most + 1); };
  int found = 0;
  int none = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::vector<PlacedRange> ranges(2 + some(5));
    for (PlacedRange& one : ranges) {
      one = {{some(200), 1 + some(3), 0, 1 + some(5)}, static_cast<uint32_t>(some(1))};
      one.range.stride = one.range.bytes + 1 + some(2) * 10;
    }
    for (const bool of_two_sides : {false, true}) {
      bool truth = false;
      for (size_t a = 0; a < ranges.size(); ++a) {
        for (size_t b = 0; b < a; ++b) {
          if (of_two_sides && ranges[a].side == ranges[b].side) continue;
          truth = truth || PlainOverlap(ranges[a].range, ranges[b].range);
        }
      }
      ++(truth ? found : none);
      const CommonByte right = truth ? CommonByte::kFound : CommonByte::kNone;
      OverlapBudget each;
      OverlapBudget columns{0};
      OverlapBudget elements{0, 0};
      CHECK(FindCommonByte(ranges, of_two_sides, &each) == right);
      CHECK(FindCommonByte(ranges, of_two_sides, &columns) == right);
      CHECK(FindCommonByte(ranges, of_two_sides, &elements) == right);
      OverlapBudget little{some(4), some(4), some(12), some(4)};
      const CommonByte said = FindCommonByte(ranges, of_two_sides, &little);
      CHECK((said == right || said == CommonByte::kGaveUp));
    }
  }
  CHECK(found > 1'000);
  CHECK(none > 1'000);
}

TEST_CASE("two sides of one buffer are compared where they lie, each alone is not") {
  const std::vector<StridedRange> columns = {{0, 4, 32, 10}, {0, 4, 32, 10}};
  const auto layout = Layout::Make(columns, "source");
  REQUIRE_OK(layout);
  CHECK(CheckApart({&*layout, 64}, {&*layout, 68}, "they overlap").ok());
  CHECK(CheckApart({&*layout, 64}, {&*layout, 67}, "they overlap").reason() ==
        reasons::kRangesOverlap);
  CHECK(CheckApart({&*layout, 64}, {nullptr, 0, 64}, "they overlap").ok());
  CHECK(CheckApart({&*layout, 64}, {nullptr, 0, 65}, "they overlap").reason() ==
        reasons::kRangesOverlap);
  CHECK(CheckApart({&*layout, 64}, {nullptr, 70, 0}, "they overlap").ok());
}

TEST_CASE("some layouts and ranges are apart from others where no byte is of both") {
  std::mt19937 random(13);
  const auto some = [&](uint64_t most) { return random() % (most + 1); };
  const auto any = [&](std::vector<Layout>* layouts) {
    std::vector<PlacedLayout> side(1 + some(2));
    for (PlacedLayout& one : side) {
      one.at = some(60);
      one.bytes = some(6);  // of none, too
      if (some(2) == 0) continue;
      std::vector<StridedRange> ranges(1 + some(2));
      for (StridedRange& range : ranges) range = {some(9), 1 + some(2), 4 + some(8), 1 + some(3)};
      layouts->push_back(*Layout::Make(ranges, "source"));
      one.layout = &layouts->back();
    }
    return side;
  };
  const auto bytes_of = [](const std::vector<PlacedLayout>& side) {
    std::vector<uint64_t> all;
    for (const PlacedLayout& one : side) {
      if (one.layout == nullptr) {
        for (uint64_t k = 0; k < one.bytes; ++k) all.push_back(one.at + k);
        continue;
      }
      for (const StridedRange& piece : one.layout->pieces()) {
        for (const uint64_t byte : BytesOf(piece)) all.push_back(one.at + byte);
      }
    }
    return all;
  };
  int apart = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::vector<Layout> layouts;
    layouts.reserve(6);
    const std::vector<PlacedLayout> a = any(&layouts);
    const std::vector<PlacedLayout> b = any(&layouts);
    const std::vector<uint64_t> of_b = bytes_of(b);
    const std::vector<uint64_t> of_a = bytes_of(a);
    const bool truth = std::none_of(of_a.begin(), of_a.end(), [&](uint64_t byte) {
      return std::find(of_b.begin(), of_b.end(), byte) != of_b.end();
    });
    apart += truth ? 1 : 0;
    CHECK(CheckApart(a, b, "they overlap").ok() == truth);
  }
  CHECK(apart > 1'000);
  CHECK(apart < 4'000);
}
