// Calls to the service in the name of whoever is signed in here.

/** A refusal, in the service's own sentence. */
export class Problem extends Error {
  constructor(status, sentence, position = null) {
    super(sentence);
    this.status = status;
    this.position = position;
  }
}

const UNREACHED = "the service cannot be reached; check the connection and try again";

function headers(body) {
  const told = { Accept: "application/json" };
  const token = document.querySelector("meta[name=form-token]");
  if (token) told["X-Discreet-Form"] = token.content;
  if (body !== undefined) told["Content-Type"] = "application/json";
  return told;
}

async function sent(method, path, body, signal) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  try {
    return await fetch(path, { method, headers: headers(body), body: text, signal, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, UNREACHED);
  }
}

/** The JSON that a call is answered with; null where the reply has none. Throws a Problem where it is refused. */
export async function call(method, path, body, signal) {
  const reply = await sent(method, path, body, signal);
  if (reply.status === 401) location.assign("/console/?why=ended");
  const told = reply.status === 204 ? null : await reply.json().catch(() => null);
  if (!reply.ok) throw new Problem(reply.status, told?.detail ?? `the service refused with status ${reply.status}`, told?.position);
  return told;
}

/** Calls `act` once nothing has happened for a while; a later call ends an earlier one that is still under way. */
export function debounced(act, pause = 450) {
  let timer = 0;
  let running = null;
  return () => {
    clearTimeout(timer);
    running?.abort();
    timer = setTimeout(() => {
      running = new AbortController();
      act(running.signal);
    }, pause);
  };
}
