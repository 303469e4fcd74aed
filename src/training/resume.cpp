// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
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

// The tensors behind tensors_of(), in its order.
std::vector<at::Tensor> values_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> values = module.parameters();
  for (const at::Tensor& buffer : module.buffers()) values.push_back(buffer);
  return values;
}

// The devices whose default generators a run draws from, the CPU first.
std::vector<at::Device> devices_of(const torch::nn::Module& module) {
  std::vector<at::Device> devices = {at::kCPU};
  for (const at::Tensor& parameter : module.parameters()) {
    const at::Device device = parameter.device();
    if (device.is_meta() || std::find(devices.begin(), devices.end(), device) != devices.end())
      continue;
    devices.push_back(device);
  }
  return devices;
}

// Numbered, since LibTorch's archive takes only names that are words of TorchScript.
template <class Tensors>
void write_tensors(torch::serialize::OutputArchive& archive, const Tensors& tensors) {
  int64_t number = 0;
  for (const at::Tensor& tensor : tensors) {
    archive.write("t" + std::to_string(number++), tensor.detach(), /*is_buffer=*/true);
  }
}

std::vector<at::Tensor> read_tensors(torch::serialize::InputArchive& archive, std::size_t count) {
  std::vector<at::Tensor> tensors(count);
  for (std::size_t i = 0; i < count; ++i) {
    archive.read("t" + std::to_string(i), tensors[i], /*is_buffer=*/true);
  }
  return tensors;
}

std::string archive_of(const ResumeState& state) {
  torch::serialize::OutputArchive all;
  const auto add = [&all](const char* name, const auto& save) {
    torch::serialize::OutputArchive part(all.compilation_unit());
    save(part);
    all.write(name, part);
  };
  add("module", [&](auto& part) { write_tensors(part, values_of(*state.module)); });
  if (state.optimizer != nullptr) {
    add("optimizer", [&](auto& part) { state.optimizer->save(part); });
  }
  if (state.scaler != nullptr) add("scaler", [&](auto& part) { state.scaler->save(part); });
  std::vector<at::Tensor> generators;
  for (const at::Device device : devices_of(*state.module)) {
    generators.push_back(at::globalContext().defaultGenerator(device).get_state());
  }
  add("generators", [&](auto& part) { write_tensors(part, generators); });
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
  if (!stream) {
    throw UsageError("cannot read the resume file '" + path + "': " + std::strerror(errno),
                     "name a file that was saved before");
  }
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
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
                       {"generators", devices_of(*state.module).size()},
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
  const std::vector<at::Tensor> values = values_of(*state.module);
  std::vector<at::Tensor> saved, generators;
  read("module", [&](auto& part) { saved = read_tensors(part, values.size()); });
  read("generators", [&](auto& part) { generators = read_tensors(part, header.at("generators")); });
  if (state.optimizer != nullptr) {
    read("optimizer", [&](auto& part) { state.optimizer->load(part); });
  }
  if (state.scaler != nullptr) read("scaler", [&](auto& part) { state.scaler->load(part); });
  const c10::AutoGradMode no_grad(false);
  for (std::size_t i = 0; i < values.size(); ++i) values[i].copy_(saved[i]);
  const std::vector<at::Device> devices = devices_of(*state.module);
  for (std::size_t i = 0; i < std::min(devices.size(), generators.size()); ++i) {
    at::Generator generator = at::globalContext().defaultGenerator(devices[i]);
    generator.set_state(generators[i].cpu());
  }
  state.step = header.value("step", int64_t{0});
}

}  // namespace reprise
