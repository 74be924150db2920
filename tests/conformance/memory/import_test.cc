#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/memory/suite.h"

namespace onecopy::testing {
namespace {

TEST_CASE("a client's memory is read and written in place, at any offset") {
  ONECOPY_SUBJECT(subject);
  for (const std::string& device : subject.devices()) {
    for (const std::string& form : subject.forms()) {
      for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{4099}}) {
        INFO(form << " on " << device << " at offset " << offset);
        const Bytes content = Pattern(100'001, 11);
        const Shared shared = subject.Share(form, device, offset, content);
        auto imported = subject.memory().Import(shared.request);
        REQUIRE_OK(imported);
        const RegionRef region(std::move(*imported));
        CHECK(region->bytes() == content.size());
        CHECK(ReadAll(subject.memory(), region) == content);
        const Bytes other = Pattern(content.size(), 12);
        WriteAll(subject.memory(), region, other);
        CHECK(shared.read() == other);
      }
    }
  }
}

TEST_CASE("one piece of a client's memory may be imported twice, and each may go first") {
  ONECOPY_SUBJECT(subject);
  const std::string device = subject.devices().front();
  for (const std::string& form : subject.forms()) {
    INFO(form);
    const Bytes content = Pattern(50'000, 21);
    const Shared shared = subject.Share(form, device, 3, content);
    auto first = subject.memory().Import(shared.request);
    auto second = subject.memory().Import(shared.request);
    REQUIRE_OK(first);
    REQUIRE_OK(second);
    RegionRef one(std::move(*first));
    const RegionRef two(std::move(*second));
    CHECK(ReadAll(subject.memory(), one) == content);
    one.reset();
    CHECK(ReadAll(subject.memory(), two) == content);
    auto third = subject.memory().Import(shared.request);
    REQUIRE_OK(third);
    CHECK(ReadAll(subject.memory(), RegionRef(std::move(*third))) == content);
  }
}

TEST_CASE("a piece that is not inside the client's memory is refused") {
  ONECOPY_SUBJECT(subject);
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  for (const std::string& form : subject.forms()) {
    const Shared shared = subject.Share(form, subject.devices().front(), 0, Pattern(4096, 1));
    const std::vector<std::pair<uint64_t, uint64_t>> pieces = {
        {0, uint64_t{1} << 40}, {uint64_t{1} << 40, 1}, {kMost, 1}, {1, kMost}, {kMost, kMost}};
    for (const auto& [offset, bytes] : pieces) {
      INFO(form << ": offset " << offset << ", " << bytes << " bytes");
      ImportRequest request = shared.request;
      request.offset = offset;
      request.bytes = bytes;
      const Status status = subject.memory().Import(request).status();
      CHECK(status.code() == Code::kOutOfRange);
      CHECK(status.reason() == reasons::kRangeOutOfBuffer);
    }
    REQUIRE_OK(subject.memory().Import(shared.request));
  }
}

TEST_CASE("what is not what it is said to be is refused as BAD_HANDLE, and nothing is lost") {
  ONECOPY_SUBJECT(subject);
  for (const auto& [wrong, shared] : subject.BadRequests()) {
    INFO(wrong);
    const Status status = subject.memory().Import(shared.request).status();
    INFO(status.ToString());
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.reason() == reasons::kBadHandle);
    CHECK_FALSE(status.message().empty());
    CHECK_FALSE(status.remedy().empty());
  }
  const RegionRef region = AllocateOrFail(subject, subject.devices().front(), 4096);
  CHECK(ReadAll(subject.memory(), region) == Bytes(4096));
}

TEST_CASE("a form that the memory does not know is refused") {
  ONECOPY_SUBJECT(subject);
  ImportRequest request;
  request.form = "floppy";
  request.device = subject.devices().front();
  request.bytes = 1;
  CHECK(subject.memory().Import(request).status().reason() == reasons::kBadHandle);
}

}  // namespace
}  // namespace onecopy::testing
