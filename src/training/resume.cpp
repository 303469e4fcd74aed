// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include <reprise/amp.h>
#include <reprise/error.h>
#include <reprise/report.h>
#include <reprise/resume.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <nlohmann/json.hpp>

// A resume file is: a line of text that says so, the length of a JSON header (8 bytes, little
// endian), the header, LibTorch's own archive of everything else, and a hash of all before it (8
// bytes, XXH3).

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char kMagic[] = "Reprise resume file\n";
constexpr std::size_t kMagicBytes = sizeof kMagic - 1;
constexpr std::size_t kNumberBytes = sizeof(uint64_t);
constexpr int kVersion = 1;

std::string bytes_of(uint64_t number) {
  std::string text;
  for (std::size_t i = 0; i < kNumberBytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

uint64_t number_at(const std::string& text, std::size_t at) {
  uint64_t number = 0;
  for (std::size_t i = kNumberBytes; i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(text[at + i]);
  }
  return number;
}

uint64_t hash_of(const std::string& text, std::size_t size) {
  return XXH3_64bits(text.data(), size);
}

std::string looks_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

// Each parameter and buffer by name, with its shape and type.
Json tensors_of(const torch::nn::Module& module) {
  Json tensors = Json::object();
  for (const auto& item : module.named_parameters()) tensors[item.key()] = looks_of(item.value());
  for (const auto& item : module.named_buffers()) tensors[item.key()] = looks_of(item.value());
  return tensors;
}

using Generators = std::map<std::string, at::Generator>;

Generators generators_of(const torch::nn::Module& module) {
  Generators generators = {{"cpu", at::globalContext().defaultGenerator(at::kCPU)}};
  for (const at::Tensor& parameter : module.parameters()) {
    const at::Device device = parameter.device();
    if (device.is_cpu() || device.is_meta()) continue;
    generators.emplace(device.str(), at::globalContext().defaultGenerator(device));
  }
  return generators;
}

std::string archive_of(const ResumeState& state) {
  torch::serialize::OutputArchive all;
  const auto add = [&all](const char* name, const auto& save) {
    torch::serialize::OutputArchive part(all.compilation_unit());
    save(part);
    all.write(name, part);
  };
  add("module", [&](auto& part) { state.module->save(part); });
  if (state.optimizer != nullptr) {
    add("optimizer", [&](auto& part) { state.optimizer->save(part); });
  }
  if (state.scaler != nullptr) add("scaler", [&](auto& part) { state.scaler->save(part); });
  add("generators", [&](auto& part) {
    for (auto& [device, generator] : generators_of(*state.module)) {
      part.write(device, generator.get_state(), /*is_buffer=*/true);
    }
  });
  std::ostringstream stream;
  all.save_to(stream);
  return stream.str();
}

void require_module(const ResumeState& state) {
  if (state.module != nullptr) return;
  throw UsageError("a resume file needs a module", "set ResumeState::module");
}

[[noreturn]] void reject(const std::string& path, const std::string& what,
                         const std::string& hint) {
  throw Error("resume file '" + path + "': " + what, hint);
}

std::string read_all(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    throw UsageError("cannot read the resume file '" + path + "': " + std::strerror(errno),
                     "name a file that was saved before");
  }
  return text.str();
}

struct Parts {
  Json header;
  std::string archive;
};

Parts parts_of(const std::string& path, const std::string& text) {
  const std::string again = "a run can only go on from a whole file: use another, or start anew";
  const std::size_t head = kMagicBytes + kNumberBytes;
  if (text.compare(0, kMagicBytes, kMagic, std::min(text.size(), kMagicBytes)) != 0 ||
      text.empty()) {
    reject(path, "is no resume file",
           "name a file that was written by --save or save_resume_file()");
  }
  if (text.size() < head + kNumberBytes) reject(path, "is cut off", again);
  const std::size_t end = text.size() - kNumberBytes;
  if (hash_of(text, end) != number_at(text, end)) {
    reject(path, "is cut off or damaged: its checksum does not fit", again);
  }
  const uint64_t size = number_at(text, kMagicBytes);
  if (size > end - head) reject(path, "is damaged", again);
  Parts parts;
  parts.header = Json::parse(text.substr(head, size), nullptr, /*allow_exceptions=*/false);
  const auto version = parts.header.is_object() ? parts.header.value("version", 0) : 0;
  if (version != kVersion) {
    reject(path,
           "is of version " + std::to_string(version) + ", and this program reads version " +
               std::to_string(kVersion),
           "resume with the program that saved it");
  }
  parts.archive = text.substr(head + size, end - head - size);
  return parts;
}

void check_model(const std::string& path, const Json& saved, const Json& present) {
  const std::string hint = "give the options with which the run was started";
  for (const auto& [name, looks] : saved.items()) {
    if (!present.contains(name)) {
      reject(path, "is of another model: it has '" + name + "', which this one lacks", hint);
    }
    if (present[name] != looks) {
      reject(path,
             "is of another model: '" + name + "' is " + looks.get<std::string>() + " there and " +
                 present[name].get<std::string>() + " here",
             hint);
    }
  }
  for (const auto& [name, looks] : present.items()) {
    if (!saved.contains(name)) {
      reject(path, "is of another model: it lacks '" + name + "'", hint);
    }
  }
}

void check_part(const std::string& path, const Json& header, const char* name, bool given) {
  const bool saved = header.value(name, false);
  if (saved == given) return;
  reject(path,
         std::string(saved ? "has the state of a" : "has no state of a") +
             (name == std::string("optimizer") ? "n " : " ") + name +
             (saved ? ", and there is none now" : ""),
         "resume with the same optimizer and precision as before");
}

}  // namespace

void save_resume_file(const std::string& path, const ResumeState& state) {
  require_module(state);
  const Json header = {{"version", kVersion},
                       {"run", state.run},
                       {"step", state.step},
                       {"optimizer", state.optimizer != nullptr},
                       {"scaler", state.scaler != nullptr},
                       {"tensors", tensors_of(*state.module)}};
  const std::string head = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text = kMagic + bytes_of(head.size()) + head + archive_of(state);
  text += bytes_of(hash_of(text, text.size()));
  write_file(path, text);
}

void load_resume_file(const std::string& path, ResumeState& state) {
  require_module(state);
  const Parts parts = parts_of(path, read_all(path));
  const Json& header = parts.header;
  const std::string run = header.value("run", "");
  if (run != state.run) {
    reject(path, "is of another run: '" + run + "', and this is '" + state.run + "'",
           "give the options with which the run was started");
  }
  check_part(path, header, "optimizer", state.optimizer != nullptr);
  check_part(path, header, "scaler", state.scaler != nullptr);
  check_model(path, header.value("tensors", Json::object()), tensors_of(*state.module));

  std::istringstream stream(parts.archive);
  torch::serialize::InputArchive all;
  all.load_from(stream);
  const auto read = [&all](const char* name, const auto& load) {
    torch::serialize::InputArchive part;
    all.read(name, part);
    load(part);
  };
  read("module", [&](auto& part) { state.module->load(part); });
  if (state.optimizer != nullptr) {
    read("optimizer", [&](auto& part) { state.optimizer->load(part); });
  }
  if (state.scaler != nullptr) read("scaler", [&](auto& part) { state.scaler->load(part); });
  read("generators", [&](auto& part) {
    for (auto& [device, generator] : generators_of(*state.module)) {
      at::Tensor saved;
      if (part.try_read(device, saved, /*is_buffer=*/true)) generator.set_state(saved.cpu());
    }
  });
  state.step = header.value("step", int64_t{0});
}

}  // namespace reprise
