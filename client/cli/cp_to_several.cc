#include "client/cli/cp_to_several.h"

#include <algorithm>
#include <utility>

#include "client/cli/copy_file.h"
#include "client/cli/interrupt.h"
#include "client/cli/made_buffer.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/report.h"
#include "onecopy/broadcast.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

Status BadBraces(const std::string& destination, const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadEndpoint, Quote(destination) + " " + why,
          "write '{a,b,c}:NAME', in quotes, with a name for each node"};
}

Status CopyFileToSeveral(Session& session, Client& client, const ParsedEndpoint& source,
                         const std::vector<ParsedEndpoint>& buffers,
                         const FileCopyOptions& options) {
  const auto moves = CopyFileToAll(client, source, buffers, options);
  if (!moves.ok()) return moves.status();
  Json copies = Json::array();
  for (const Move& move : *moves) {
    if (session.json()) {
      copies.push_back(ToJson(move));
    } else if (!session.quiet()) {
      PrintReceipt(session.out(), move);
    }
  }
  if (session.json()) Print(session.out(), Json{{"copies", std::move(copies)}});
  return OkStatus();
}

TransferState StateOf(const Status& outcome) {
  if (outcome.ok()) return TransferState::kSucceeded;
  return outcome.code() == Code::kCancelled ? TransferState::kCancelled : TransferState::kFailed;
}

Json CopyToJson(const Move& move, const BroadcastCopy& copy) {
  Json document = ToJson(move);
  document.erase("id");  // it was several transfers
  Json origins = Json::array();
  for (const BroadcastOrigin& origin : copy.origins) {
    origins.push_back({{"from", origin.from},
                       {"bytes", origin.bytes},
                       {"left", origin.left.ok() ? Json(nullptr) : ToJson(origin.left)["error"]}});
  }
  document["origins"] = std::move(origins);
  document["error"] = copy.outcome.ok() ? Json(nullptr) : ToJson(copy.outcome)["error"];
  return document;
}

void PrintCopy(std::ostream& out, const Move& move, const BroadcastCopy& copy) {
  if (copy.outcome.ok()) {
    PrintReceipt(out, move);
  } else {
    out << Printable(move.source) << " -> " << Printable(move.destination) << "\n  failed    "
        << Printable(copy.outcome.ToString()) << '\n';
  }
  for (const BroadcastOrigin& origin : copy.origins) {
    out << "  from      " << Printable(origin.from) << ", " << FormatBytes(origin.bytes);
    if (!origin.left.ok()) out << "; then passed over: " << Printable(origin.left.ToString());
    out << '\n';
  }
}

// What the command ends with: OK if all have it.
Status OutcomeOfAll(const std::vector<BroadcastCopy>& copies) {
  const auto failed = [](const BroadcastCopy& copy) { return !copy.outcome.ok(); };
  const auto count = std::count_if(copies.begin(), copies.end(), failed);
  if (count == 0) return OkStatus();
  const Status& first = std::find_if(copies.begin(), copies.end(), failed)->outcome;
  if (copies.size() == 1) return first;
  return first.WithContext(std::to_string(count) + " of " + std::to_string(copies.size()) +
                           " destinations did not get all bytes; the first");
}

// The buffers that --create makes; those that have not got their bytes go again.
class MadeBuffers {
 public:
  explicit MadeBuffers(const Deadline& deadline) : deadline_(deadline) {}

  // `keep`: those that were made stay if another one cannot be made.
  Status Make(Client& client, const std::vector<ParsedEndpoint>& ends, uint64_t bytes,
              const std::string& memory, bool keep) {
    for (const ParsedEndpoint& end : ends) {
      Result<BufferInfo> made =
          deadline_.Within([&] { return MakeBuffer(client, end, bytes, memory); });
      if (!made.ok()) return keep ? made.status() : RemoveAll(client, made.status());
      made_.push_back(std::move(*made));
    }
    return OkStatus();
  }

  // `why`, and what could not be removed.
  Status RemoveAll(Client& client, Status why) const {
    return deadline_.Undo([&] {
      for (const BufferInfo& made : made_) why = Unmake(client, made, why);
      return why;
    });
  }

  // Of the copies that failed, whose outcomes then also say what could not be removed.
  void RemoveFailed(Client& client, std::vector<BroadcastCopy>& copies) const {
    deadline_.Undo([&] {
      for (size_t i = 0; i < made_.size(); ++i) {
        Status& outcome = copies[i].outcome;
        if (!outcome.ok()) outcome = Unmake(client, made_[i], outcome);
      }
    });
  }

 private:
  const Deadline& deadline_;
  std::vector<BufferInfo> made_;  // in the order of the destinations
};

void SendMessages(Client& client, const std::string& message, std::vector<BroadcastCopy>& copies) {
  for (BroadcastCopy& copy : copies) {
    if (!copy.outcome.ok()) continue;
    const Status told = client.SendMessage(
        {.destination = {copy.destination.node, copy.destination.buffer}, .message = message});
    if (told.ok()) continue;
    copy.outcome = told.WithContext("the data was transferred, but the message was not delivered");
  }
}

// What the command ends with; in JSON that is a part of its one document.
Status Show(Session& session, const std::string& source, const std::vector<BroadcastCopy>& copies) {
  const Status outcome = OutcomeOfAll(copies);
  Json shown = Json::array();
  for (const BroadcastCopy& copy : copies) {
    const Move move = {{},         StateOf(copy.outcome), source, copy.destination.ToString(),
                       copy.bytes, copy.receipt,          0};
    if (session.json()) {
      shown.push_back(CopyToJson(move, copy));
    } else if (!session.quiet()) {
      PrintCopy(session.out(), move, copy);
    }
  }
  if (!session.json()) return outcome;
  Json document = outcome.ok() ? Json::object() : ToJson(outcome);
  document["copies"] = std::move(shown);
  Print(session.out(), document);
  session.SetOutcome(outcome.code());
  return OkStatus();
}

Status CopyBufferToSeveral(Session& session, Client& client, const CopiesToSeveral& copies,
                           const ParsedEndpoint& source, const std::vector<ParsedEndpoint>& ends,
                           const Deadline& deadline, const FileCopyOptions& options) {
  BroadcastRequest request;
  request.source = source.ToEndpoint();
  for (const ParsedEndpoint& end : ends) request.destinations.push_back(end.ToEndpoint());
  request.policy = options.policy;
  request.checksum = options.checksum;
  request.trace = options.trace;
  MadeBuffers made(deadline);
  if (!copies.create.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t bytes,
                             deadline.Within([&] { return BytesOf(client, source); }));
    ONECOPY_RETURN_IF_ERROR(made.Make(client, ends, bytes, copies.create, copies.keep_failed));
  }
  ProgressBar bar(session.err(), StderrIsTerminal() && !session.quiet() && !session.json());
  const auto on_update = [&](uint64_t done, uint64_t total) { bar.Update(done, total); };
  const auto broadcast = [&]() -> Result<std::vector<BroadcastCopy>> {
    ONECOPY_ASSIGN_OR_RETURN(request.deadline, deadline.Left());
    return client.Broadcast(request, on_update, options.stop);
  };
  auto done = broadcast();
  bar.Clear();
  if (!done.ok()) {
    return copies.keep_failed ? done.status() : made.RemoveAll(client, done.status());
  }
  if (!copies.keep_failed) made.RemoveFailed(client, *done);
  if (!copies.message.empty()) {
    deadline.Within([&] { SendMessages(client, copies.message, *done); });
  }
  return Show(session, copies.move.source, *done);
}

}  // namespace

Result<std::optional<std::vector<std::string>>> NodesInBraces(const std::string& destination) {
  if (!destination.starts_with('{')) return std::optional<std::vector<std::string>>();
  const size_t end = destination.find("}:");
  if (end == std::string::npos) return BadBraces(destination, "has a { without }:");
  const std::string rest = destination.substr(end + 1);
  std::vector<std::string> all;
  for (size_t at = 1; at <= end;) {
    const size_t comma = std::min(destination.find(',', at), end);
    if (comma == at) return BadBraces(destination, "has a place without a node's name");
    all.push_back(destination.substr(at, comma - at) + rest);
    at = comma + 1;
  }
  return std::optional(std::move(all));
}

Status CopyToSeveral(Session& session, const CopiesToSeveral& copies, const Deadline& deadline,
                     FileCopyOptions file_options) {
  ONECOPY_ASSIGN_OR_RETURN(MoveEnds ends, ParseEnds(copies.move));
  std::vector<ParsedEndpoint> buffers;
  for (const std::string& typed : copies.destinations) {
    ONECOPY_ASSIGN_OR_RETURN(ParsedEndpoint end, ParseEndpoint(typed));
    buffers.push_back(std::move(end));
  }
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, deadline.Within([&] { return session.Connect(); }));
  ONECOPY_ASSIGN_OR_RETURN(ends, LocateFiles(std::move(ends), client.node()));
  const bool from_file = ends.source.kind == Kind::kFile;
  for (const ParsedEndpoint& end : buffers) {
    if (end.kind == Kind::kBuffer && (from_file || ends.source.kind == Kind::kBuffer)) continue;
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "a copy to several destinations needs a file on this node or a buffer as the source, "
            "and buffers as destinations",
            "run one copy for each destination"};
  }
  file_options.stop = interrupt.token();
  if (!from_file) {
    return CopyBufferToSeveral(session, client, copies, ends.source, buffers, deadline,
                               file_options);
  }
  if (!copies.create.empty() || !copies.message.empty()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--create and --message work with one destination of a file, and there are several",
            "leave out these options, or copy to each buffer separately"};
  }
  ONECOPY_ASSIGN_OR_RETURN(file_options, deadline.Next(std::move(file_options)));
  ProgressBar bar(session.err(), StderrIsTerminal() && !session.quiet() && !session.json());
  file_options.on_progress = [&](uint64_t done, std::optional<uint64_t> total) {
    bar.Update(done, total);
  };
  const Status outcome = CopyFileToSeveral(session, client, ends.source, buffers, file_options);
  bar.Clear();
  return outcome;
}

}  // namespace onecopy::cli
