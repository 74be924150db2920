// Names of the metadata that goes with calls.
#pragma once

namespace onecopy {

// On api.sock: the session's token, as attach.sock gave it.
inline constexpr char kSessionMetadata[] = "onecopy-session";

// Between daemons: the calling node's name. With TLS its certificate must be for that name.
inline constexpr char kNodeMetadata[] = "onecopy-node";

// Where gRPC carries the details of an error: a google.rpc.Status.
inline constexpr char kStatusDetailsMetadata[] = "grpc-status-details-bin";

}  // namespace onecopy
