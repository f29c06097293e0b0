// What a preview says of the cost and of the error, in words. The service says the same to browsers without scripts.

import { amount, costWords, exact, told } from "./formatting.js";

const MOST_TIMES = 1_000_000;
const UNPAID = "What is left does not pay for this: ask for more noise, or for something else.";
const OTHERS = {
  shared: "Another analyst's answer is stored, and is told; the data set pays nothing more.",
  degraded: "Another analyst's answer is stored, and is told with noise added; the data set pays nothing more.",
};
const PUBLIC = "This number is public: nothing is spent.";

const isNothing = (cost) => ["epsilon", "delta", "rho"].every((name) => exact(cost[name] ?? "0") === 0);

function errorOf({ candidates, expected_error: error }) {
  if (candidates.filter((one) => one.chosen).length > 1) return "one for each number";
  if (error === null) return "depends on the rows";
  return error ? `about ${told(error, 4)}` : "none";
}

function timesOf(made, isPublic, isFree) {
  if (isPublic) return "any number: it is public";
  if (isFree) return "free: it is stored";
  return made.times >= MOST_TIMES ? `${told(MOST_TIMES)} or more` : told(made.times);
}

function storedOf(made, stored, fresh) {
  if (stored) return `An answer of epsilon ${costWords(made.stored_epsilon)} is stored, and is told.`;
  return fresh ? "" : (OTHERS[made.reuse] ?? "");
}

/** The words of a preview. With `fresh`, a new draw is paid for even where an answer is stored. */
export function standing(made, fresh) {
  const isPublic = isNothing(made.cost) && made.stored_epsilon === null;
  const stored = made.stored_epsilon !== null && !fresh;
  const cost = fresh && !isPublic ? made.guarantee : made.cost;
  const unpaid = !(made.rehearsal || isPublic || stored) && made.times === 0;
  const free = stored && isNothing(cost);
  return {
    cost: free ? "free" : amount(cost),
    stored: storedOf(made, stored, fresh),
    more: exact(cost.epsilon ?? "0"),
    error: errorOf(made),
    of: made.error_of,
    times: timesOf(made, isPublic, free),
    note: unpaid ? UNPAID : isPublic ? PUBLIC : "",
    unpaid,
  };
}
