// Polygraphy's JSON: see polygraphy.h.
#include "io/polygraphy.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/whole_file.h"
#include "io/npz.h"

namespace vernier::io {
namespace {

using nlohmann::json;

constexpr const char* kClass = "polygraphy_class";
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInput, where + ": " + what);
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  return result.append(text).append("'");
}

bool is_json(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

std::vector<std::byte> from_base64(std::string_view text, const std::string& where) {
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  while (text.ends_with('=')) text.remove_suffix(1);
  uint32_t bits = 0;
  int held = 0;  // bits that are no byte yet
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) fail(where, "is not base64");
    bits = (bits << 6) | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<std::byte>((bits >> held) & 0xff));
  }
  return bytes;
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = (bits << 8) | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k)
      text += k <= count ? kDigits[(bits >> (18 - 6 * k)) & 0x3f] : '=';
  }
  return text;
}

// With `where` in place of a file's name in messages.
NamedTensors npy_of(std::span<const std::byte> file, const std::string& where) {
  constexpr std::string_view kBegin = "'x': ";
  try {
    return read_arrays_bytes(file, "x");
  } catch (const Error& error) {
    const std::string_view what = error.what();
    fail(where, std::string(what.starts_with(kBegin) ? what.substr(kBegin.size()) : what));
  }
}

// {"array": "…", "polygraphy_class": "ndarray"}, or one inside {"values": …} of a LazyArray.
Tensor array_of(const json& value, const std::string& where) {
  if (!value.is_object()) fail(where, "is no array");
  if (const auto inner = value.find("values"); inner != value.end() && inner->is_object())
    return array_of(*inner, where);
  const auto bytes = value.find("array");
  if (bytes == value.end() || !bytes->is_string()) {
    if (value.contains("tensor"))
      fail(where,
           "is a tensor of PyTorch; save NumPy arrays, without --data-loader-backend-module");
    fail(where, "is no array that Polygraphy saves");
  }
  const std::vector<std::byte> file = from_base64(bytes->get_ref<const std::string&>(), where);
  NamedTensors arrays = npy_of(file, where);
  if (arrays.size() != 1)
    fail(where, "has " + std::to_string(arrays.size()) + " arrays, expected one");
  return std::move(arrays.front().second);
}

// {"input_ids": …, "attention_mask": …}
NamedTensors set_of(const json& set, const std::string& where) {
  if (!set.is_object()) fail(where, "expected an object with an array for each name");
  NamedTensors arrays;
  for (const auto& [name, value] : set.items()) {
    if (name == kClass) continue;
    arrays.emplace_back(name, array_of(value, where + ": array " + quoted(name)));
  }
  return arrays;
}

ArraySets sets_of(const json& list, const std::string& file,
                  const std::function<const json&(const json&, const std::string&)>& set_in) {
  ArraySets sets;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = file + ": iteration " + std::to_string(i);
    sets.push_back(set_of(set_in(list[i], where), where));
  }
  if (sets.empty()) fail(file, "holds no iteration");
  return sets;
}

// {"lst": [[runner, [{"outputs": {…}}, …]], …], "polygraphy_class": "RunResults"}
ArraySets results_of(const json& runners, const std::string& file) {
  if (!runners.is_array() || runners.empty()) fail(file, "holds no results");
  if (runners.size() > 1) {
    std::string names;
    for (const json& runner : runners) {
      if (runner.is_array() && !runner.empty() && runner[0].is_string())
        names += (names.empty() ? "" : ", ") + runner[0].get<std::string>();
    }
    fail(file, "holds the results of " + std::to_string(runners.size()) + " runners (" + names +
                   "), expected one; save those of one runner");
  }
  const json& runner = runners[0];
  if (!runner.is_array() || runner.size() != 2 || !runner[1].is_array())
    fail(file, "expected a runner with its iterations");
  return sets_of(
      runner[1], file, [](const json& iteration, const std::string& where) -> const json& {
        const auto found = iteration.is_object() ? iteration.find("outputs") : iteration.end();
        if (!iteration.is_object() || found == iteration.end()) fail(where, "has no outputs");
        return *found;
      });
}

std::string result_json(const NamedTensors& arrays, const std::string& file) {
  std::string text = R"({"outputs": {)";
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto& [name, tensor] = arrays[i];
    const std::string array = to_base64(npy_bytes(tensor, file + ": array " + quoted(name)));
    if (i > 0) text += ", ";
    text += json(name).dump(-1, ' ', false, json::error_handler_t::replace);
    text += R"(: {"values": {"array": ")";
    text += array;
    text += R"(", "polygraphy_class": "ndarray"}, "polygraphy_class": "LazyArray"})";
  }
  return text + R"(}, "runtime": null, "runner_name": "vernier", )" +
         R"("polygraphy_class": "IterationResult"})";
}

}  // namespace

bool is_json_file(const std::filesystem::path& path) {
  std::error_code error;  // opening a pipe would wait for its writer
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream stream(path, std::ios::binary);
  std::string start(64, '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return is_json(start);
}

ArraySets read_polygraphy_bytes(std::span<const std::byte> bytes, const std::string& name) {
  const std::string file = quoted(name);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const json root = json::parse(text, text + bytes.size(), nullptr, false);
  if (root.is_discarded())
    fail(file,
         "is damaged: it begins like JSON and is none. Expected an .npz file, or what "
         "Polygraphy saves with --save-inputs or --save-outputs");
  const auto itself = [](const json& set, const std::string&) -> const json& { return set; };
  if (root.is_array()) return sets_of(root, file, itself);
  if (const auto runners = root.is_object() ? root.find("lst") : root.end();
      root.is_object() && runners != root.end())
    return results_of(*runners, file);
  return sets_of(json::array({root}), file, itself);
}

ArraySets read_polygraphy(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return read_polygraphy_bytes(file->bytes(), path.string());
}

void write_polygraphy(const std::filesystem::path& path, const ArraySets& results) {
  const std::string file = quoted(path.string());
  WholeFile made({path, "arrays", 0});
  const auto write = [&](const std::string& text) { made.write(std::as_bytes(std::span(text))); };
  write(R"({"lst": [["vernier", [)");
  for (size_t i = 0; i < results.size(); ++i) {
    write(i > 0 ? ",\n" : "\n");
    write(result_json(results[i], file));
  }
  write("\n]]], \"polygraphy_class\": \"RunResults\"}\n");
  made.commit();
}

}  // namespace vernier::io
