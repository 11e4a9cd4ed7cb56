// Writing engine files: see writer.h.
#include "engine/writer.h"

#include <algorithm>
#include <array>

#include "core/hash.h"
#include "core/mapped_file.h"
#include "core/whole_file.h"
#include "engine/codec.h"
#include "engine/format.h"
#include "engine/reader.h"
#include "engine/validate.h"

namespace vernier::engine {
namespace {

namespace fs = std::filesystem;

// Calls write(bytes) for the pieces of each blob and the zeros that align the next one. Pieces of a
// mapped file, such as a model's weights that are stored as they are, do not stay in memory.
template <class Write>
void for_each_weight_piece(const plan::Plan& plan, const Watch& watch, Write write) {
  constexpr std::array<std::byte, kBlobAlignment> kZeros{};
  constexpr size_t kPiece = size_t{1} << 26;  // some tens of milliseconds
  for (const plan::Blob& blob : plan.blobs) {
    const auto bytes = blob.bytes.byte_span();
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      watch.check_time("writing the engine");
      const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      write(piece);
      drop_pages(piece);
    }
    write(std::span(kZeros).first(align_up(bytes.size(), kBlobAlignment) - bytes.size()));
  }
}

// A plan that could not be read back is our bug, and is found here, not by the user of the file.
void check_readable(const plan::Plan& plan, std::span<const std::byte> plan_section,
                    std::span<const std::byte> ledger_section) {
  try {
    check_plan(plan);
    decode_plan(plan_section);
    decode_ledger(ledger_section);
  } catch (const Error& error) {
    assertion_failed("plan can be read back", __FILE__, __LINE__, error.what());
  }
}

// Everything but the weights.
struct Frame {
  std::vector<std::byte> head;  // up to the weights
  uint64_t weight_bytes = 0;
  std::vector<std::byte> certificate;  // after them

  uint64_t bytes() const { return head.size() + weight_bytes + certificate.size(); }
};

Frame make_frame(const plan::Plan& plan, const std::optional<Certificate>& certificate,
                 const Watch& watch) {
  const std::vector<std::byte> plan_section = encode_plan(plan);
  const std::vector<std::byte> ledger_section = encode_ledger(plan);
  check_readable(plan, plan_section, ledger_section);
  Frame frame;
  ChunkChecksums chunks;
  for_each_weight_piece(plan, watch, [&](std::span<const std::byte> piece) {
    chunks.add(piece);
    frame.weight_bytes += piece.size();
  });
  const std::vector<uint64_t> checksums = chunks.finish();
  Contents contents{plan_section, ledger_section, checksums, frame.weight_bytes, {}};
  if (certificate) {
    check_certificate(*certificate, hex(content_hash(contents)));
    frame.certificate = encode_certificate(*certificate);
    contents.certificate = frame.certificate;
  }
  frame.head = file_head(contents);
  return frame;
}

// Calls write(bytes) for the pieces of the file, in order.
template <class Write>
void for_each_piece(const plan::Plan& plan, const Frame& frame, const Watch& watch, Write write) {
  write(std::span<const std::byte>(frame.head));
  for_each_weight_piece(plan, watch, write);
  write(std::span<const std::byte>(frame.certificate));
}

void write_file(const fs::path& path, const plan::Plan& plan, const Frame& frame,
                const Watch& watch) {
  WholeFile file({path, "engine", frame.bytes()});
  for_each_piece(plan, frame, watch, [&](std::span<const std::byte> piece) { file.write(piece); });
  file.sync();
  file.commit();
}

}  // namespace

std::vector<std::byte> engine_bytes(const plan::Plan& plan,
                                    const std::optional<Certificate>& certificate) {
  const Frame frame = make_frame(plan, certificate, Watch());
  std::vector<std::byte> bytes;
  bytes.reserve(frame.bytes());
  for_each_piece(plan, frame, Watch(), [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

void write_engine(const fs::path& path, const plan::Plan& plan, const Watch& watch) {
  write_file(path, plan, make_frame(plan, std::nullopt, watch), watch);
}

void stamp_certificate(const fs::path& path, const Certificate& certificate, const Watch& watch) {
  const auto file = read_engine(path);
  check_weights(*file);
  const Frame frame = [&] {
    try {
      return make_frame(file->plan, certificate, watch);
    } catch (const Error& error) {
      throw Error(error.code(), file->name + " was not stamped: " + error.what());
    }
  }();
  write_file(path, file->plan, frame, watch);
}

}  // namespace vernier::engine
