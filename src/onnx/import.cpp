// Entry points of import: see import.h.
#include "onnx/import.h"

#include "core/error.h"
#include "core/mapped_file.h"
#include "onnx/importer.h"

namespace vernier::onnx {

std::shared_ptr<ir::Graph> import_model_bytes(std::span<const std::byte> bytes,
                                              const std::filesystem::path& external_data_folder,
                                              const ImportOptions& options, ImportReport* report) {
  ImportReport unused;
  proto::ModelProto model = parse_model(bytes);
  return Importer(model, external_data_folder, options, report != nullptr ? *report : unused).run();
}

std::shared_ptr<ir::Graph> import_model(const std::filesystem::path& path,
                                        const ImportOptions& options, ImportReport* report) {
  const auto file = MappedFile::open(path);
  std::filesystem::path folder = path.parent_path();
  if (folder.empty()) folder = ".";
  try {
    Watch(options.limits).check_memory(file->bytes().size(), "reading the model's file");
    return import_model_bytes(file->bytes(), folder, options, report);
  } catch (const Error& error) {
    throw Error(error.code(), "cannot import '" + path.string() + "': " + error.what());
  }
}

}  // namespace vernier::onnx
