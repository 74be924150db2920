// Uids, and the names of namespaces that go with them.
#include "transport/core/base/uid.h"

#include "tests/support/catch.h"

using namespace onecopy;

TEST_CASE("a uid of the daemon's own namespaces is written as its number") {
  CHECK(Uid(1000).ToString() == "1000");
  CHECK_FALSE(Uid(0).foreign());
  CHECK(Uid(0, "pid7").ToString() == "0+pid7");
  CHECK(Uid(0, "pid7").foreign());
}

TEST_CASE("uids are equal where both the number and the namespaces are") {
  CHECK(Uid(0) == Uid(0));
  CHECK(Uid(0) != Uid(0, "pid7"));
  CHECK(Uid(0, "pid7") != Uid(0, "pid8"));
  CHECK(Uid(1, "pid7") != Uid(0, "pid7"));
}

TEST_CASE("what is written is read back") {
  for (const Uid& uid : {Uid(0), Uid(4'294'967'295), Uid(0, "pid4026532567"),
                         Uid(5, "user4026532601.pid4026532602-2"), Uid(5, "user.cgroup-77")}) {
    std::string_view rest;
    const std::string text = uid.ToString() + "@east";
    const auto read = ParseUid(text, &rest);
    REQUIRE_OK(read);
    CHECK(*read == uid);
    CHECK(rest == "@east");
  }
  std::string_view rest;
  for (const char* text :
       {"", "x", "+pid7", "4294967296", "-1", "7+", "7+@east", "7+7pid", "7+.a"}) {
    INFO(text);
    CHECK_FALSE(ParseUid(text, &rest).ok());
  }
}

TEST_CASE("names of namespaces are short and plain") {
  CHECK(CheckNamespaces("").ok());
  CHECK(CheckNamespaces("pid7").ok());
  CHECK(CheckNamespaces(std::string(80, 'a')).ok());
  for (const std::string& text :
       {std::string(81, 'a'), std::string("7"), std::string("a b"), std::string("a@b"),
        std::string("a\n"), std::string("A"), std::string("-a")}) {
    INFO(text);
    CHECK(CheckNamespaces(text).reason() == "BAD_ARGUMENT");
  }
}

TEST_CASE("user namespaces are paid for by whom they belong to, PID namespaces pay themselves") {
  CHECK(Uid(1000).payer() == Uid(1000));
  CHECK(Uid(1000, "user7").payer() == Uid(1000));
  CHECK(Uid(1000, "user7.pid8").payer() == Uid(1000));
  CHECK(Uid(1000, "user.cgroup-8").payer() == Uid(1000));
  CHECK(Uid(0, "pid8").payer() == Uid(0, "pid8"));
  CHECK(Uid(0, "cgroup-8").payer() == Uid(0, "cgroup-8"));
}
