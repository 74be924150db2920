// The engine's parts, for those of them that work on many.
#pragma once

namespace onecopy::engine {

struct Context;
class Borrower;
class Buffers;
class Catalog;
class Checksums;
class Connections;
class Grants;
class Lender;
class Mirrors;
class Openings;
class Owners;
class PathRates;
class Peers;
class ProbeSlabs;
class Probes;
class Registrations;
class Rings;
class Series;
class Sessions;
class Slots;
class Tickets;
class Transfers;
struct Buffer;
struct TransferRecord;

// Owned by the engine; all outlive every transfer.
struct Parts {
  Context& context;
  Sessions& sessions;
  Owners& owners;
  Buffers& buffers;
  Grants& grants;
  Catalog& catalog;
  Peers& peers;
  Connections& connections;
  Registrations& registrations;
  Slots& slots;
  Checksums& checksums;
  Tickets& tickets;
  Transfers& transfers;
  Mirrors& mirrors;
  Probes& probes;
  ProbeSlabs& probe_slabs;
  Lender& lender;
  Borrower& borrower;
  Openings& openings;
  Rings& rings;
  PathRates& path_rates;
  Series& series;
};

}  // namespace onecopy::engine
