// A daemon's memory in the hands of a holder, and holders that are none.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "daemon/holder/holder.h"
#include "daemon/holder_client/holder_client.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::holder {
namespace {

using testing::TempFolder;

// A holder on a thread of its own.
struct Served {
  explicit Served(const std::string& path) : path(path) {
    thread.RunSync([&] {
      auto served = Holder::Serve(thread.loop(), path, [this] { over.set_value(); });
      if (served.ok()) holder = std::move(*served);
    });
    REQUIRE(holder != nullptr);
  }
  ~Served() { Stop(); }
  void Stop() {
    thread.RunSync([&] { holder.reset(); });
  }
  size_t held() {
    size_t count = 0;
    thread.RunSync([&] { count = holder->held(); });
    return count;
  }

  const std::string path;
  std::promise<void> over;
  os::LoopThread thread{"holder"};
  std::unique_ptr<Holder> holder;
};

HolderClient::Options OptionsOf(const std::string& socket) {
  HolderClient::Options options;
  options.socket = socket;
  options.hold_for = std::chrono::hours(1);
  options.busy_patience = std::chrono::milliseconds(50);
  return options;
}

std::unique_ptr<HolderClient> Open(const std::string& socket) {
  auto client = HolderClient::Open(OptionsOf(socket));
  REQUIRE_OK(client);
  return std::move(*client);
}

os::UniqueFd Memory(char byte) {
  auto memfd = os::SealedMemfd("test", 4096);
  REQUIRE_OK(memfd);
  REQUIRE(::pwrite(memfd->get(), &byte, 1, 0) == 1);
  return std::move(*memfd);
}

char ByteOf(const os::UniqueFd& fd) {
  char byte = 0;
  REQUIRE(::pread(fd.get(), &byte, 1, 0) == 1);
  return byte;
}

TEST_CASE("the next client has what the one before held and said of it") {
  TempFolder folder;
  Served served(folder / "s");
  {
    auto client = Open(folder / "s");
    const auto nothing = client->TakeLeft();
    CHECK(nothing.records.empty());
    CHECK(nothing.descriptors.empty());
    CHECK(client->Hold(7, Memory('a').get()).ok());
    CHECK(client->Hold(9, Memory('b').get()).ok());
    CHECK(client->Hold(9, Memory('c').get()).ok());  // in its place
    CHECK(client->Hold(11, Memory('d').get()).ok());
    client->Release(11);
    client->Release(12);
    CHECK(client->Put("k", "v", engine::HolderApi::Share::kMajor).ok());
    CHECK(client->Put("gone", "v", engine::HolderApi::Share::kMinor).ok());
    client->Erase("gone");
    CHECK(served.held() == 3);  // and the records
  }
  auto next = Open(folder / "s");
  const auto left = next->TakeLeft();
  CHECK(left.records == std::map<std::string, std::string>{{"k", "v"}});
  REQUIRE(left.descriptors.size() == 2);
  CHECK(ByteOf(left.descriptors.at(7)) == 'a');
  CHECK(ByteOf(left.descriptors.at(9)) == 'c');
}

TEST_CASE("a second daemon gets nothing while the first one is there, and does not go on without") {
  TempFolder folder;
  Served served(folder / "s");
  auto first = Open(folder / "s");
  REQUIRE_OK(first->Hold(7, Memory('a').get()));
  const Status refused = HolderClient::Open(OptionsOf(folder / "s")).status();
  CHECK(refused.code() == Code::kAborted);
  CHECK(refused.message().find("serves another daemon") != std::string::npos);
  CHECK(served.held() == 2);
  first.reset();
  auto second = Open(folder / "s");
  CHECK(second->TakeLeft().descriptors.size() == 1);
}

TEST_CASE("a holder that is found late is given what is held now, and nothing else is left there") {
  TempFolder folder;
  auto client = Open(folder / "s");
  CHECK(client->lost_fd() == -1);
  CHECK(client->Hold(7, Memory('a').get()).code() == Code::kUnavailable);
  Served served(folder / "s");
  {
    auto link = HolderLink::Connect(folder / "s", std::chrono::hours(1), {});
    REQUIRE_OK(link);
    REQUIRE_OK(link->Hold(5, Memory('y').get()));
  }
  Status renewed(Code::kAborted, reasons::kNotServed, "");
  while (renewed.code() == Code::kAborted) renewed = client->Renew();
  REQUIRE_OK(renewed);
  REQUIRE_OK(client->Hold(7, Memory('a').get()));
  CHECK(served.held() == 2);
}

TEST_CASE("a client whose holder has ended says so, and finds the next one") {
  TempFolder folder;
  auto served = std::make_unique<Served>(folder / "s");
  auto client = Open(folder / "s");
  REQUIRE_OK(client->Put("k", "v", engine::HolderApi::Share::kMajor));
  CHECK(client->lost_fd() >= 0);
  served.reset();
  CHECK(client->Hold(7, Memory('a').get()).code() == Code::kUnavailable);
  client->Release(7);
  CHECK(client->Renew().code() == Code::kUnavailable);
  served = std::make_unique<Served>(folder / "s");
  REQUIRE_OK(client->Renew());
  REQUIRE_OK(client->Hold(7, Memory('a').get()));
  client.reset();
  auto next = Open(folder / "s");
  const auto left = next->TakeLeft();
  CHECK(left.records.size() == 1);
  CHECK(left.descriptors.size() == 1);
}

TEST_CASE("records that cannot be read are told, and their memory is let go") {
  TempFolder folder;
  Served served(folder / "s");
  {
    auto link = HolderLink::Connect(folder / "s", std::chrono::hours(1), {});
    REQUIRE_OK(link);
    REQUIRE_OK(link->Hold(HolderClient::kRecords, Memory('x').get()));
    REQUIRE_OK(link->Hold(5, Memory('y').get()));
  }
  auto client = Open(folder / "s");
  const auto left = client->TakeLeft();
  CHECK(left.records.empty());
  CHECK(left.descriptors.empty());
  CHECK(served.held() == 1);
  REQUIRE_OK(client->Put("k", "v", engine::HolderApi::Share::kMajor));
  REQUIRE_OK(client->Hold(6, Memory('z').get()));
}

TEST_CASE("memory is held no longer than the last daemon wanted") {
  TempFolder folder;
  Served served(folder / "s");
  {
    HolderClient::Options options = OptionsOf(folder / "s");
    options.hold_for = std::chrono::milliseconds(20);
    auto client = HolderClient::Open(options);
    REQUIRE_OK(client);
    REQUIRE_OK((*client)->Hold(7, Memory('a').get()));
    // A timer that is due later shows that none of the holder's was due before.
    std::promise<void> later;
    served.thread.loop().Post([&] {
      served.thread.loop().RunAfter(std::chrono::milliseconds(60), [&] { later.set_value(); });
    });
    later.get_future().wait();
    CHECK(served.held() == 2);
  }
  served.over.get_future().wait();
  CHECK(served.held() == 0);
}

TEST_CASE("what is no question to a holder ends its connection, and nothing else") {
  TempFolder folder;
  Served served(folder / "s");
  auto client = Open(folder / "s");
  REQUIRE_OK(client->Hold(7, Memory('a').get()));
  const auto connect = [&] {
    auto socket = os::ConnectUnix(folder / "s", SOCK_SEQPACKET);
    REQUIRE_OK(socket);
    return std::move(*socket);
  };
  const auto answer_to = [&](const os::UniqueFd& socket, std::string_view bytes) {
    REQUIRE_OK(os::SendPacket(socket.get(), bytes));
    while (true) {
      auto packet = os::ReceivePacket(socket.get(), sizeof(Message));
      REQUIRE_OK(packet);
      if (packet->has_value()) return std::move(**packet);
      std::this_thread::yield();
    }
  };
  CHECK(answer_to(connect(), "short").end);
  CHECK(answer_to(connect(), std::string(5000, 'x')).end);
  // Nothing is given to whom did not say hello, or speaks another protocol.
  Message question;
  question.what = What::kNext;
  auto answer = answer_to(connect(), question.bytes());
  CHECK(Message::Parse(answer.bytes)->what == What::kUnknown);
  CHECK(answer.fds.empty());
  question.what = What::kHello;
  question.protocol = 2;
  CHECK(Message::Parse(answer_to(connect(), question.bytes()).bytes)->what == What::kUnknown);
  question.protocol = kProtocol;
  CHECK(Message::Parse(answer_to(connect(), question.bytes()).bytes)->what == What::kBusy);
  // A descriptor too few.
  client.reset();
  const os::UniqueFd daemon = connect();
  What hello = What::kBusy;
  while (hello == What::kBusy) {
    hello = Message::Parse(answer_to(daemon, question.bytes()).bytes)->what;
  }
  CHECK(hello == What::kDone);
  question.what = What::kHold;
  question.number = 9;
  CHECK(Message::Parse(answer_to(daemon, question.bytes()).bytes)->what == What::kUnknown);
  CHECK(served.held() == 2);
}

TEST_CASE("what answers like no holder is not trusted with memory") {
  TempFolder folder;
  auto listener = os::ListenUnix(folder / "s", SOCK_SEQPACKET, 0600, 4);
  REQUIRE_OK(listener);
  std::atomic<bool> done{false};
  // Says something else to each that connects.
  std::thread liar([&] {
    std::vector<os::UniqueFd> connections;
    while (!done) {
      os::UniqueFd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) {
        std::this_thread::yield();
        continue;
      }
      (void)os::SendPacket(socket.get(), "I am a teapot");
      connections.push_back(std::move(socket));
    }
  });
  auto client = Open(folder / "s");
  CHECK(client->Hold(7, Memory('a').get()).code() == Code::kUnavailable);
  CHECK(client->Renew().code() == Code::kUnavailable);
  done = true;
  liar.join();
}

}  // namespace
}  // namespace onecopy::holder
