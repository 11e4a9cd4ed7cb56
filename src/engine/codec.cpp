// Plans and records to bytes and back: see codec.h. What they are made of: fields.h.
#include "engine/codec.h"

#include <array>
#include <bit>
#include <concepts>

#include "engine/fields.h"
#include "engine/format.h"

namespace vernier::engine {
namespace {

struct Writer {
  static constexpr bool kWrites = true;
  std::vector<std::byte> bytes;

  template <class... T>
  void operator()(const T&... items) {
    (put(items), ...);
  }

 private:
  void put(bool v) { put(static_cast<uint8_t>(v)); }
  template <std::integral T>
  void put(T v) {
    const auto bits = static_cast<uint64_t>(v);
    for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  void put(double v) { put(std::bit_cast<uint64_t>(v)); }
  template <StoredEnum E>
  void put(E v) {
    put(static_cast<uint8_t>(v));
  }
  void put(OpKind v) { put(std::string(name(v))); }
  void put(LedgerState v) { put(std::string(name(v))); }
  void put(const Dim& v) { put(v.str()); }
  void put(const std::string& v) {
    put_count(v.size());
    const auto view = std::as_bytes(std::span(v));
    bytes.insert(bytes.end(), view.begin(), view.end());
  }
  void put(const AttrBytes& v) {
    put_count(v.size());
    bytes.insert(bytes.end(), v.begin(), v.end());
  }
  void put(const Tensor& v) { put(static_cast<uint64_t>(v.bytes())); }
  template <class T>
  void put(const std::vector<T>& v) {
    put_count(v.size());
    for (const T& item : v) put(item);
  }
  template <class T, size_t N>
  void put(const std::array<T, N>& v) {
    put_count(N);
    for (const T& item : v) put(item);
  }
  template <class T>
  requires std::is_class_v<T>
  void put(const T& v) { fields(*this, v); }
  void put_count(size_t count) {
    VERNIER_ASSERT(count <= UINT32_MAX);
    put(static_cast<uint32_t>(count));
  }
};

class Reader {
 public:
  static constexpr bool kWrites = false;
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... items) {
    (get(items), ...);
  }
  void check_at_end() const {
    if (at_ != bytes_.size()) fail(std::to_string(bytes_.size() - at_) + " bytes too many");
  }
  std::vector<uint64_t> blob_bytes;

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kInput, "at byte " + std::to_string(at_) + ": " + what);
  }
  size_t left() const { return bytes_.size() - at_; }
  // Items are decoded one by one, so a wrong count costs no memory; each takes at least a byte.
  size_t count() {
    uint32_t n = 0;
    get(n);
    if (n > left()) {
      fail("a list of " + std::to_string(n) + " items in the last " + std::to_string(left()) +
           " bytes");
    }
    return n;
  }
  void get(bool& v) {
    uint8_t number = 0;
    get(number);
    if (number > 1) fail("neither 0 nor 1 but " + std::to_string(number));
    v = number == 1;
  }
  template <std::integral T>
  void get(T& v) {
    if (left() < sizeof(T)) fail("the section ends inside a number");
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) bits |= static_cast<uint64_t>(bytes_[at_++]) << (8 * i);
    v = static_cast<T>(bits);
  }
  void get(double& v) {
    uint64_t bits = 0;
    get(bits);
    v = std::bit_cast<double>(bits);
  }
  template <StoredEnum E>
  void get(E& v) {
    uint8_t number = 0;
    get(number);
    if (number > static_cast<uint8_t>(last_of(v))) {
      fail("unknown type or kind " + std::to_string(number));
    }
    v = static_cast<E>(number);
  }
  void get(OpKind& v) {
    std::string text;
    get(text);
    const auto kind = parse_op_kind(text);
    if (!kind) fail("operator '" + text + "' is not one of this version of Vernier");
    v = *kind;
  }
  void get(LedgerState& v) {
    std::string text;
    get(text);
    const auto state = parse_ledger_state(text);
    if (!state) fail("'" + text + "' is not a state of a ledger row");
    v = *state;
  }
  void get(Dim& v) {
    std::string text;
    get(text);
    try {
      v = Dim::parse(text);
    } catch (const Error& error) {
      fail(error.what());
    }
    if (v.str() != text) fail("size expression '" + text + "' should be written " + v.str());
  }
  void get(std::string& v) {
    const size_t n = count();
    v.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
    at_ += n;
  }
  void get(AttrBytes& v) {
    const size_t n = count();
    const auto view = bytes_.subspan(at_, n);
    v.assign(view.begin(), view.end());
    at_ += n;
  }
  void get(Tensor&) { get(blob_bytes.emplace_back()); }
  template <class T>
  void get(std::vector<T>& v) {
    const size_t n = count();
    for (size_t i = 0; i < n; ++i) get(v.emplace_back());
  }
  template <class T, size_t N>
  void get(std::array<T, N>& v) {
    if (const size_t n = count(); n != N) {
      fail(std::to_string(n) + " items where " + std::to_string(N) + " are expected");
    }
    for (T& item : v) get(item);
  }
  template <class T>
  requires std::is_class_v<T>
  void get(T& v) { fields(*this, v); }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

// A list of one or none.
template <class T>
std::vector<T> listed(const std::optional<T>& item) {
  return item ? std::vector<T>{*item} : std::vector<T>{};
}

}  // namespace

std::vector<std::byte> encode_plan(const plan::Plan& plan) {
  Writer writer;
  writer(plan);
  return std::move(writer.bytes);
}
std::vector<std::byte> encode_ledger(const plan::Plan& plan) {
  Writer writer;
  writer(plan.ledger);
  return std::move(writer.bytes);
}
std::vector<std::byte> encode_records(const Records& records) {
  if (records.empty()) return {};
  Writer writer;
  writer(kRecordsVersion, listed(records.certificate), listed(records.canary));
  return std::move(writer.bytes);
}

DecodedPlan decode_plan(std::span<const std::byte> section) {
  DecodedPlan decoded;
  Reader reader(section);
  reader(decoded.plan);
  reader.check_at_end();
  decoded.blob_bytes = std::move(reader.blob_bytes);
  return decoded;
}
std::vector<plan::LedgerRow> decode_ledger(std::span<const std::byte> section) {
  std::vector<plan::LedgerRow> ledger;
  Reader reader(section);
  reader(ledger);
  reader.check_at_end();
  return ledger;
}

std::optional<Records> decode_records(std::span<const std::byte> section) {
  uint32_t version = 0;
  std::vector<Certificate> certificates;
  std::vector<Canary> canaries;
  Reader reader(section);
  reader(version);
  if (version != kRecordsVersion) return std::nullopt;
  reader(certificates, canaries);
  reader.check_at_end();
  if (certificates.size() > 1 || canaries.size() > 1)
    throw Error(ErrorCode::kInput, "more than one certificate or canary");
  Records records;
  if (!certificates.empty()) records.certificate = std::move(certificates[0]);
  if (!canaries.empty()) records.canary = std::move(canaries[0]);
  return records;
}

}  // namespace vernier::engine
