// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

namespace gcause {

CLI::Option* add_duration(CLI::App& app, const std::string& names, std::optional<Ns>& value,
                          const std::string& help) {
  return app
      .add_option_function<std::string>(
          names,
          [&value](const std::string& text) {
            auto parsed = parse_duration(text);
            if (!parsed) throw CLI::ValidationError(parsed.error().what, parsed.error().cure);
            value = *parsed;
          },
          help)
      ->type_name("TIME");
}

void OutputChoice::add_to(CLI::App& app) {
  app.add_option("-f,--format", format,
                 "text, jsonl, or gcause (a recording); without it the ending of -o decides")
      ->check(CLI::IsMember({"text", "jsonl", "gcause"}));
  app.add_option("-o,--output", output, "file to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
}

Format OutputChoice::chosen() const {
  const auto ends = [&](std::string_view ending) { return output.ends_with(ending); };
  if (format == "jsonl" || (format.empty() && ends(".jsonl"))) return Format::jsonl;
  if (format == "gcause" || (format.empty() && ends(".gcause"))) return Format::recording;
  return Format::text;
}

}  // namespace gcause
