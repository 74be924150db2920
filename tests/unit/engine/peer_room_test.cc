// Which nodes have room among the peers, and which hidden ones leave for them.
#include "daemon/engine/peering/peer_room.h"

#include <vector>

#include "tests/support/catch.h"

using namespace onecopy;
using onecopy::engine::PeerRoom;

namespace {

using Names = std::vector<std::string>;

// Room for three peers.
struct SmallRoom {
  os::EventLoop loop;
  Names removed;
  Names taken;  // each with its address
  std::set<std::string> awaited;
  std::function<void()> before_awaited = [] {};
  size_t last = 0;  // ends the loop after so many removed and taken
  PeerRoom room;

  explicit SmallRoom(os::Clock::duration keep = std::chrono::hours(1))
      : room(loop, 3, keep,
             {[this] {
                before_awaited();
                return awaited;
              },
              [this](const std::string& name, const std::string&) {
                removed.push_back(name);
                room.Leave(name);
                EndAtLast();
              },
              [this](const std::string& name, const std::string& address) {
                taken.push_back(name + " at " + address);
                room.Enter(name);
                EndAtLast();
              }}) {}
  void EndAtLast() {
    if (removed.size() + taken.size() == last) loop.Stop();
  }
  void Enter(const Names& names) {
    for (const std::string& name : names) room.Enter(name);
  }
  void Hide(const Names& names) {
    for (const std::string& name : names) CHECK(room.Hide(name));
  }
  // Until there were so many removed and taken.
  void Run(size_t count) {
    last = count;
    loop.Run();
  }
};

}  // namespace

TEST_CASE("there is room until there are as many peers as there can be") {
  SmallRoom rig;
  for (const char* name : {"a", "b", "c"}) {
    CHECK(rig.room.Make());
    rig.room.Enter(name);
    rig.room.Enter(name);  // takes no second place
  }
  CHECK_FALSE(rig.room.Make());
  rig.room.Leave("b");
  CHECK(rig.room.Make());
  CHECK(rig.removed.empty());
}

TEST_CASE("a new peer has the place of the one that has been hidden for longest") {
  SmallRoom rig;
  rig.Enter({"a", "b", "c"});
  rig.Hide({"b", "c"});
  CHECK(rig.room.IsHidden("b"));
  CHECK_FALSE(rig.room.Hide("b"));  // it keeps its turn
  CHECK(rig.room.Make());
  CHECK(rig.removed == Names{"b"});
  CHECK_FALSE(rig.room.IsHidden("b"));
  CHECK(rig.room.Make());  // there is room already
  rig.room.Enter("d");
  CHECK(rig.room.Make());
  CHECK(rig.removed == Names{"b", "c"});
  rig.room.Enter("e");
  CHECK_FALSE(rig.room.Make());
}

TEST_CASE("a peer that comes back is not hidden and has the last turn once it is hidden again") {
  SmallRoom rig;
  rig.Enter({"a", "b", "c"});
  rig.Hide({"a", "b"});
  rig.room.Show("a");
  rig.room.Show("c");  // was not hidden
  CHECK_FALSE(rig.room.IsHidden("a"));
  rig.Hide({"a"});
  CHECK(rig.room.Make());
  CHECK(rig.removed == Names{"b"});
  rig.room.Show("a");
  rig.room.Enter("d");
  CHECK_FALSE(rig.room.Make());
  // One that left and is a peer again is not hidden either.
  rig.Hide({"a"});
  rig.room.Leave("a");
  rig.room.Enter("a");
  CHECK_FALSE(rig.room.IsHidden("a"));
  CHECK_FALSE(rig.room.Make());
}

TEST_CASE("peers beyond the most all leave for a new one as far as they are hidden") {
  SmallRoom rig;
  rig.Enter({"a", "b", "c", "d", "e"});
  rig.Hide({"e", "b", "a"});
  CHECK(rig.room.Make());
  CHECK(rig.removed == Names{"e", "b", "a"});
}

TEST_CASE("a hidden peer for which something waits does not leave for a new one") {
  SmallRoom rig;
  rig.Enter({"a", "b", "c"});
  rig.Hide({"a", "b"});
  rig.awaited = {"a"};
  CHECK(rig.room.Make());
  CHECK(rig.removed == Names{"b"});
  rig.room.Enter("d");
  CHECK_FALSE(rig.room.Make());
  CHECK(rig.room.IsHidden("a"));
  rig.awaited.clear();
  CHECK(rig.room.Make());
  CHECK(rig.removed == Names{"b", "a"});
}

TEST_CASE("a hidden peer leaves after a while unless it came back") {
  SmallRoom rig(std::chrono::milliseconds(1));
  rig.Enter({"a", "b", "c"});
  rig.Hide({"a", "b", "c"});
  rig.room.Show("a");
  rig.Run(2);
  CHECK(rig.removed == Names{"b", "c"});
}

TEST_CASE("a hidden peer for which something waits leaves once nothing does") {
  SmallRoom rig(std::chrono::milliseconds(1));
  rig.Enter({"a"});
  rig.Hide({"a"});
  rig.awaited = {"a"};
  int asked = 0;
  rig.before_awaited = [&] {
    CHECK(rig.removed.empty());
    if (++asked == 3) rig.awaited.clear();
  };
  rig.Run(1);
  CHECK(asked == 3);
  CHECK(rig.removed == Names{"a"});
}

TEST_CASE("nodes that were left out become peers as far as there is room") {
  SmallRoom rig;
  rig.Enter({"a", "b", "c"});
  rig.room.LeaveOut("y", "old");
  rig.room.LeaveOut("y", "1");
  rig.room.LeaveOut("x", "2");
  rig.room.LeaveOut("z", "3");
  SECTION("that of one which is hidden") {
    rig.Hide({"b"});
    CHECK(rig.taken.empty());  // not at once
    CHECK(rig.removed.empty());
    rig.Run(2);
    CHECK(rig.removed == Names{"b"});
    CHECK(rig.taken == Names{"x at 2"});
  }
  SECTION("that of one which leaves") {
    rig.room.Leave("c");
    rig.room.Leave("a");
    rig.Run(2);
    CHECK(rig.taken == Names{"x at 2", "y at 1"});
  }
  SECTION("one that has become a peer by itself needs none") {
    rig.room.Leave("a");
    rig.room.Enter("x");
    rig.Hide({"c"});
    rig.Run(3);
    CHECK(rig.taken == Names{"x at 2", "y at 1"});
    CHECK(rig.removed == Names{"c"});
  }
  SECTION("not those that are not discovered any more") {
    rig.room.ForgetLeftOut();
    rig.room.LeaveOut("z", "4");
    rig.room.Leave("a");
    rig.room.Leave("b");
    rig.Run(1);
    CHECK(rig.taken == Names{"z at 4"});
  }
}

TEST_CASE("nothing leaves or is taken after the end") {
  SmallRoom rig(std::chrono::milliseconds(0));
  rig.Enter({"a", "b", "c"});
  rig.room.LeaveOut("x", "1");
  rig.Hide({"a"});
  rig.room.Leave("b");
  rig.room.Stop();
  CHECK(rig.loop.timers() == 0);
}
