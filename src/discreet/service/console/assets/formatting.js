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

const AMOUNT_DIGITS = 12;

/** Round an exact amount of at least 0, such as 1/10, to 12 digits: up, or down. */
function rounded(text, up) {
  const [over, under = 1n] = String(text).split("/").map(BigInt);
  if (over === 0n) return "0";
  let power = String(over).length - String(under).length; // of ten, that the first digit has
  if (power >= 0 ? over < under * 10n ** BigInt(power) : over * 10n ** BigInt(-power) < under) power -= 1;
  const places = power >= 15 ? AMOUNT_DIGITS - 1 - power : Math.max(AMOUNT_DIGITS - 1 - power, 0);
  const [scaled, unit] = places >= 0 ? [over * 10n ** BigInt(places), under] : [over, under * 10n ** BigInt(-places)];
  const count = scaled / unit + (up && scaled % unit ? 1n : 0n);
  return count ? decimal(String(count), places) : "0";
}

/** Digits with so many decimals as text: grouped in threes, or with an exponent where it is tiny or huge. */
function decimal(digits, places) {
  const power = digits.length - 1 - places;
  const [at, tail] = power < -4 || power >= 15 ? [1, `e${power}`] : [digits.length - places, ""];
  const filled = at > 0 ? digits.padEnd(at, "0") : digits.padStart(digits.length + 1 - at, "0");
  const cut = Math.max(at, 1);
  const part = filled.slice(cut).replace(/0+$/, "");
  return `${filled.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, ",")}${part && `.${part}`}${tail}`;
}

/** An exact amount that is promised, charged or spent: never below it. */
export const costWords = (text) => rounded(text, true);

/** An exact amount that is left: never above it. */
export const leftWords = (text) => rounded(text, false);

/** What is spent, given what is allowed and what is left, as exact text. */
export function difference(cap, left) {
  const [[a, b = 1n], [c, d = 1n]] = [cap, left].map((text) => String(text).split("/").map(BigInt));
  return `${a * d - c * b}/${b * d}`;
}

/** What a guarantee costs, in words. */
export function amount(cost) {
  if (cost.rho) return `rho ${costWords(cost.rho)}`;
  const delta = cost.delta && exact(cost.delta) ? ` and delta ${costWords(cost.delta)}` : "";
  return `epsilon ${costWords(cost.epsilon ?? "0")}${delta}`;
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
