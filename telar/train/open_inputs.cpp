#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/normalised.h"
#include "telar/data/source.h"
#include "telar/train/pipeline.h"
#include "telar/train/trained.h"

namespace telar {

namespace {

/// "x is not a JPEG image or …; for a model trained on csv it may be a table".
Error unknown_format(const std::string& path) {
  std::vector<std::string> recognised;
  std::string others;
  for (const SourceType& type : source_types()) {
    if (!type.inputs.open) continue;
    if (type.inputs.recognises) {
      recognised.push_back(type.inputs.described);
    } else {
      others += fmt::format("; for a model trained on {} it may be {}", type.name, type.inputs.described);
    }
  }
  return user_error("{} is not {}{}", path, one_of(recognised), others);
}

/// The first number that is not from 0 to 1, where those of the training are; 0: there is none.
float outside_fractions(const Dataset& data) {
  std::vector<float> values(static_cast<size_t>(data.spec().features.elements()));
  std::vector<std::byte> label(data.spec().label_bytes());
  for (int64_t i = 0; i < data.size(); ++i) {
    data.read(i, {}, std::as_writable_bytes(std::span(values)), label);
    const auto found = std::ranges::find_if(values, [](float value) { return value < 0 || value > 1; });
    if (found != values.end()) return *found;
  }
  return 0;
}

/// What to say of a file that may have another scale than the samples of the training; "" if nothing.
/// `fractions`: bytes of the training were read as v / 255; `file_fractions`: those of the file always are.
std::string scale_warning(const Trained& trained, const std::string& path, bool fractions,
                          bool file_fractions, const DatasetPtr& data) {
  const std::string& source = trained.job.data.source;
  if (!fractions && file_fractions)
    return fmt::format(
        "{}: its bytes are read as v / 255, but those of {}, on which the model was trained, are taken as they are; if the training had numbers from 0 to 255, give an array of bytes (uint8)",
        path, source);
  if (!fractions || file_fractions || data->spec().dtype != DType::f32) return "";
  const float outside = outside_fractions(*without_width(data));
  if (outside == 0) return "";
  return fmt::format(
      "{}: has the number {}, but those of the training ({}) are from 0 to 1; bytes (uint8) are divided by 255, and other numbers are taken as they are",
      path, outside, source);
}

using Keep = std::function<void(const std::pair<std::string, std::vector<std::string>>&)>;

DatasetPtr open_raw(const Trained& trained, const std::string& path,
                    const std::function<void(const std::string&)>& note, const Keep& keep) {
  const SourceType& own = source_type(trained.job.data.source);
  InputFile file{.path = path,
                 .bytes = read_unpacked(path),
                 .features = trained.spec.features,
                 .dtype = trained.spec.dtype,
                 .rules = trained.job.data.rules,
                 .note = note,
                 .keep = keep};
  file.bytes_are_fractions = own.bytes_are_fractions && own.bytes_are_fractions(trained.job.data.options);
  for (const SourceType& type : source_types()) {
    if (!type.inputs.recognises || !type.inputs.recognises(file.bytes)) continue;
    const bool fractions = file.bytes_are_fractions;
    DatasetPtr data =
        type.inputs.open(std::move(file), type.name == own.name ? &trained.job.data.options : nullptr);
    const bool file_fractions = type.name == own.name ? fractions : type.bytes_are_fractions != nullptr;
    const std::string warning = scale_warning(trained, path, fractions, file_fractions, data);
    if (note && !warning.empty()) note(warning);
    return data;
  }
  if (own.inputs.open && !own.inputs.recognises)
    return own.inputs.open(std::move(file), &trained.job.data.options);
  throw unknown_format(path);
}

}  // namespace

DatasetPtr open_inputs(const Trained& trained, const std::string& path,
                       const std::function<void(const std::string&)>& note, const Keep& keep) {
  DatasetPtr data = open_raw(trained, path, note, keep);
  if (data->spec().features != trained.spec.features) {
    throw user_error("{}: the samples are {}; the model takes {}", path, data->spec().features.str(),
                     trained.spec.features.str());
  }
  return normalise(trained.job.data, std::move(data));
}

}  // namespace telar
