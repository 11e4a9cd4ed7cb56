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
  std::vector<std::byte> plan, ledger;
  std::vector<uint64_t> weight_checksums;
  uint64_t weight_bytes = 0;
  std::vector<std::byte> records;

  Contents contents() const { return {plan, ledger, weight_checksums, weight_bytes, records}; }
  void set(const Records& of) {
    check_records(of, hex(content_hash(contents())));
    records = encode_records(of);
  }
};

Frame make_frame(const plan::Plan& plan, const Records& records, const Watch& watch) {
  Frame frame;
  frame.plan = encode_plan(plan);
  frame.ledger = encode_ledger(plan);
  check_readable(plan, frame.plan, frame.ledger);
  ChunkChecksums chunks;
  for_each_weight_piece(plan, watch, [&](std::span<const std::byte> piece) {
    chunks.add(piece);
    frame.weight_bytes += piece.size();
  });
  frame.weight_checksums = chunks.finish();
  frame.set(records);
  return frame;
}

// Calls write(bytes) for the pieces of the file, in order.
template <class Write>
void for_each_piece(const plan::Plan& plan, const Frame& frame, const Watch& watch, Write write) {
  const std::vector<std::byte> head = file_head(frame.contents());
  write(std::span<const std::byte>(head));
  for_each_weight_piece(plan, watch, write);
  write(std::span<const std::byte>(frame.records));
}

void write_file(const fs::path& path, const plan::Plan& plan, Frame frame, const Watch& watch,
                const RecordsOf& records_of) {
  const uint64_t head_bytes = file_head(frame.contents()).size();
  WholeFile file({path, "engine", head_bytes + frame.weight_bytes + frame.records.size()});
  for_each_piece(plan, frame, watch, [&](std::span<const std::byte> piece) { file.write(piece); });
  if (records_of) {  // which stand at the end: the head has their size and checksum
    frame.set(records_of(file.temporary()));
    file.seek(head_bytes + frame.weight_bytes);
    file.write(frame.records);
    file.seek(0);
    file.write(file_head(frame.contents()));
  }
  file.sync();
  file.commit();
}

}  // namespace

std::vector<std::byte> engine_bytes(const plan::Plan& plan, const Records& records) {
  const Frame frame = make_frame(plan, records, Watch());
  std::vector<std::byte> bytes;
  for_each_piece(plan, frame, Watch(), [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

void write_engine(const fs::path& path, const plan::Plan& plan, const Watch& watch,
                  const RecordsOf& records_of) {
  write_file(path, plan, make_frame(plan, {}, watch), watch, records_of);
}

void stamp_certificate(const fs::path& path, const Certificate& certificate, const Watch& watch) {
  const auto file = read_engine(path);
  check_weights(*file);
  Frame frame = [&] {
    try {
      Records records = file->records;
      records.certificate = certificate;
      return make_frame(file->plan, records, watch);
    } catch (const Error& error) {
      throw Error(error.code(), file->name + " was not stamped: " + error.what());
    }
  }();
  write_file(path, file->plan, std::move(frame), watch, {});
}

}  // namespace vernier::engine
