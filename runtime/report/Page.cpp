//===- Page.cpp - What the tools' HTML pages have in common ---------------===//

#include "dtrt/report/Page.h"

namespace dtrt {

static const char *const kStyle = R"PAGE(:root {
  --ink: #1d2430; --soft: #667085; --line: #e4e7ec; --paper: #ffffff;
  --ground: #f6f7f9; --a: #2563eb; --b: #0d9488; --c: #f59e0b; --d: #cbd5e1;
  --e: #dc2626;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ef; --soft: #98a2b3; --line: #2b3442; --paper: #161c26;
    --ground: #0e131b; --a: #60a5fa; --b: #2dd4bf; --c: #fbbf24; --d: #475569;
    --e: #f87171;
  }
}
* { box-sizing: border-box }
body {
  margin: 0; padding: 32px 24px; background: var(--ground); color: var(--ink);
  font: 14px/1.5 system-ui, sans-serif;
}
main { max-width: 1120px; margin: 0 auto; display: grid; gap: 20px }
h1 { font-size: 22px; margin: 0 }
h2 { font-size: 15px; margin: 0 0 2px }
p { margin: 0 0 12px; color: var(--soft) }
section {
  background: var(--paper); border: 1px solid var(--line);
  border-radius: 10px; padding: 18px 20px; overflow-x: auto;
}
svg { display: block; width: 100%; height: auto }
svg text { fill: var(--soft); font-size: 11px }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px;
  margin: 0 5px 0 12px }
)PAGE";

std::string pageStart(const std::string &title, const std::string &style) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n"
         "<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<title>" +
         title + "</title>\n<style>\n" + kStyle + style +
         "</style>\n</head>\n<body>\n<main>\n";
}

} // namespace dtrt
