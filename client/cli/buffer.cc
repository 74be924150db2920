#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/endpoint.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

Result<Endpoint> ParseBuffer(const std::string& typed) {
  ONECOPY_ASSIGN_OR_RETURN(const ParsedEndpoint parsed, ParseEndpoint(typed));
  if (parsed.kind == ParsedEndpoint::Kind::kBuffer) return parsed.ToEndpoint();
  return Status(Code::kInvalidArgument, reasons::kBadEndpoint, Quote(typed) + " is not a buffer",
                "write NAME, or NODE:NAME");
}

// A whole buffer.
Result<Endpoint> ParseWhole(const std::string& typed) {
  ONECOPY_ASSIGN_OR_RETURN(Endpoint endpoint, ParseBuffer(typed));
  if (!endpoint.offset_bytes.has_value()) return endpoint;
  return Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                Quote(typed) + " is a range, and this command takes whole buffers",
                "leave out the range");
}

std::string RegisteredBy(const BufferInfo& buffer) {
  if (!buffer.view_of.empty()) return "view of " + buffer.view_of;
  if (!buffer.registered) return "daemon";
  return buffer.form.empty() ? "client" : "client, " + buffer.form;
}

void PrintBuffer(std::ostream& out, const BufferInfo& buffer) {
  Table table({{""}, {""}});
  table.Add({"buffer", buffer.node + ":" + buffer.name});
  table.Add({"id", buffer.id});
  table.Add(
      {"memory", buffer.device.empty() ? buffer.memory : buffer.memory + " " + buffer.device});
  table.Add({"size", FormatBytes(buffer.bytes) + " (" + std::to_string(buffer.bytes) + " bytes)"});
  if (buffer.array) table.Add({"array", ToString(*buffer.array)});
  if (!buffer.view_of.empty()) {
    table.Add({"memory of", buffer.view_of + ", from byte " + std::to_string(buffer.offset_bytes)});
  }
  table.Add({"owner", buffer.owner});
  table.Add({"belongs to", RegisteredBy(buffer)});
  table.Add({"created", FormatTime(buffer.create_time)});
  table.Add({"transfers", std::to_string(buffer.transfers)});
  if (buffer.keep_arrivals) table.Add({"arrivals", "kept for `onecopy buffer watch`"});
  table.PrintRows(out, "");
}

Status Create(Session& session, const std::string& name, const std::string& size,
              const std::string& memory, bool keep_arrivals) {
  ONECOPY_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseWhole(name));
  CreateBufferRequest request;
  ONECOPY_ASSIGN_OR_RETURN(request.bytes, ParseBytes(size));
  request.node = endpoint.node;
  request.name = endpoint.buffer;
  request.memory = memory;
  request.keep_arrivals = keep_arrivals;
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const BufferInfo buffer, client.CreateBuffer(request));
  if (session.json()) {
    Print(session.out(), ToJson(buffer));
  } else if (!session.quiet()) {
    session.out() << "created " << Printable(buffer.node + ":" + buffer.name) << ", "
                  << FormatBytes(buffer.bytes) << " of " << Printable(buffer.memory)
                  << (buffer.device.empty() ? "" : " on " + Printable(buffer.device)) << '\n';
  }
  return OkStatus();
}

// Of as many bytes as the range has, without gaps.
Result<ArrayShape> MakeShape(const std::string& dtype, const std::vector<uint64_t>& shape,
                             const Endpoint& range) {
  ArrayShape array{dtype, 0, shape, {}};
  uint64_t elements = 1;
  bool fits = range.bytes.has_value() && !shape.empty();
  for (const uint64_t count : shape) {
    fits = fits && count > 0 && elements <= *range.bytes / count;
    if (fits) elements *= count;
  }
  if (!fits || *range.bytes % elements != 0) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  "the range does not divide into whole bytes for each element of the shape",
                  "write the range in full, as NAME@4096+64MiB, and a shape that divides it");
  }
  array.item_bytes = *range.bytes / elements;
  array.strides = CompactStrides(array);
  return array;
}

Status View(Session& session, const std::string& name, const std::string& typed,
            const std::string& dtype, const std::vector<uint64_t>& shape) {
  ViewRequest request;
  request.name = name;
  ONECOPY_ASSIGN_OR_RETURN(request.range, ParseBuffer(typed));
  if (!shape.empty() || !dtype.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(request.array, MakeShape(dtype, shape, request.range));
    request.range.bytes.reset();
  }
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const BufferInfo view, client.CreateView(request));
  if (session.json()) {
    Print(session.out(), ToJson(view));
  } else if (!session.quiet()) {
    session.out() << "named " << Printable(view.node + ":" + view.name) << ", "
                  << FormatBytes(view.bytes) << " of buffer " << Printable(view.view_of)
                  << " from byte " << view.offset_bytes << '\n';
  }
  return OkStatus();
}

Status ListBuffers(Session& session, const std::string& node) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const auto buffers, client.ListBuffers(node));
  if (session.json()) {
    Print(session.out(), ListToJson(buffers));
    return OkStatus();
  }
  Table table({{"NAME"},
               {"NODE"},
               {"SIZE", Table::Align::kRight},
               {"ARRAY"},
               {"MEMORY"},
               {"DEVICE"},
               {"OWNER"},
               {"BELONGS TO"},
               {"TRANSFERS", Table::Align::kRight}});
  for (const BufferInfo& buffer : buffers) {
    table.Add({buffer.name, buffer.node, FormatBytes(buffer.bytes),
               buffer.array ? ToString(*buffer.array) : "", buffer.memory, buffer.device,
               buffer.owner, RegisteredBy(buffer), std::to_string(buffer.transfers)});
  }
  table.Print(session.out());
  return OkStatus();
}

Status ShowBuffer(Session& session, const std::string& name) {
  ONECOPY_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseWhole(name));
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const BufferInfo buffer,
                           client.GetBuffer(endpoint.node, endpoint.buffer));
  if (session.json()) {
    Print(session.out(), ToJson(buffer));
  } else {
    PrintBuffer(session.out(), buffer);
  }
  return OkStatus();
}

Status Remove(Session& session, const std::vector<std::string>& names, bool force) {
  std::vector<Endpoint> endpoints;
  for (const std::string& name : names) {
    ONECOPY_ASSIGN_OR_RETURN(Endpoint endpoint, ParseWhole(name));
    endpoints.push_back(std::move(endpoint));
  }
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  Json removed = Json::array();
  for (const Endpoint& endpoint : endpoints) {
    ONECOPY_RETURN_IF_ERROR(client.DeleteBuffer(endpoint.buffer, force, endpoint.node));
    removed.push_back(endpoint.buffer);
    if (!session.json() && !session.quiet()) {
      session.out() << "removed "
                    << Printable((endpoint.node.empty() ? client.node() : endpoint.node) + ":" +
                                 endpoint.buffer)
                    << '\n';
    }
  }
  if (session.json()) Print(session.out(), Json{{"removed", std::move(removed)}});
  return OkStatus();
}

Status Sum(Session& session, const std::string& typed, bool tree) {
  ONECOPY_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseBuffer(typed));
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const BufferSum sum, client.SumBuffer(endpoint));
  if (session.json()) {
    Print(session.out(), Json{{"range", endpoint.ToString()},
                              {"bytes", sum.bytes},
                              {"algorithm", sum.algorithm},
                              {"value", sum.value},
                              {"tree", sum.tree}});
  } else {
    session.out() << Printable(tree ? sum.tree : sum.value) << "  " << Printable(typed) << '\n';
  }
  return OkStatus();
}

}  // namespace

void AddBuffer(CLI::App& program, Command& chosen) {
  CLI::App* group = program.add_subcommand("buffer", "Named buffers");
  group->require_subcommand(1);
  struct Options {
    bool tree = false;
    std::string name;
    std::vector<std::string> names;
    std::string size;
    std::string memory = "host";
    std::string node;
    std::string range;
    std::string dtype;
    std::vector<uint64_t> shape;
    bool force = false;
    bool keep_arrivals = false;
  };
  auto options = std::make_shared<Options>();

  CLI::App* create =
      group->add_subcommand("create",
                            "Let the daemon allocate a buffer; it stays until you remove it "
                            "(without onecopyd --holder, until the daemon ends)");
  create
      ->add_option("NAME", options->name,
                   "NAME, or NODE:NAME: letters, digits, '.', '_' and '-', at most 63")
      ->required();
  create->add_option("--size", options->size, "Size in bytes, as in --size 1GiB")
      ->type_name("SIZE")
      ->required();
  create
      ->add_option("--memory", options->memory,
                   "host, or a GPU: cuda:0 (nvidia-smi's order), its PCI address or its UUID")
      ->type_name("MEMORY")
      ->capture_default_str();
  create->add_flag("--keep-arrivals", options->keep_arrivals,
                   "Keep arrivals and their messages for `onecopy buffer watch`");
  create->footer(
      "Example: onecopy buffer create frame --size 1GiB --memory cuda:0\nAnother node must allow "
      "it in its configuration: uid_domain, or create_bytes under [peers].");
  create->callback([options, &chosen] {
    chosen = [options](Session& s) {
      return Create(s, options->name, options->size, options->memory, options->keep_arrivals);
    };
  });

  CLI::App* view = group->add_subcommand(
      "view", "Give a part of a buffer a name, by which others can use only that part");
  view->add_option("NAME", options->name,
                   "Name of the view, by the rules of `onecopy buffer create`")
      ->required();
  view->add_option("RANGE", options->range, "The part of a buffer on this node: NAME@4096+64MiB")
      ->required();
  view->add_option("--shape", options->shape,
                   "Number of elements in each dimension: --shape 1024,4096")
      ->delimiter(',')
      ->type_name("NUMBERS");
  view->add_option("--dtype", options->dtype,
                   "Type of its elements, such as float32; onecopy only passes it on")
      ->type_name("NAME")
      ->needs("--shape");
  view->footer(
      "Example: onecopy buffer view layer0 weights@4096+64MiB --dtype float32 --shape "
      "4096,4096\nThe view is removed with its buffer, or by `onecopy buffer rm VIEW`, which keeps "
      "the memory.");
  view->callback([options, &chosen] {
    chosen = [options](Session& s) {
      return View(s, options->name, options->range, options->dtype, options->shape);
    };
  });

  CLI::App* list = group->add_subcommand("ls", "List the buffers that you may use");
  list->add_option("NODE", options->node, "Name of a node (else this one)");
  list->footer("Example: onecopy buffer ls west");
  list->callback([options, &chosen] {
    chosen = [options](Session& s) { return ListBuffers(s, options->node); };
  });

  CLI::App* show = group->add_subcommand("show", "Show one buffer");
  show->add_option("BUFFER", options->name, "NAME or NODE:NAME")->required();
  show->footer("Example: onecopy buffer show west:frame");
  show->callback([options, &chosen] {
    chosen = [options](Session& s) { return ShowBuffer(s, options->name); };
  });

  CLI::App* remove = group->add_subcommand("rm", "Remove buffers");
  remove->add_option("NAME", options->names, "NAME, or NODE:NAME")->required();
  remove->add_flag(
      "--force,-f", options->force,
      "Cancel the transfers that use them, revoke their mappings, and remove their views");
  remove->footer("Example: onecopy buffer rm frame --force");
  remove->callback([options, &chosen] {
    chosen = [options](Session& s) { return Remove(s, options->names, options->force); };
  });

  CLI::App* sum = group->add_subcommand("sum", "Checksum of a buffer or of a range of it");
  sum->add_option("BUFFER", options->name, "NAME, NODE:NAME, or a range: NAME@4096+64MiB")
      ->required();
  sum->add_flag("--tree", options->tree,
                "Print xxh3-128-tree, as receipts do, instead of xxh3-128");
  sum->footer("Example: onecopy buffer sum west:frame@0+4096");
  sum->callback([options, &chosen] {
    chosen = [options](Session& s) { return Sum(s, options->name, options->tree); };
  });

  AddArrivals(*group, chosen);
}

}  // namespace onecopy::cli
