// The home card: a line of health a corpus. React and Chakra come from Airflow's page.
const { createElement: h, useEffect, useState } = globalThis.React;
const { Badge, Box, Flex, Heading, Link, Text } = globalThis.ChakraUI;
const SHOWN = 8;

globalThis.InsetHealth = () => {
  const [found, setFound] = useState({ lines: [], problem: "" });
  useEffect(() => {
    fetch(new URL("inset/health.json", document.baseURI))
      .then((reply) => (reply.ok ? reply.json() : Promise.reject(new Error(`HTTP ${reply.status}`))))
      .then((lines) => setFound({ lines, problem: "" }))
      .catch((error) => setFound({ lines: [], problem: `The health of the corpora can't be read: ${error.message}` }));
  }, []);
  if (!found.lines.length && !found.problem) return null;
  const shown = found.lines.slice(0, SHOWN);
  return h(Box, null,
    h(Heading, { size: "xs", color: "fg.muted", mb: 2 }, "Inset"),
    found.problem && h(Text, { color: "fg.error" }, found.problem),
    ...shown.map((line) => h(Flex, { key: line.corpus, gap: 3, align: "center", py: 1 },
      h(Badge, { colorPalette: line.tone, minW: "20", justifyContent: "center" }, line.state),
      h(Link, { href: `dags/${encodeURIComponent(line.dag_id)}/plugin/inset_corpus`, color: "fg.info", whiteSpace: "nowrap" }, line.corpus),
      h(Text, { truncate: true, color: "fg.muted", fontSize: "sm", title: line.line }, line.line))),
    h(Link, { href: "plugin/inset", color: "fg.info", fontSize: "sm" },
      found.lines.length > SHOWN ? `All ${found.lines.length} corpora` : "Overview"));
};
