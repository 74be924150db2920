// Submissions that ask for a checksum.
#include <span>

#include "daemon/pipeline/summed_route.h"
#include "onecopy/reasons.h"
#include "tests/unit/ring/thread_rig.h"
#include "transport/digest/tree.h"

namespace ring_sums_test {
namespace {

using namespace onecopy;
using namespace onecopy::ring;

// A route that corrupts a byte of each copy if the test wants that.
class Careless final : public SmallCopyRoute {
 public:
  Careless(const RegionRef& from, RegionRef to) : route_("east", from, to), to_(std::move(to)) {}

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override {
    ONECOPY_RETURN_IF_ERROR(route_.Begin(from_offset, to_offset, bytes));
    if (careless) to_->address()[to_offset + bytes - 1] ^= std::byte{0x80};
    return OkStatus();
  }
  uint64_t Mark() override { return route_.Mark(); }
  bool Reached(uint64_t mark, Status* failure) override { return route_.Reached(mark, failure); }
  std::shared_ptr<const SmallSteps> steps() const override { return route_.steps(); }

  std::atomic<bool> careless{false};

 private:
  host::HostSmallCopyRoute route_;
  const RegionRef to_;
};

struct Summed {
  Rig rig;
  RegionRef from = testing::HostRegion(kBuffer);
  RegionRef to = testing::HostRegion(kBuffer);
  std::shared_ptr<Careless> way = std::make_shared<Careless>(from, to);
  std::shared_ptr<Route> route = Rig::Between(from, to);
  Rig::Attached one = rig.Attach();
  uint64_t word = 0;

  Summed() {
    testing::Fill({from, 0, kBuffer}, 1);
    route->way = std::make_shared<pipeline::SummedRoute>(way, from, to);
    word = rig.Install(one.id, 0, route);
  }
  Ended Move(uint64_t offset, uint64_t bytes) {
    uint64_t number = 0;
    REQUIRE(one.client->end.Submit(word, offset, offset, bytes, &number, true));
    return one.client->Next();
  }
};

}  // namespace

TEST_CASE("a submission's checksum is in its completion and in the journal") {
  Summed with;
  const uint64_t bytes = GENERATE(uint64_t{1}, uint64_t{4096}, uint64_t{kMaxBytes});
  const Ended ended = with.Move(64, bytes);
  REQUIRE(ended.code == Code::kOk);
  CHECK(digest::HexOf(ended.sum) == digest::TreeHexOf(with.from->address() + 64, bytes));
  CHECK(testing::FirstWrong({with.to, 64, bytes}, 1, 64) == bytes);
  const auto entry = with.one.journal->Read(ended.number);
  REQUIRE(entry);
  CHECK(entry->sum == ended.sum);
  // A submission that does not ask for a checksum does not get one.
  const uint64_t plain = with.one.client->Submit(with.word, 0, 0, 64);
  REQUIRE(with.one.client->Next().code == Code::kOk);
  CHECK_FALSE(with.one.journal->Read(plain)->sum);
}

TEST_CASE("a checksum mismatch fails one submission, and the engine hears of it") {
  Summed with;
  REQUIRE(with.Move(0, 4096).code == Code::kOk);
  with.way->careless = true;
  const Ended wrong = with.Move(0, 4096);
  CHECK(wrong.code == Code::kDataLoss);
  CHECK(std::string(wrong.reason) == reasons::kChecksumMismatch);
  const auto entry = with.one.journal->Read(wrong.number);
  REQUIRE(entry);
  CHECK(entry->outcome == Outcome::kDiffers);
  CHECK_FALSE(entry->sum);
  CHECK(with.route->counts.Read().failed[static_cast<size_t>(Outcome::kDiffers)] == 1);
  std::vector<uint64_t> told;
  with.one.journal->long_ends().TakeAll([&](const Entry& one) { told.push_back(one.number); });
  CHECK(told == std::vector<uint64_t>{wrong.number});
  with.way->careless = false;
  CHECK(with.Move(0, 4096).code == Code::kOk);
}

TEST_CASE("a request for a checksum that the route cannot compute is refused") {
  Summed with;
  testing::Fill({with.to, 0, kBuffer}, 2);
  const auto refused = [&](uint64_t word, uint64_t options, uint64_t list, std::string_view why) {
    Shared& shared = with.one.client->shared();
    const uint64_t number = shared.submitted.load();
    Submission& entry = shared.submissions[number % kSubmissions];
    entry.words[Submission::kNumber] = number;
    entry.words[Submission::kRoute] = word;
    entry.words[Submission::kFrom] = 0;
    entry.words[Submission::kTo] = 0;
    entry.words[Submission::kBytes] = 64;
    entry.words[Submission::kList] = list;
    entry.words[Submission::kOptions] = options;
    shared.submitted.store(number + 1);
    with.one.client->Wake();
    ExpectRefusal(with.one.client->Next(), Code::kInvalidArgument, why);
    CHECK(testing::FirstWrong({with.to, 0, kBuffer}, 2) == kBuffer);
  };
  SECTION("by a route that has none") {
    const uint64_t plain = with.rig.Install(with.one.id, 1, Rig::Between(with.from, with.to));
    refused(plain, kSum, 0, reasons::kNotApplicable);
  }
  SECTION("of a list") { refused(with.word, kSum, ListWord(0, 1), reasons::kNotApplicable); }
  SECTION("an option that nobody knows") {
    refused(with.word, GENERATE(uint64_t{2}, uint64_t{3}, UINT64_MAX), 0, reasons::kBadArgument);
  }
  ExpectServes(with.rig);
}

}  // namespace ring_sums_test
