// The stable names of what goes wrong: in errors, refusals, receipts, logs and metrics. Scripts
// match on them, so a name is added, never changed.
#pragma once

#include "onecopy/language.h"  // first

#include <string_view>

namespace onecopy::reasons {

// INVALID_ARGUMENT, OUT_OF_RANGE, ALREADY_EXISTS
inline constexpr std::string_view kBadArgument = "BAD_ARGUMENT";
inline constexpr std::string_view kBadConfig = "BAD_CONFIG";
inline constexpr std::string_view kBadEndpoint = "BAD_ENDPOINT";
inline constexpr std::string_view kBadFormat = "BAD_FORMAT";
inline constexpr std::string_view kBadHandle = "BAD_HANDLE";
inline constexpr std::string_view kBadName = "BAD_NAME";
inline constexpr std::string_view kBadPointer = "BAD_POINTER";
inline constexpr std::string_view kBadPolicy = "BAD_POLICY";
inline constexpr std::string_view kBadSize = "BAD_SIZE";
inline constexpr std::string_view kNameTaken = "NAME_TAKEN";
inline constexpr std::string_view kRangeOutOfBuffer = "RANGE_OUT_OF_BUFFER";
inline constexpr std::string_view kRangesOverlap = "RANGES_OVERLAP";
inline constexpr std::string_view kRequestForgotten = "REQUEST_FORGOTTEN";
inline constexpr std::string_view kRequestIdReused = "REQUEST_ID_REUSED";
inline constexpr std::string_view kSizeMismatch = "SIZE_MISMATCH";
inline constexpr std::string_view kTypeMismatch = "TYPE_MISMATCH";

// NOT_FOUND
inline constexpr std::string_view kBufferLost = "BUFFER_LOST";
inline constexpr std::string_view kBufferNotFound = "BUFFER_NOT_FOUND";
inline constexpr std::string_view kDeviceNotFound = "DEVICE_NOT_FOUND";
inline constexpr std::string_view kFileNotFound = "FILE_NOT_FOUND";
inline constexpr std::string_view kGrantNotFound = "GRANT_NOT_FOUND";
inline constexpr std::string_view kPeerNotFound = "PEER_NOT_FOUND";
inline constexpr std::string_view kTransferNotFound = "TRANSFER_NOT_FOUND";
inline constexpr std::string_view kWatchNotFound = "WATCH_NOT_FOUND";

// PERMISSION_DENIED, UNAUTHENTICATED
inline constexpr std::string_view kAccessDenied = "ACCESS_DENIED";
inline constexpr std::string_view kCertRejected = "CERT_REJECTED";
inline constexpr std::string_view kGrantExpired = "GRANT_EXPIRED";
inline constexpr std::string_view kNoSession = "NO_SESSION";
inline constexpr std::string_view kNotOwner = "NOT_OWNER";

// UNAVAILABLE
inline constexpr std::string_view kDaemonUnreachable = "DAEMON_UNREACHABLE";
inline constexpr std::string_view kDraining = "DRAINING";
inline constexpr std::string_view kLinkDown = "LINK_DOWN";
inline constexpr std::string_view kPeerDown = "PEER_DOWN";
inline constexpr std::string_view kPeerIncompatible = "PEER_INCOMPATIBLE";
inline constexpr std::string_view kSessionLost = "SESSION_LOST";

// DATA_LOSS
inline constexpr std::string_view kChecksumMismatch = "CHECKSUM_MISMATCH";

// FAILED_PRECONDITION
inline constexpr std::string_view kBufferInUse = "BUFFER_IN_USE";
inline constexpr std::string_view kCalledFromCallback = "CALLED_FROM_CALLBACK";
inline constexpr std::string_view kDeviceInUse = "DEVICE_IN_USE";
inline constexpr std::string_view kDriverTooOld = "DRIVER_TOO_OLD";
inline constexpr std::string_view kFileInUse = "FILE_IN_USE";
inline constexpr std::string_view kForked = "FORKED";
inline constexpr std::string_view kGpuLost = "GPU_LOST";
inline constexpr std::string_view kGpuNotPinnable = "GPU_NOT_PINNABLE";
inline constexpr std::string_view kHasHoles = "HAS_HOLES";
inline constexpr std::string_view kHostNotPinnable = "HOST_NOT_PINNABLE";
inline constexpr std::string_view kInsecure = "INSECURE";
inline constexpr std::string_view kNixlMissing = "NIXL_MISSING";
inline constexpr std::string_view kNixlUnknown = "NIXL_UNKNOWN";
inline constexpr std::string_view kNotShareable = "NOT_SHAREABLE";
inline constexpr std::string_view kNotWatched = "NOT_WATCHED";
inline constexpr std::string_view kPidNamespace = "PID_NAMESPACE";
inline constexpr std::string_view kPolicyUnmet = "POLICY_UNMET";
inline constexpr std::string_view kStreamCapturing = "STREAM_CAPTURING";

// DEADLINE_EXCEEDED
inline constexpr std::string_view kDeadline = "DEADLINE";
inline constexpr std::string_view kStalled = "STALLED";
inline constexpr std::string_view kUnconfirmed = "UNCONFIRMED";

// RESOURCE_EXHAUSTED
inline constexpr std::string_view kKeysExhausted = "KEYS_EXHAUSTED";
inline constexpr std::string_view kMemlock = "MEMLOCK";
inline constexpr std::string_view kNoMemory = "NO_MEMORY";
inline constexpr std::string_view kOpenFiles = "OPEN_FILES";
inline constexpr std::string_view kNoSpace = "NO_SPACE";
inline constexpr std::string_view kQuota = "QUOTA";

// ABORTED
inline constexpr std::string_view kMemoryFault = "MEMORY_FAULT";
inline constexpr std::string_view kOwnerDied = "OWNER_DIED";
inline constexpr std::string_view kPeerRestarted = "PEER_RESTARTED";

// CANCELLED
inline constexpr std::string_view kCancelled = "CANCELLED";

// INTERNAL, UNKNOWN, UNIMPLEMENTED
inline constexpr std::string_view kInternal = "INTERNAL";
inline constexpr std::string_view kIo = "IO_ERROR";
inline constexpr std::string_view kNotServed = "NOT_SERVED";

// Why a memory, link or device is not viable, or a path was passed over.
inline constexpr std::string_view kCompatibilityMode = "COMPATIBILITY_MODE";
inline constexpr std::string_view kDriverFailed = "DRIVER_FAILED";
inline constexpr std::string_view kEmulated = "EMULATED";
inline constexpr std::string_view kFileSystem = "FILE_SYSTEM";
inline constexpr std::string_view kLinkMissing = "LINK_MISSING";
inline constexpr std::string_view kLinkVersions = "LINK_VERSIONS";
inline constexpr std::string_view kMoreCopies = "MORE_COPIES";
inline constexpr std::string_view kNicUnreachable = "NIC_UNREACHABLE";
inline constexpr std::string_view kNoCuFile = "NO_CUFILE";
inline constexpr std::string_view kNoDriver = "NO_DRIVER";
inline constexpr std::string_view kNoGds = "NO_GDS";
inline constexpr std::string_view kNoGpu = "NO_GPU";
inline constexpr std::string_view kNoNvidiaFs = "NO_NVIDIA_FS";
inline constexpr std::string_view kNoPeerAccess = "NO_PEER_ACCESS";
inline constexpr std::string_view kNotOnePass = "NOT_ONE_PASS";
inline constexpr std::string_view kNoRdmaDevice = "NO_RDMA_DEVICE";
inline constexpr std::string_view kNotApplicable = "NOT_APPLICABLE";
inline constexpr std::string_view kNotRequested = "NOT_REQUESTED";
inline constexpr std::string_view kNotYetKnown = "NOT_YET_KNOWN";
inline constexpr std::string_view kOtherNode = "OTHER_NODE";
inline constexpr std::string_view kSameNode = "SAME_NODE";
inline constexpr std::string_view kSlowerEstimated = "SLOWER_ESTIMATED";
inline constexpr std::string_view kSlowerMeasured = "SLOWER_MEASURED";
inline constexpr std::string_view kSwitchedOff = "SWITCHED_OFF";

}  // namespace onecopy::reasons
