#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/endpoint.h"
#include "client/cli/interrupt.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/time.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

// A whole buffer, whose name is typed.
Result<Endpoint> ParseAddress(const std::string& typed) {
  ONECOPY_ASSIGN_OR_RETURN(const ParsedEndpoint parsed, ParseEndpoint(typed));
  const Endpoint endpoint = parsed.ToEndpoint();
  if (parsed.kind == ParsedEndpoint::Kind::kBuffer && !endpoint.offset_bytes) return endpoint;
  return Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                Quote(typed) + " is not a whole buffer", "write NAME, or NODE:NAME");
}

// A line, at once: a reader at the end of a pipe waits for it.
void PrintArrival(Session& session, const Arrival& arrival) {
  if (session.json()) {
    PrintLine(session.out(), ToJson(arrival));
    return;
  }
  std::ostream& out = session.out();
  out << FormatTime(arrival.time) << "  " << Printable(arrival.buffer);
  if (arrival.transfer.empty()) {
    out << "  message";
  } else {
    out << "@" << arrival.range.offset << "+" << arrival.range.bytes << "  "
        << FormatBytes(arrival.bytes) << " by transfer " << Printable(arrival.transfer.str());
  }
  out << "  from " << Printable(arrival.from);
  if (!arrival.message.empty()) out << "  " << Quote(arrival.message);
  out << std::endl;
}

void PrintMissed(Session& session, uint64_t missed) {
  if (missed == 0) return;
  if (session.json()) {
    PrintLine(session.out(), Json{{"missed", missed}});
  } else {
    session.out() << missed << " arrival(s) without a message were not reported: no room"
                  << std::endl;
  }
}

Status Watch(Session& session, const std::string& typed, uint64_t count) {
  ONECOPY_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseAddress(typed));
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  if (!endpoint.node.empty() && endpoint.node != client.node()) {
    return {Code::kUnimplemented, reasons::kNotServed,
            "`watch` works only on the buffer's own node, which is  " + Quote(endpoint.node),
            "run this command there"};
  }
  ONECOPY_ASSIGN_OR_RETURN(ArrivalWatch watch, client.WatchArrivals(endpoint.buffer));
  if (!session.quiet()) {
    session.err() << "watching " << Printable(client.node() + ":" + endpoint.buffer) << std::endl;
  }
  for (uint64_t left = count == 0 ? UINT64_MAX : count; left > 0;) {
    ONECOPY_ASSIGN_OR_RETURN(const ArrivalBatch batch, watch.Wait(interrupt.token(), {}, left));
    PrintMissed(session, batch.missed);
    for (const Arrival& arrival : batch.arrivals) PrintArrival(session, arrival);
    left -= batch.arrivals.size();
  }
  return watch.Close();
}

Status Tell(Session& session, const std::string& typed, const std::string& message) {
  MessageRequest request;
  ONECOPY_ASSIGN_OR_RETURN(request.destination, ParseAddress(typed));
  request.message = message;
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_RETURN_IF_ERROR(client.SendMessage(request));
  if (session.json()) {
    Print(session.out(), Json{{"told", request.destination.ToString()}, {"bytes", message.size()}});
  } else if (!session.quiet()) {
    session.out() << "told " << Printable(typed) << '\n';
  }
  return OkStatus();
}

}  // namespace

void AddArrivals(CLI::App& group, Command& chosen) {
  struct Options {
    std::string buffer;
    std::string message;
    uint64_t count = 0;
  };
  auto options = std::make_shared<Options>();

  CLI::App* watch = group.add_subcommand(
      "watch", "Print the arrivals in one of your buffers and their messages, until Ctrl-C");
  watch->add_option("BUFFER", options->buffer, "NAME of a buffer on this node")->required();
  watch
      ->add_option("--count", options->count,
                   "End after this many arrivals, as in --count 1; 0: never")
      ->type_name("NUMBER");
  watch->footer(
      "Example: onecopy buffer watch frame --json\n"
      "Prints one line for each arrival, or one JSON document with --json. It is ready when it "
      "writes\n`watching` to standard error. A buffer made with --keep-arrivals first prints what "
      "it has kept.");
  watch->callback([options, &chosen] {
    chosen = [options](Session& s) { return Watch(s, options->buffer, options->count); };
  });

  CLI::App* tell =
      group.add_subcommand("tell", "Send a message to the watcher of a buffer; no bytes move");
  tell->add_option("BUFFER", options->buffer, "NAME or NODE:NAME")->required();
  tell->add_option("MESSAGE", options->message, "1 to 4,096 bytes")->required();
  tell->footer("Example: onecopy buffer tell west:frame 'request 17 is read'");
  tell->callback([options, &chosen] {
    chosen = [options](Session& s) { return Tell(s, options->buffer, options->message); };
  });
}

}  // namespace onecopy::cli
