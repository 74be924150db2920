// Memory that another process registered, and the end of that process.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <future>
#include <memory>
#include <utility>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "transport/os/base/unique_fd.h"

namespace owner_death_test {
namespace {

using onecopy::Client;
using onecopy::TransferInfo;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kLarge = uint64_t{2} << 30;

// The program of registrar.cc, which ends with the test at the latest.
class Registrar {
 public:
  Registrar(const Node& node, const std::string& name, uint64_t bytes, bool fork = false) {
    // Standard input that ends when this process has gone.
    const std::string fifo = folder_ / "in";
    if (::mkfifo(fifo.c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
    held_open_ = onecopy::os::UniqueFd(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));
    std::vector<std::string> arguments = {node.run_dir(), name, std::to_string(bytes)};
    if (fork) arguments.emplace_back("fork");
    process_ = std::make_unique<Process>(
        ProcessOptions{.program = (ProgramFolder() / "support" / "registrar").string(),
                       .arguments = std::move(arguments),
                       .input_file = fifo,
                       .error_file = folder_ / "err"});
    const std::string ready = process_->ReadLine();
    if (std::sscanf(ready.c_str(), "ready %d", &child_) != 1) {
      throw std::runtime_error("registrar: " + ready + ReadFile(folder_ / "err"));
    }
  }
  ~Registrar() {
    if (child_ > 0) ::kill(child_, SIGKILL);
  }

  bool ChildRuns() const { return child_ > 0 && ::kill(child_, 0) == 0; }
  void Kill() {
    process_->Signal(SIGKILL);
    CHECK(process_->Wait() == 1000 + SIGKILL);
  }

 private:
  TempFolder folder_;
  onecopy::os::UniqueFd held_open_;
  std::unique_ptr<Process> process_;
  int child_ = 0;
};

void WaitUntilGone(Client& client, const std::string& name) {
  WaitUntil("buffer " + name + " has gone",
            [&] { return client.GetBuffer("", name).status().code() == onecopy::Code::kNotFound; });
}

void CheckOwnerDied(const TransferInfo& transfer) {
  CHECK(transfer.state == TransferState::kFailed);
  INFO(transfer.error.ToString());
  CHECK(transfer.error.code() == onecopy::Code::kAborted);
  CHECK(transfer.error.reason() == "OWNER_DIED");
}

}  // namespace

TEST_CASE("memory that one process registered is used by another of the same user") {
  Pair pair;
  const Registrar owner(pair.east, "theirs", 65'536);
  pair.west.Do({"buffer", "create", "b", "--size", "65536", "--memory", "host"});
  const Json shown = pair.east.Do({"buffer", "show", "theirs"});
  CHECK(shown.at("registered") == true);
  CheckReceipt(pair.east.Do({"cp", "theirs", "west:b", "--checksum"}),
               {"tcp-direct", 65'536, true});
  CHECK(Contents(pair.west, "b") == std::string(65'536, 'Z'));
  pair.west.Do({"cp", "-", "b"}, Payload(65'536));
  CheckReceipt(pair.west.Do({"cp", "b", "east:theirs"}), {"tcp-direct", 65'536, false});
  CHECK(Contents(pair.east, "theirs") == Payload(65'536));
}

TEST_CASE("what a killed process had registered goes, even where its child keeps the socket open") {
  for (const bool fork : {false, true}) {
    INFO((fork ? "with" : "without") << " a child");
    Node east("east");
    Client other = east.Connect();
    east.Do({"buffer", "create", "mine", "--size", "65536", "--memory", "host"});
    Registrar owner(east, "theirs", 65'536, fork);
    REQUIRE_OK(other.GetBuffer("", "theirs"));
    owner.Kill();
    CHECK(owner.ChildRuns() == fork);
    WaitUntilGone(other, "theirs");
    CHECK(owner.ChildRuns() == fork);
    CheckRefused(east.Run({"cp", "theirs", "mine"}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
    // The daemon serves on, and the name is free.
    const Registrar next(east, "theirs", 65'536);
    CheckReceipt(east.Do({"cp", "theirs", "mine"}), {"local", 65'536, false});
  }
}

TEST_CASE("a transfer from memory whose owner is killed fails with OWNER_DIED") {
  Pair pair;
  Registrar owner(pair.east, "theirs", kLarge, true);
  pair.west.Do({"buffer", "create", "b", "--size", std::to_string(kLarge), "--memory", "host"});
  Client east = pair.east.Connect();
  const auto started = StartAndSeeRunning(
      east, {.source = {"", "theirs", {}, {}}, .destination = {"west", "b", {}, {}}});
  Frozen west(pair.west);  // it cannot take everything before the owner has died
  owner.Kill();
  WaitUntilGone(east, "theirs");
  west.Thaw();
  CheckOwnerDied(Must(east.AwaitTransfer(started.id)));
  CheckOwnerDied(Must(pair.west.Connect().AwaitTransfer(started.id)));
  CheckRefused(pair.east.Run({"transfer", "watch", started.id.str()}), 10, "ABORTED", "OWNER_DIED");
  pair.west.Do({"buffer", "rm", "b"});
  CHECK(Must(east.ListBuffers()).empty());
}

TEST_CASE("a transfer whose source's owner is killed before it has begun fails with OWNER_DIED") {
  Pair pair;
  Registrar owner(pair.east, "theirs", 65'536);
  pair.west.Do({"buffer", "create", "b", "--size", "65536", "--memory", "host"});
  Client east = pair.east.Connect();
  Frozen west(pair.west);  // it has not accepted yet
  auto asked = std::async(std::launch::async, [&] {
    return east.RunTransfer(
        {.source = {"", "theirs", {}, {}}, .destination = {"west", "b", {}, {}}});
  });
  WaitUntil("the transfer is known", [&] { return !Must(east.ListTransfers()).empty(); });
  owner.Kill();
  WaitUntilGone(east, "theirs");
  west.Thaw();
  CheckOwnerDied(Must(asked.get()));
  pair.west.Do({"buffer", "rm", "b"});
}

TEST_CASE("a transfer into memory whose owner is killed fails with OWNER_DIED") {
  Pair pair;
  Registrar owner(pair.west, "theirs", kLarge);
  pair.east.Do({"buffer", "create", "a", "--size", std::to_string(kLarge), "--memory", "host"});
  Client west = pair.west.Connect();
  const auto started = StartAndSeeRunning(
      west, {.source = {"east", "a", {}, {}}, .destination = {"west", "theirs", {}, {}}});
  Frozen east(pair.east);
  owner.Kill();
  WaitUntilGone(west, "theirs");
  east.Thaw();
  CheckOwnerDied(Must(west.AwaitTransfer(started.id)));
  CheckOwnerDied(Must(pair.east.Connect().AwaitTransfer(started.id)));
  pair.east.Do({"buffer", "rm", "a"});
}

TEST_CASE("a transfer inside a node ends in one way or the other when the owner is killed") {
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  Node east("east");
  east.Do({"buffer", "create", "b", "--size", std::to_string(kBytes), "--memory", "host"});
  Client client = east.Connect();
  for (const char* path : {"local", "peer-bounce"}) {
    Registrar owner(east, "theirs", kBytes);
    const auto started = Must(client.StartTransfer({.source = {"", "theirs", {}, {}},
                                                    .destination = {"", "b", {}, {}},
                                                    .policy = {.path_glob = path}}));
    owner.Kill();
    const TransferInfo ended = Must(client.AwaitTransfer(started.id));
    if (ended.state != TransferState::kSucceeded) CheckOwnerDied(ended);
    WaitUntilGone(client, "theirs");
  }
  east.Do({"buffer", "rm", "b"});
}
}  // namespace owner_death_test
