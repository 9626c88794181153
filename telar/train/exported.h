#pragma once

#include <filesystem>

#include "telar/train/trained.h"

namespace telar {

/// Writes a trained model for other programs; the end of the name chooses the form. The file appears complete
/// or not at all.
///
/// .onnx: the input "x" [N, sample …] is what the training read before normalisation, which is in the file;
///   the output is what predict() gives: "probabilities" or "values". The metadata
///   have lists in JSON: "telar.classes", and of a table "telar.columns", "telar.encoding" (how each column
///   becomes numbers) and "telar.features", the names of those numbers.
/// .safetensors: the parameters by their names, f32, in PyTorch's layouts.
///
/// Throws Error (user) for another name, for a place within a checkpoint, and as write_onnx() does
/// (telar/io/onnx/onnx_file.h).
void export_model(const Trained& trained, const std::filesystem::path& path);

}  // namespace telar
