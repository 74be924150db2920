#include "bench/work/small_mover.h"

#include <thread>
#include <utility>
#include <vector>

#include "bench/daemons/process_facts.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::bench {
namespace {

Result<double> EngineSeconds(const std::optional<pid_t>& pid) {
  if (!pid) return 0.0;  // a daemon that was given
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<ThreadUse> threads, ReadThreads(*pid));
  double seconds = 0;
  for (const ThreadUse& thread : threads)
    seconds += thread.name == "engine" ? thread.cpu_seconds : 0;
  return seconds;
}

class SmallMover final : public Mover {
 public:
  SmallMover(End source, End destination, const SmallParams& params, const Many& many)
      : source_(std::move(source)),
        destination_(std::move(destination)),
        params_(params),
        many_(many) {}

  Status Fill(uint64_t seed) override { return source_.Put(seed); }
  Result<bool> Verify(uint64_t seed) override { return destination_.Holds(seed); }

  Result<Moved> Move() override {
    // Whatever is done for the first few alone is not what this is about.
    for (int i = 0; i < 3; ++i) ONECOPY_RETURN_IF_ERROR(One(0));
    ONECOPY_ASSIGN_OR_RETURN(const double engine, EngineSeconds(params_.from.pid));
    const auto begin = std::chrono::steady_clock::now();
    ONECOPY_ASSIGN_OR_RETURN(Moved moved, MoveAll());
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ONECOPY_ASSIGN_OR_RETURN(const double engine_after, EngineSeconds(params_.from.pid));
    moved.details["engine_cores"] = (engine_after - engine) / took;
    moved.details["microseconds"] = moved.seconds * 1e6;
    ONECOPY_RETURN_IF_ERROR(CheckLast(&moved));
    return moved;
  }

 private:
  Client& client() { return params_.asked_by_reader ? destination_.client() : source_.client(); }

  TransferRequest Piece(uint64_t offset) {
    TransferRequest request{.source = source_.endpoint(), .destination = destination_.endpoint()};
    request.source.offset_bytes = request.destination.offset_bytes = offset;
    request.source.bytes = many_.piece_bytes;
    request.destination.bytes = many_.piece_bytes;
    request.checksum = params_.checksum;
    if (params_.over_grpc) request.request_id = os::RandomHex(16);  // which rings do not carry
    return request;
  }

  Status One(uint64_t offset) {
    ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done, client().RunTransfer(Piece(offset)));
    last_ = done.id;
    return OutcomeOf(done);
  }

  Result<Moved> MoveAll() {
    if (params_.idle.count() > 0) return MoveIdle();
    if (many_.depth == 1) {
      return OneByOne(many_, [this](uint64_t offset) { return One(offset); });
    }
    return AllAtOnce(many_, [this] { return Window(); });
  }

  Result<Moved> MoveIdle() {
    std::vector<double> seconds;
    for (unsigned i = 0; i < many_.count; ++i) {
      std::this_thread::sleep_for(params_.idle);
      const auto begin = std::chrono::steady_clock::now();
      ONECOPY_RETURN_IF_ERROR(One(many_.OffsetOf(i)));
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    // The places that these few have left out.
    for (unsigned i = many_.count; i < many_.slots(); ++i) {
      ONECOPY_RETURN_IF_ERROR(One(many_.OffsetOf(i)));
    }
    return Moved{.seconds = Summarise(std::move(seconds)).median};
  }

  // `depth` under way, each followed by another one as it ends.
  Status Window() {
    std::vector<TransferId> under_way(many_.depth);
    for (unsigned i = 0; i < many_.count + many_.depth; ++i) {
      TransferId& place = under_way[i % many_.depth];
      if (i >= many_.depth) {
        ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done, client().AwaitTransfer(place));
        ONECOPY_RETURN_IF_ERROR(OutcomeOf(done));
        last_ = done.id;
      }
      if (i >= many_.count) continue;
      ONECOPY_ASSIGN_OR_RETURN(const TransferInfo started,
                               client().StartTransfer(Piece(many_.OffsetOf(i))));
      place = started.id;
    }
    return OkStatus();
  }

  Status CheckLast(Moved* moved) {
    ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done, client().GetTransfer(last_));
    moved->details["receipt_microseconds"] = done.receipt.seconds * 1e6;
    const bool by_ring = done.receipt.evidence.contains("submitted");
    if (done.receipt.path == params_.path && by_ring == params_.by_ring) return OkStatus();
    return {Code::kFailedPrecondition, reasons::kPolicyUnmet,
            "the transfers went by " + done.receipt.path + (by_ring ? ", by a ring" : ", by gRPC")};
  }

  End source_;
  End destination_;
  const SmallParams params_;
  const Many many_;
  TransferId last_;
};

class EmptyCalls final : public Mover {
 public:
  EmptyCalls(Client client, const Many& many) : client_(std::move(client)), many_(many) {}

  Status Fill(uint64_t) override { return OkStatus(); }
  Result<bool> Verify(uint64_t) override { return true; }
  Result<Moved> Move() override {
    return OneByOne(many_, [this](uint64_t) { return client_.Ping(); });
  }

 private:
  Client client_;
  const Many many_;
};

}  // namespace

Result<std::unique_ptr<Mover>> MakeSmall(const SmallParams& params, const Many& many) {
  ONECOPY_ASSIGN_OR_RETURN(End source, End::Create(params.from, params.from_memory, many.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(End destination, End::Create(params.to, params.to_memory, many.bytes()));
  return std::unique_ptr<Mover>(
      std::make_unique<SmallMover>(std::move(source), std::move(destination), params, many));
}

Result<std::unique_ptr<Mover>> MakeEmptyCalls(const Node& node, const Many& many) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, node.Connect());
  return std::unique_ptr<Mover>(std::make_unique<EmptyCalls>(std::move(client), many));
}

}  // namespace onecopy::bench
