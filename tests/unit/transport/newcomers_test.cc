#include "transport/os/sockets/newcomers.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

using onecopy::os::Counted;
using onecopy::os::Newcomers;

namespace {

// Puts down who was put out, in order.
struct Door {
  Newcomers newcomers;
  std::vector<std::string> out;

  Newcomers::Id Enter(const std::string& who, const std::string& name) {
    return newcomers.Enter(who, [this, name] { out.push_back(name); });
  }
};

}  // namespace

TEST_CASE("the oldest newcomer goes first, of one or of whoever has the most") {
  Door door;
  door.Enter("a", "a1");
  door.Enter("b", "b1");
  door.Enter("b", "b2");
  const Newcomers::Id last = door.Enter("b", "b3");
  CHECK(door.newcomers.size() == 4);
  CHECK(door.newcomers.of("b") == 3);
  CHECK(door.newcomers.of("c") == 0);
  CHECK(door.newcomers.PutOut());
  CHECK(door.newcomers.PutOut("a"));
  CHECK_FALSE(door.newcomers.PutOut("a"));
  CHECK(door.newcomers.PutOut());
  CHECK(door.out == std::vector<std::string>{"b1", "a1", "b2"});
  door.newcomers.Leave(last);
  door.newcomers.Leave(last);
  door.newcomers.Leave(0);
  CHECK(door.newcomers.size() == 0);
  CHECK_FALSE(door.newcomers.PutOut());
  CHECK_FALSE(door.newcomers.PutOut("b"));
  CHECK(door.out.size() == 3);
}

TEST_CASE("a newcomer that is put out may leave, and another enter, in that very call") {
  Newcomers newcomers;
  Newcomers::Id first = 0;
  Newcomers::Id second = 0;
  first = newcomers.Enter("a", [&] {
    newcomers.Leave(first);
    second = newcomers.Enter("a", [] {});
  });
  CHECK(newcomers.PutOut("a"));
  CHECK(second != 0);
  CHECK(second != first);
  CHECK(newcomers.of("a") == 1);
}

TEST_CASE("an IPv6 address counts with its network, any other by itself") {
  CHECK(Counted("10.0.0.1") == "10.0.0.1");
  CHECK(Counted("::1") == "::1");
  CHECK(Counted("::ffff:10.0.0.1") == "::ffff:10.0.0.1");
  CHECK(Counted("2001:db8:1:2:3:4:5:6") == Counted("2001:db8:1:2::1"));
  CHECK(Counted("2001:db8:1:2:3:4:5:6") != Counted("2001:db8:1:3:3:4:5:6"));
}
