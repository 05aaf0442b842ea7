// Asks the scheduler. Whatever goes wrong becomes a sentence that says what to do.

const PATIENCE = 60_000;

// A name as a part of a path. A browser would take some names for steps to other paths.
export function inPath(name) {
  const parts = name.split("/");
  if (parts.some((part) => ["", ".", ".."].includes(part))) throw new Error(`"${name}" is not a name of an object.`);
  return parts.map(encodeURIComponent).join("/");
}

// The answer to a request as values. `signal` ends the request, and with it the work of the scheduler.
export async function ask(path, { signal, ...request } = {}) {
  const limit = AbortSignal.timeout(PATIENCE);
  let answer, text;
  try {
    answer = await fetch(path, { headers: { Accept: "application/json" }, ...request, signal: signal ? AbortSignal.any([limit, signal]) : limit });
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error(limit.aborted ? `The scheduler has not answered for ${PATIENCE / 1000} s. Try again when it has less to do.` : "The scheduler cannot be reached. See that it runs and that its port is still forwarded, then try again.");
  }
  if (!answer.ok) throw new Error(refusal(answer, text));
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("This is not an answer of the scheduler. Reload the page: a proxy may want you to sign in again.");
  }
}

// Why nothing is answered: in the scheduler's own words, while those of a proxy are a page of its own.
export function reason({ status, statusText, headers }, text) {
  if (status === 401) return "You are not signed in (401). Reload the page.";
  return (headers.get("Content-Type")?.startsWith("text/plain") && text.trim()) || `${status} ${statusText}`;
}

// Seconds after which the scheduler wants to be asked again, or NaN.
export const pause = ({ headers }) => Number.parseInt(headers.get("Retry-After"), 10);

function refusal(answer, text) {
  const said = reason(answer, text), seconds = pause(answer);
  return seconds ? `${said}. Try again in ${seconds} s.` : [429, 503].includes(answer.status) ? `${said}. Try again in a moment.` : said;
}
