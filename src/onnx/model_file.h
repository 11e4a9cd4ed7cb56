// Parses the bytes of a model, and makes the checks that need no graph: the file parses, has no
// field unknown to this version, and its operator sets are supported.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "onnx/onnx.pb.h"

namespace vernier::onnx {

/// Supported opset versions of the default domain.
inline constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;

/// Opset version by domain; the default domain is "" ("ai.onnx" is another spelling of it).
using Opsets = std::map<std::string, int64_t>;

/// Parses and checks. Throws Error(kInput): empty, larger than 2 GiB, not a model, damaged, a field
/// of a newer format, sparse initializers.
proto::ModelProto parse_model(std::span<const std::byte> bytes);

/// The operator sets of a model or function. Throws Error(kInput) if the default domain's version
/// is outside [kOldestOpset, kNewestOpset] or a domain is given two versions.
Opsets read_opsets(
    const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>& opset_imports,
    const std::string& where);

/// "" for the default domain under either spelling, else the domain itself.
std::string_view canonical_domain(std::string_view domain);

/// Text from a file for messages: control characters replaced, at most 120 characters, quoted.
std::string quote(std::string_view text);

}  // namespace vernier::onnx
