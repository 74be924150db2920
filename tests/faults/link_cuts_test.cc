// A link whose wire loses everything for a while: both ends notice, and the next connection works.
// Links of one process, each in a network of its own, so that every link can be tried that moves
// bytes over sockets.
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "tests/support/process.h"
#include "tests/support/sanitized.h"
#include "tests/support/wire.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/tcp/factory.h"
#include "transport/link/ucx/factory.h"
#include "transport/shim/ucx.h"

namespace {

using namespace onecopy;
using namespace onecopy::testing;
using namespace std::chrono_literals;

[[maybe_unused]] const bool kPrepared = [] {
  shim::PrepareUcxEnvironment();
  return true;
}();

constexpr ChannelId kChannel = 3;
constexpr uint64_t kBytes = uint64_t{8} << 20;
constexpr uint64_t kPiece = uint64_t{256} << 10;

struct Kind {
  std::string name;
  std::function<Result<std::unique_ptr<Link>>(const std::string& node, const std::string& address)>
      make;
};

Result<std::unique_ptr<Link>> MakeTcp(const std::string& node, const std::string& address) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = {address + ":0"};
  context.settings.Set("lanes", int64_t{2});
  context.settings.Set("threads", int64_t{1});
  return tcp.create(context);
}

Result<std::unique_ptr<Link>> MakeUcx(const std::string& node, const std::string&) {
  Backend<Link> ucx = ucx::Describe();
  BackendContext context{node, Settings(ucx.settings), {}, {}};
  context.rdma = Settings(RdmaSettings());
  context.settings.Set("transports", std::vector<std::string>{"tcp"});
  context.settings.Set("chunk_bytes", static_cast<int64_t>(kPiece));
  return ucx.create(context);
}

enum class Lost { kFromOwner, kFromReader, kBothWays };

std::string NameOf(Lost lost) {
  return lost == Lost::kFromOwner    ? "from the owner"
         : lost == Lost::kFromReader ? "from the reader"
                                     : "both ways";
}

// Runs where that end of the wire is; threads that it starts stay there.
template <typename T>
T At(const Wire& wire, Wire::End end, const std::function<T()>& make) {
  std::promise<T> made;
  std::thread([&] {
    wire.Inside(end)();
    made.set_value(make());
  }).join();
  return made.get_future().get();
}

template <typename T>
T OrThrow(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}

// A connection, and whether each end has ended.
struct Made {
  std::shared_ptr<Connection> owner;
  std::shared_ptr<Connection> reader;

  bool ended() const { return owner->closed() && reader->closed(); }
};

class Rig {
 public:
  explicit Rig(const Kind& kind)
      : source_(HostRegion(kBytes)),
        sink_(HostRegion(kBytes)),
        owner_(OrThrow(At<Result<std::unique_ptr<Link>>>(
            wire_, Wire::End::kWest,
            [&] { return kind.make("owner", wire_.Address(Wire::End::kWest)); }))),
        reader_(OrThrow(At<Result<std::unique_ptr<Link>>>(wire_, Wire::End::kEast, [&] {
          return kind.make("reader", wire_.Address(Wire::End::kEast));
        }))) {
    Fill({source_, 0, kBytes}, 1);
    OrThrow(owner_->Register(source_));
    OrThrow(reader_->Register(sink_));
  }
  ~Rig() {
    reader_->Shutdown();
    owner_->Shutdown();
  }

  Wire& wire() { return wire_; }

  Result<Made> Connect() {
    ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Dialing> dialing, Dial(*reader_, "owner"));
    ONECOPY_ASSIGN_OR_RETURN(Link::Accepted accepted, Accept(*owner_, "reader", dialing->offer()));
    std::promise<Result<std::shared_ptr<Connection>>> established;
    dialing->Establish(wire_.Address(Wire::End::kWest), accepted.answer,
                       [&](auto connection) { established.set_value(std::move(connection)); });
    ONECOPY_ASSIGN_OR_RETURN(auto reader, established.get_future().get());
    return Made{std::move(accepted.connection), std::move(reader)};
  }

  static Result<RemoteKey> Export(const Made& made, const Span& span) {
    std::promise<Result<RemoteKey>> exported;
    made.owner->Export(span, [&](Result<RemoteKey> key) { exported.set_value(std::move(key)); });
    return exported.get_future().get();
  }

  // All of the source, piece by piece; what the first piece that failed said.
  Status Read(const Made& made, const RemoteKey& key) {
    std::vector<std::future<Status>> pieces;
    for (uint64_t at = 0; at < kBytes; at += kPiece) {
      auto done = std::make_shared<std::promise<Status>>();
      pieces.push_back(done->get_future());
      made.reader->Get(
          {kChannel, &key, at, {sink_, at, kPiece}},
          [done](Status status, const StepList&, unsigned) { done->set_value(std::move(status)); });
    }
    Status failure;
    for (auto& piece : pieces) {
      Status status = piece.get();
      if (failure.ok()) failure = std::move(status);
    }
    return failure;
  }
  Status ConnectAndRead() {
    ONECOPY_ASSIGN_OR_RETURN(const Made made, Connect());
    ONECOPY_ASSIGN_OR_RETURN(const RemoteKey key, Export(made, {source_, 0, kBytes}));
    Fill({sink_, 0, kBytes}, 2);
    ONECOPY_RETURN_IF_ERROR(Read(made, key));
    const bool right = FirstWrong({sink_, 0, kBytes}, 1) == kBytes;
    made.reader->Close({Code::kCancelled, "TEST", "no longer needed"});
    return right ? OkStatus() : Status(Code::kDataLoss, "TEST", "the bytes are wrong");
  }
  const RegionRef& source() const { return source_; }

 private:
  Wire wire_{200};
  const RegionRef source_;
  const RegionRef sink_;
  const std::unique_ptr<Link> owner_;
  const std::unique_ptr<Link> reader_;
};

// What did not go as it should around one cut, of a connection that is idle or busy.
std::vector<std::string> Survive(const Kind& kind, std::chrono::seconds length, Lost lost,
                                 bool busy) {
  std::vector<std::string> wrong;
  const auto note = [&](const std::string& what, const Status& status) {
    if (!status.ok()) wrong.push_back(what + ": " + status.ToString());
  };
  try {
    Rig rig(kind);
    const Made made = OrThrow(rig.Connect());
    const RemoteKey key = OrThrow(Rig::Export(made, {rig.source(), 0, kBytes}));
    note("before the cut", rig.Read(made, key));
    std::atomic<bool> whole = false;
    std::future<Status> reading;
    if (busy) {
      reading = std::async(std::launch::async, [&] {
        Status status;
        while (status.ok() && !whole) status = rig.Read(made, key);
        return status;
      });
    }
    if (lost != Lost::kFromReader) rig.wire().Cut(Wire::End::kWest);
    if (lost != Lost::kFromOwner) rig.wire().Cut(Wire::End::kEast);
    std::this_thread::sleep_for(length);  // this is the cut
    // Whoever lasts longer than any link waits has noticed by itself, at both ends.
    if (length >= 33s && !made.ended()) wrong.push_back("one end has not noticed");
    whole = true;
    rig.wire().Mend(Wire::End::kWest);
    rig.wire().Mend(Wire::End::kEast);
    Status outcome = busy ? reading.get() : rig.Read(made, key);
    if (!outcome.ok()) {
      if (outcome.code() != Code::kUnavailable) note("during the cut", outcome);
      WaitUntil("both ends have ended", [&] { return made.ended(); });
      note("the next connection", rig.ConnectAndRead());
    }
    note("another connection", rig.ConnectAndRead());
  } catch (const std::exception& error) {
    wrong.push_back(error.what());
  }
  return wrong;
}

}  // namespace

TEST_CASE("both ends of a link notice a cut of any length and direction, and connect anew") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const Kind kind = GENERATE(values<Kind>({{"tcp", MakeTcp}, {"ucx over sockets", MakeUcx}}));
  if (const auto ucx = shim::LoadUcx(); kind.name != "tcp" && !ucx.ok()) {
    ONECOPY_SKIP(ucx.status().message());
  }
  struct Cut {
    std::string name;
    std::future<std::vector<std::string>> wrong;
  };
  std::vector<Cut> cuts;
  // Under AddressSanitizer as many at a time would say more of the machine than of the cuts.
  using Lengths = std::vector<std::chrono::seconds>;
  for (const auto length : kAddressSanitizer ? Lengths{2s, 33s} : Lengths{2s, 10s, 20s, 33s, 60s}) {
    for (const Lost lost : {Lost::kFromOwner, Lost::kFromReader, Lost::kBothWays}) {
      for (const bool busy : {false, true}) {
        cuts.push_back({kind.name + ", " + std::to_string(length.count()) + " s, packets lost " +
                            NameOf(lost) + (busy ? ", busy" : ", idle"),
                        std::async(std::launch::async, Survive, kind, length, lost, busy)});
      }
    }
  }
  for (Cut& cut : cuts) {
    const std::vector<std::string> wrong = cut.wrong.get();
    std::ostringstream text;
    for (const std::string& line : wrong) text << "\n  " << line;
    INFO(cut.name << ":" << text.str());
    CHECK(wrong.empty());
  }
}
