#include "telar/core/error.h"
#include "telar/core/suggest.h"
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

DatasetPtr open_raw(const Trained& trained, const std::string& path,
                    const std::function<void(const std::string&)>& note) {
  const SourceType& own = source_type(trained.job.data.source);
  InputFile file{.path = path,
                 .bytes = read_unpacked(path),
                 .features = trained.spec.features,
                 .dtype = trained.spec.dtype,
                 .rules = trained.job.data.rules,
                 .note = note};
  file.bytes_are_fractions = own.bytes_are_fractions && own.bytes_are_fractions(trained.job.data.options);
  for (const SourceType& type : source_types()) {
    if (!type.inputs.recognises || !type.inputs.recognises(file.bytes)) continue;
    return type.inputs.open(std::move(file), type.name == own.name ? &trained.job.data.options : nullptr);
  }
  if (own.inputs.open && !own.inputs.recognises)
    return own.inputs.open(std::move(file), &trained.job.data.options);
  throw unknown_format(path);
}

}  // namespace

DatasetPtr open_inputs(const Trained& trained, const std::string& path,
                       const std::function<void(const std::string&)>& note) {
  DatasetPtr data = open_raw(trained, path, note);
  if (data->spec().features != trained.spec.features) {
    throw user_error("{}: the samples are {}; the model takes {}", path, data->spec().features.str(),
                     trained.spec.features.str());
  }
  return normalise(trained.job.data, std::move(data));
}

}  // namespace telar
