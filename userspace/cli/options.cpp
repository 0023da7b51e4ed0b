// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"
#include "loader/features.h"

namespace gcause {

CLI::Option* add_duration(CLI::App& app, const std::string& names, std::optional<Ns>& value,
                          const std::string& help) {
  return app
      .add_option_function<std::string>(
          names,
          [&value](const std::string& text) {
            auto parsed = parse_duration(text);
            if (!parsed) throw BadValue(parsed.error());
            value = *parsed;
          },
          help)
      ->type_name("TIME");
}

void OutputChoice::add_to(CLI::App& app) {
  app.add_option("-f,--format", format,
                 "text, jsonl, or gcause (a recording); without it the ending of -o decides")
      ->check(CLI::IsMember({"text", "jsonl", "gcause"}));
  app.add_option("-o,--output", paths,
                 "file to write, by its ending .jsonl, .gcause or text; - is standard output [-]; "
                 "may be given several times")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* add_without(CLI::App& app, std::vector<std::string>& without) {
  std::vector<std::string> names;
  for (const auto& feature : known_features()) names.push_back(feature.name);
  return app.add_option("--without", without, "treat this kernel feature as absent (repeatable)")
      ->type_name("FEATURE")
      ->check(CLI::IsMember(names))
      ->group("Testing");
}

std::vector<OutputSpec> OutputChoice::chosen() const {
  if (paths.size() > 1 && !format.empty()) {
    throw BadValue({"-f does not go with several -o", "leave -f out: each file's ending decides"});
  }
  std::vector<OutputSpec> specs;
  for (const auto& path : paths.empty() ? std::vector<std::string>{"-"} : paths) {
    const bool jsonl = format == "jsonl" || (format.empty() && path.ends_with(".jsonl"));
    const bool recording = format == "gcause" || (format.empty() && path.ends_with(".gcause"));
    specs.push_back({jsonl ? Format::jsonl : recording ? Format::recording : Format::text, path});
  }
  return specs;
}

}  // namespace gcause
