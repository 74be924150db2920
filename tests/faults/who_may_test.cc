// Who of a machine may do what: every call of a client, as everyone who may be there.
#include <grp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <sstream>

#include "onecopy/client.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"

namespace who_may_test {
namespace {

using onecopy::Client;
using onecopy::Status;
using namespace onecopy::testing;

constexpr uid_t kGrantee = 65532;
constexpr char kSize[] = "65536";

enum Row { kAsOwner, kAsGrantee, kAsOther, kAsNamespaceRoot, kAsHostRoot, kRows };
constexpr std::array<const char*, kRows> kRowNames = {"owner", "grantee", "other uid",
                                                      "namespace root", "host root"};

// What the owner has made before anybody calls: "a", of which the grantee may read 16 bytes; for
// each row a buffer "doomed-ROW" and a grant on it; a transfer that has ended.
struct Made {
  std::array<std::string, kRows> grants;
  std::string transfer;
};

bool EnterNamespace() {
  if (::unshare(CLONE_NEWUSER) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream map("/proc/self/uid_map");
  map << "0 0 1";
  return static_cast<bool>(map.flush());
}

// As whom this process goes on. False where the machine does not let it.
bool Become(Row row) {
  if (row == kAsHostRoot) return true;
  if (row == kAsNamespaceRoot) return EnterNamespace();
  const uid_t uid = row == kAsOwner ? kOwner : row == kAsGrantee ? kGrantee : kOther;
  return ::setgroups(0, nullptr) == 0 && ::setgid(uid) == 0 && ::setuid(uid) == 0;
}

struct Call {
  const char* name;
  std::function<Status(Client&, Row, const Made&)> make;
  std::array<const char*, kRows> expected;  // codes, as the rows go
};

template <typename T>
Status Seen(const onecopy::Result<std::vector<T>>& listed,
            const std::function<bool(const T&)>& it) {
  if (!listed.ok()) return listed.status();
  if (std::any_of(listed->begin(), listed->end(), it)) return {};
  return {onecopy::Code::kNotFound, "", "it is not in the list"};
}

std::string Own(Row row) { return "own-" + std::to_string(row); }
onecopy::Endpoint Granted() { return {"", "a", 0, 16}; }
onecopy::Endpoint All() { return {"", "a", {}, {}}; }

Status Move(Client& client, const onecopy::Endpoint& from, const onecopy::Endpoint& to) {
  const auto done = client.RunTransfer({.source = from, .destination = to, .policy = {}});
  return done.ok() ? OutcomeOf(*done) : done.status();
}

const std::vector<Call>& Calls() {
  static const std::vector<Call> calls = {
      {"attach.sock and api.sock",
       [](Client& client, Row, const Made&) { return client.Ping(); },
       {"OK", "OK", "OK", "OK", "OK"}},
      {"CreateBuffer",
       [](Client& client, Row row, const Made&) {
         return client.CreateBuffer({.name = Own(row), .bytes = 65'536, .memory = "host"}).status();
       },
       {"OK", "OK", "OK", "OK", "OK"}},
      {"CreateBuffer of a name that is taken",
       [](Client& client, Row, const Made&) {
         return client.CreateBuffer({.name = "a", .bytes = 1, .memory = "host"}).status();
       },
       {"ALREADY_EXISTS", "ALREADY_EXISTS", "ALREADY_EXISTS", "ALREADY_EXISTS", "ALREADY_EXISTS"}},
      {"RegisterBuffer",
       [](Client& client, Row, const Made&) { return client.CreateHostBuffer("", 4096).status(); },
       {"OK", "OK", "OK", "OK", "OK"}},
      {"GetBuffer",
       [](Client& client, Row, const Made&) { return client.GetBuffer("", "a").status(); },
       {"OK", "OK", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"GetBuffer of none",
       [](Client& client, Row, const Made&) { return client.GetBuffer("", "none").status(); },
       {"NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"}},
      {"ListBuffers",
       [](Client& client, Row, const Made&) {
         return Seen<onecopy::BufferInfo>(client.ListBuffers(),
                                          [](const auto& one) { return one.name == "a"; });
       },
       {"OK", "OK", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"SumBuffer of what was granted",
       [](Client& client, Row, const Made&) { return client.SumBuffer(Granted()).status(); },
       {"OK", "OK", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"SumBuffer",
       [](Client& client, Row, const Made&) { return client.SumBuffer(All()).status(); },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"SumBuffer beyond its end",
       [](Client& client, Row, const Made&) {
         return client.SumBuffer({"", "a", uint64_t{1} << 40, 1}).status();
       },
       {"OUT_OF_RANGE", "OUT_OF_RANGE", "NOT_FOUND", "NOT_FOUND", "OUT_OF_RANGE"}},
      {"CreateTransfer, reading what was granted",
       [](Client& client, Row row, const Made&) {
         return Move(client, Granted(), {"", Own(row), 0, 16});
       },
       {"OK", "OK", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"the same by a ring",
       [](Client& client, Row row, const Made&) {
         return Move(client, Granted(), {"", Own(row), 0, 16});
       },
       {"OK", "OK", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"CreateTransfer, reading all",
       [](Client& client, Row row, const Made&) {
         return Move(client, All(), {"", Own(row), {}, {}});
       },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"CreateTransfer, writing what was granted to be read",
       [](Client& client, Row row, const Made&) {
         return Move(client, {"", Own(row), 0, 16}, Granted());
       },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"CreateTransfer, only planned",
       [](Client& client, Row row, const Made&) {
         return client
             .PlanTransfer({.source = All(), .destination = {"", Own(row), {}, {}}, .policy = {}})
             .status();
       },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"GetTransfer",
       [](Client& client, Row, const Made& made) {
         return client.GetTransfer(onecopy::TransferId(made.transfer)).status();
       },
       {"OK", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"ListTransfers",
       [](Client& client, Row, const Made& made) {
         return Seen<onecopy::TransferInfo>(client.ListTransfers(), [&](const auto& one) {
           return one.id.str() == made.transfer;
         });
       },
       {"OK", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"WatchTransfer",
       [](Client& client, Row, const Made& made) {
         return client.WatchTransfer(onecopy::TransferId(made.transfer)).status();
       },
       {"OK", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"CancelTransfer",
       [](Client& client, Row, const Made& made) {
         return client.CancelTransfer(onecopy::TransferId(made.transfer)).status();
       },
       {"OK", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"SendMessage",
       [](Client& client, Row, const Made&) {
         return client.SendMessage({.destination = All(), .message = "m"});
       },
       {"FAILED_PRECONDITION", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND",
        "FAILED_PRECONDITION"}},  // nobody watches yet
      {"WatchArrivals",
       [](Client& client, Row, const Made&) { return client.WatchArrivals("a").status(); },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"WatchArrivals of what one registers",
       [](Client& client, Row, const Made&) { return client.WatchArrivals().status(); },
       {"OK", "OK", "OK", "OK", "OK"}},
      {"CreateGrant",
       [](Client& client, Row, const Made&) {
         return client.CreateGrant({.range = {"", "a", 32, 1}, .to = "1", .read = true}).status();
       },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"ListExports",
       [](Client& client, Row, const Made&) { return client.ListExports().status(); },
       {"OK", "OK", "OK", "OK", "OK"}},
      {"ListGrants of it",
       [](Client& client, Row, const Made&) { return client.ListGrants("a").status(); },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"DeleteGrant",
       [](Client& client, Row row, const Made& made) {
         return client.DeleteGrant(onecopy::GrantId(made.grants[row]));
       },
       {"OK", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"DeleteBuffer",
       [](Client& client, Row row, const Made&) {
         return client.DeleteBuffer("doomed-" + std::to_string(row));
       },
       {"OK", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"DeleteBuffer by force, of what was granted",
       [](Client& client, Row row, const Made&) {
         return row == kAsOwner || row == kAsHostRoot ? Status() : client.DeleteBuffer("a", true);
       },
       {"OK", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND", "OK"}},
      {"GetNode",
       [](Client& client, Row, const Made&) { return client.GetNode().status(); },
       {"OK", "OK", "OK", "OK", "OK"}},
      {"ListNodes",
       [](Client& client, Row, const Made&) { return client.ListNodes().status(); },
       {"OK", "OK", "OK", "OK", "OK"}},
      {"ProbeNode",
       [](Client& client, Row, const Made&) { return client.ProbeNode("none").status(); },
       {"NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"}},
      {"ReleaseDevice",
       [](Client& client, Row, const Made&) { return client.ReleaseDevice("none"); },
       {"PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED",
        "NOT_FOUND"}},
      {"SetLogLevel",
       [](Client& client, Row, const Made&) { return client.SetLogLevel("info").status(); },
       {"PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", "OK"}},
      {"SetDraining",
       [](Client& client, Row, const Made&) { return client.SetDraining(false).status(); },
       {"PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", "OK"}},
  };
  return calls;
}

// Makes every call in a process of its own, which tells the code of each; nothing where this
// machine does not let it be that user.
std::vector<std::string> MakeAll(const Node& node, Row row, const Made& made) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(pipe[0]);
    std::string said;
    if (Become(row)) {
      auto client = Client::Connect({.run_dir = node.run_dir(), .program = "who_may"});
      for (const Call& call : Calls()) {
        const Status status = client.ok() ? call.make(*client, row, made) : client.status();
        said += std::string(onecopy::CodeName(status.code())) + "\t" + status.ToString() + "\n";
      }
    }
    (void)!::write(pipe[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::string said;
  std::array<char, 4096> some{};
  for (ssize_t got = 0; (got = ::read(pipe[0], some.data(), some.size())) > 0;) {
    said.append(some.data(), static_cast<size_t>(got));
  }
  ::close(pipe[0]);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  std::vector<std::string> lines;
  std::istringstream stream(said);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

// This process must not have used gRPC before: its children do.
TEST_CASE("who of a machine may do what") {
  REQUIRE_ROOT();
  Node east("east");
  OpenTo(east);
  const auto create = [&](const std::string& name) {
    CommandAs(kOwner, east, {"buffer", "create", name, "--size", kSize, "--memory", "host"});
  };
  create("a");
  create("b");
  CommandAs(kOwner, east, {"cp", "-", "a"}, Payload(65'536));
  CommandAs(kOwner, east, {"grant", "add", "a@0+16", "--to", std::to_string(kGrantee), "--read"});
  Made made;
  for (int row = 0; row < kRows; ++row) {
    const std::string doomed = "doomed-" + std::to_string(row);
    create(doomed);
    made.grants[row] =
        CommandAs(kOwner, east, {"grant", "add", doomed, "--to", "1", "--read"}).at("id");
  }
  made.transfer = CommandAs(kOwner, east, {"cp", "a", "b"}).at("id");
  size_t cells = 0;
  for (int row = 0; row < kRows; ++row) {
    const std::vector<std::string> said = MakeAll(east, static_cast<Row>(row), made);
    if (said.empty() && row == kAsNamespaceRoot) {
      WARN("this machine lets nobody make user namespaces: that row is left out");
      continue;
    }
    REQUIRE(said.size() == Calls().size());
    for (size_t i = 0; i < said.size(); ++i) {
      INFO(kRowNames[row] << ": " << Calls()[i].name << ": " << said[i]);
      CHECK(said[i].substr(0, said[i].find('\t')) == Calls()[i].expected[row]);
      ++cells;
    }
  }
  CHECK(cells >= 100);
  CHECK(Contents(east, "a") == Payload(65'536));
}
}  // namespace who_may_test
