// From what is chosen in the form to the SQL of a question. The service reads only the SQL.

const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/;
const RESERVED = new Set(
  ("select distinct from join left inner outer on using where group having order by limit and or not in is between " +
    "null true false as asc desc date for").split(" "),
);

/** A column's kind, as far as the form cares. */
export const isNumber = (column) => column.kind === "integer" || column.kind === "number";
export const isLine = (column) => isNumber(column) || column.kind === "date";
const isListed = (column) => Array.isArray(column.categories);

/** What can be asked for. `of` says of which columns, `number` what else it takes. */
export const AGGREGATES = [
  { name: "COUNT", words: "How many rows" },
  { name: "AVG", words: "Average of", of: (column) => isNumber(column) || column.kind === "boolean" },
  { name: "SUM", words: "Sum of", of: isNumber },
  { name: "MEDIAN", words: "Median of", of: isLine },
  { name: "QUANTILE", words: "Quantile of", of: isLine, number: { label: "Order, 0 to 1", value: "0.25" } },
  { name: "MIN", words: "Smallest", of: isLine },
  { name: "MAX", words: "Largest", of: isLine },
  { name: "VAR", words: "Variance of", of: isNumber },
  { name: "STDDEV", words: "Standard deviation of", of: isNumber },
  { name: "TRIMMED_MEAN", words: "Trimmed mean of", of: isNumber, number: { label: "Share cut at each end", value: "0.1" } },
  { name: "MODE", words: "Most frequent value of", of: isListed },
  { name: "HISTOGRAM", words: "Histogram of", of: isLine, number: { label: "Number of bins", value: "16" }, alone: true },
];

/** How a column can be held against values: the operator in SQL, its words, how many values it takes. */
const MISSING = [["IS NULL", "is missing", 0], ["IS NOT NULL", "is not missing", 0]];
const ORDER = [["BETWEEN", "is between", 2], ["=", "is", 1], ["<", "is below", 1], ["<=", "is at most", 1], [">", "is above", 1], [">=", "is at least", 1]];
const NAMES = [["=", "is", 1], ["<>", "is not", 1], ["IN", "is one of", Infinity], ["NOT IN", "is none of", Infinity]];

/** The operators for a column's kind. */
export function operators(column) {
  if (column.kind === "boolean") return [["=", "is", 1], ...MISSING];
  if (isLine(column)) return [...ORDER, ...MISSING];
  if (column.kind === "ordinal") return [...NAMES, ["<=", "is at most", 1], [">=", "is at least", 1], ...MISSING];
  return [...NAMES, ...MISSING];
}

/** A name as SQL has it, quoted where it needs to be; one of a lookup with its table. */
export function identifier(name) {
  const quoted = (part) => (PLAIN.test(part) && !RESERVED.has(part.toLowerCase()) ? part : `"${part.replaceAll('"', '""')}"`);
  return name.split(".").map(quoted).join(".");
}

function literal(value, column) {
  if (isNumber(column)) return String(value).trim();
  if (column.kind === "boolean") return String(value).toUpperCase();
  return `'${String(value).replaceAll("'", "''")}'`;
}

function condition({ column, operator, values }, schema) {
  const name = identifier(column);
  const told = values.map((value) => literal(value, schema.columns[column]));
  if (operator.endsWith("NULL")) return `${name} ${operator}`;
  if (operator === "BETWEEN") return `${name} BETWEEN ${told[0]} AND ${told[1]}`;
  if (operator.endsWith("IN")) return `${name} ${operator} (${told.join(", ")})`;
  return `${name} ${operator} ${told[0]}`;
}

/** A filter counts once its values are all there. */
function complete({ operator, values }) {
  if (operator.endsWith("NULL")) return true;
  const filled = values.filter((value) => String(value).trim() !== "");
  return filled.length === values.length && filled.length >= (operator === "BETWEEN" ? 2 : 1);
}

function aggregateText({ aggregate, column, number }) {
  if (aggregate.name === "COUNT") return "COUNT(*)";
  const more = aggregate.number ? `, ${String(number).trim() || aggregate.number.value}` : "";
  return `${aggregate.name}(${identifier(column)}${more})`;
}

function keyText({ group, width }) {
  if (!group) return "";
  return String(width).trim() ? `BIN(${identifier(group)}, ${String(width).trim()})` : identifier(group);
}

/** The SQL of what was chosen: {aggregate, column, number, filters, group, width}. */
export function sqlOf(chosen, schema) {
  const filters = chosen.filters.filter(complete);
  const key = chosen.aggregate.alone ? "" : keyText(chosen);
  const used = [chosen.column, chosen.group, ...filters.map((one) => one.column)].filter(Boolean);
  const joins = Object.entries(schema.lookups).filter(([table]) => used.some((name) => name.startsWith(`${table}.`)));
  const parts = [`SELECT ${key ? `${key}, ` : ""}${aggregateText(chosen)} FROM ${identifier(schema.name)}`];
  parts.push(...joins.map(([table, on]) => `JOIN ${identifier(table)} USING (${identifier(on)})`));
  if (filters.length) parts.push(`WHERE ${filters.map((one) => condition(one, schema)).join(" AND ")}`);
  if (key) parts.push(`GROUP BY ${key}`);
  return parts.join(" ");
}

const ONE_NUMBER = /\bSELECT\b[^]*?\b(COUNT|AVG|SUM|MEDIAN|QUANTILE|MIN|MAX|SECOND_MAX|VAR|STDDEV|TRIMMED_MEAN|MODE)\s*\(\s*(?:DISTINCT\s+)?(\*|"[^"]+"|[\w.]+)/i;
const ONE_PERSON = /\bSELECT\s+("[^"]+"|[\w.]+)\s+FROM\b[^]*\bFOR\s+UNIT\b/i;

/** Which number of which column a question asks for, as far as the page can tell: for where a prior is drawn. */
export function aimOf(sql, schema) {
  const person = ONE_PERSON.exec(sql);
  const found = person ? [null, "VALUE", person[1]] : ONE_NUMBER.exec(sql);
  if (!found) return null;
  const name = found[2].replaceAll('"', "");
  return { aggregate: found[1].toUpperCase(), column: schema.columns[name] ?? null };
}
