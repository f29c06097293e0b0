// Numbers as people read them, and small pieces of a page. Text goes in as text, never as markup.

/** The number that an exact text such as 1/10 stands for. */
export function exact(text) {
  const [over, under = "1"] = String(text).split("/");
  return Number(over) / Number(under);
}

/** A number in at most six digits, or as many as are asked for. */
export function told(number, digits = 6) {
  if (number === null || number === undefined) return "";
  if (typeof number !== "number") return String(number);
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return number.toPrecision(4);
  const room = size >= 10 ** (digits - 1) ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return number.toLocaleString("en-GB", room);
}

/** What a guarantee costs, in words. */
export function amount(cost) {
  if (cost.rho) return `rho ${told(exact(cost.rho))}`;
  const delta = cost.delta && exact(cost.delta) ? ` and delta ${told(exact(cost.delta))}` : "";
  return `epsilon ${told(exact(cost.epsilon ?? "0"))}${delta}`;
}

/** An element with attributes and children; a string among the children is text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The same for SVG. */
export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A day as a count of days since 1970-01-01, and back. */
export const dayOf = (text) => Math.round(Date.parse(`${text}T00:00:00Z`) / 864e5);
export const textOf = (day) => new Date(day * 864e5).toISOString().slice(0, 10);
