// Whose bytes get which share.
#include "daemon/engine/base/flows.h"

#include "tests/support/catch.h"

using namespace onecopy;
using engine::Flows;
using engine::Owner;
using engine::ShareOptions;

namespace {

Owner User(uint32_t uid, const std::string& node = "east") { return {Uid(uid), node}; }

}  // namespace

TEST_CASE("without shares each node and each user has one") {
  const Flows flows;
  const Flow first = flows.Of(User(1000), "east");
  CHECK(first.node_weight == 1);
  CHECK(first.user_weight == 1);
  CHECK(first.SameOwner(flows.Of(User(1000), "east")));
  CHECK_FALSE(first.SameOwner(flows.Of(User(1001), "east")));
  CHECK_FALSE(first.SameOwner(flows.Of(User(1000), "west")));
  CHECK(first.node == flows.Of(User(1001), "east").node);
  CHECK_FALSE(first.SameOwner(Flow()));
}

TEST_CASE("a user's namespaces have no turn of their own, another machine's root has") {
  const Flows flows;
  const Flow plain = flows.Of(User(1000), "east");
  CHECK(plain.SameOwner(flows.Of({Uid(1000, "user4026532601.pid4026532602"), "east"}, "east")));
  CHECK_FALSE(plain.SameOwner(flows.Of({Uid(1000, "pid4026532567"), "east"}, "east")));
  CHECK_FALSE(plain.SameOwner(flows.Of(User(1000, "west"), "east")));
}

TEST_CASE("sections give weights to users and to nodes") {
  Flows flows;
  const ShareOptions training{{{1000, "east"}, {std::nullopt, "gpu-*"}}, {"west"}, 3};
  const ShareOptions rest{{{std::nullopt, "*"}}, {"w*"}, 2};
  flows.Configure({training, rest});
  CHECK(flows.Of(User(1000), "east").user_weight == 3);
  CHECK(flows.Of(User(1001), "east").user_weight == 2);
  CHECK(flows.Of(User(7, "gpu-1"), "gpu-1").user_weight == 3);
  CHECK(flows.Of(User(1000), "east").node_weight == 1);
  CHECK(flows.Of(User(1000), "west").node_weight == 3);
  CHECK(flows.Of(User(1000), "worst").node_weight == 2);
  CHECK(flows.Of(User(1000), "west").generation == 1);
  // A number means a user of the node itself, not one of a container.
  flows.Configure({training});
  CHECK(flows.Of({Uid(1000, "pid4026532567"), "east"}, "east").user_weight == 1);
  flows.Configure({});
  CHECK(flows.Of(User(1000), "west").node_weight == 1);
}

TEST_CASE("the most particular section counts and of equal ones the largest") {
  Flows flows;
  flows.Configure({{{{std::nullopt, "*"}}, {"*"}, 10},
                   {{{7, "east"}, {8, "e*"}}, {"east"}, 1},
                   {{{8, "*"}}, {"e*"}, 3},
                   {{{std::nullopt, "east"}}, {"*t"}, 5}});
  CHECK(flows.Of(User(7), "east").user_weight == 1);
  CHECK(flows.Of(User(8), "east").user_weight == 3);
  CHECK(flows.Of(User(9), "east").user_weight == 5);
  CHECK(flows.Of(User(9, "west"), "west").user_weight == 10);
  CHECK(flows.Of(User(9), "east").node_weight == 1);
  CHECK(flows.Of(User(9), "emu").node_weight == 10);
}

TEST_CASE("each key of a section counts by itself") {
  Flows flows;
  flows.Configure({{{{std::nullopt, "*"}}, {}, 5, 100, Priority::kLow},
                   {{{7, "east"}}, {}, std::nullopt, std::nullopt, Priority::kHigh},
                   {{{8, "east"}}, {}, 9, 0, std::nullopt}});
  CHECK(flows.Of(User(7), "east").user_weight == 5);
  CHECK(flows.Of(User(7), "east").priority == Priority::kHigh);
  CHECK(flows.RatesOf(User(7), "east").of_user == 100);
  CHECK(flows.Of(User(8), "east").user_weight == 9);
  CHECK(flows.Of(User(8), "east").priority == Priority::kLow);
  CHECK(flows.RatesOf(User(8), "east").of_user == 0);  // it takes the limit back
  CHECK(flows.RatesOf(User(9), "west").of_node == 0);
}

TEST_CASE("of equal sections the lowest limit and the highest priority count") {
  for (const bool turned : {false, true}) {
    Flows flows;
    std::vector<ShareOptions> shares = {
        {{{7, "east"}}, {"w*"}, std::nullopt, 100, Priority::kLow},
        {{{7, "east"}}, {"w*"}, std::nullopt, 200, Priority::kHigh},
        {{}, {"w*"}, std::nullopt, 0, std::nullopt},
    };
    if (turned) std::swap(shares.front(), shares.back());
    flows.Configure(shares);
    CHECK(flows.RatesOf(User(7), "east").of_user == 100);
    CHECK(flows.Of(User(7), "east").priority == Priority::kHigh);
    CHECK(flows.RatesOf(User(1, "west"), "west").of_node == 100);
  }
}

TEST_CASE("a user's priority counts before its node's") {
  Flows flows;
  flows.Configure({{{}, {"west"}, std::nullopt, std::nullopt, Priority::kHigh},
                   {{{std::nullopt, "*"}}, {}, std::nullopt, std::nullopt, Priority::kLow}});
  CHECK(flows.Of(User(7, "west"), "west").priority == Priority::kLow);
  flows.Configure({{{}, {"west"}, std::nullopt, std::nullopt, Priority::kHigh}});
  CHECK(flows.Of(User(7, "west"), "west").priority == Priority::kHigh);
  CHECK(flows.Of(User(7, "west"), "east").priority == Priority::kNormal);
}
