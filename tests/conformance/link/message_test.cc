// Small ordered messages.
#include <cstring>
#include <vector>

#include "tests/conformance/link/links.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("messages arrive in order, in both directions, by channel") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  constexpr int kMessages = 2000;
  std::promise<void> echoed;
  std::vector<std::string> back;
  bool on_executor = true;
  connected->owner->Listen(1, [&](std::span<const std::byte> message) {
    (void)connected->owner->Send(2, MessageBytes("echo " + Text(message)));
  });
  connected->reader->Listen(2, [&](std::span<const std::byte> message) {
    on_executor &= connected->reader->executor().InThread();
    back.push_back(Text(message));
    if (back.size() == kMessages) echoed.set_value();
  });
  for (int i = 0; i < kMessages; ++i) {
    REQUIRE_OK(connected->reader->Send(99, MessageBytes("nobody listens")));
    REQUIRE_OK(connected->reader->Send(1, MessageBytes(std::to_string(i))));
  }
  echoed.get_future().wait();
  CHECK(on_executor);
  for (int i = 0; i < kMessages; ++i)
    REQUIRE(back[static_cast<size_t>(i)] == "echo " + std::to_string(i));
}

TEST_CASE("empty and largest messages pass, larger ones are refused") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  std::promise<std::vector<std::string>> arrived;
  std::vector<std::string> got;
  connected->owner->Listen(1, [&](std::span<const std::byte> message) {
    got.push_back(Text(message));
    if (got.size() == 2) arrived.set_value(got);
  });
  const std::string largest(Connection::kMaxMessageBytes, 'm');
  CHECK(connected->reader->Send(1, MessageBytes(largest + "m")).code() == Code::kInvalidArgument);
  REQUIRE_OK(connected->reader->Send(1, {}));
  REQUIRE_OK(connected->reader->Send(1, MessageBytes(largest)));
  CHECK(arrived.get_future().get() == std::vector<std::string>{"", largest});
}

TEST_CASE("a handler may end its own listening") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);

  int first = 0;
  std::promise<void> second;
  connected->owner->Listen(1, [&](std::span<const std::byte>) {
    ++first;
    connected->owner->Ignore(1);
  });
  connected->owner->Listen(2, [&](std::span<const std::byte>) { second.set_value(); });
  REQUIRE_OK(connected->reader->Send(1, MessageBytes("once")));
  REQUIRE_OK(connected->reader->Send(1, MessageBytes("ignored")));
  REQUIRE_OK(connected->reader->Send(2, MessageBytes("last")));
  second.get_future().wait();
  CHECK(first == 1);
}
