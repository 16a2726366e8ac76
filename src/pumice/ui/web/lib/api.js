/**
 * Requests to the server: JSON documents, errors in the server's own words, and the sign-in that a 401 asks for.
 * @module
 */

/** An answer that is no document. `reason` is one word of the contract, `message` a sentence. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} reason
   * @param {string} message
   */
  constructor(status, reason, message) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

/** @type {() => void} */
let onUnauthorized = () => {};

/** @param {() => void} listener called whenever the server wants a token */
export function whenUnauthorized(listener) {
  onUnauthorized = listener;
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function getDocument(path, signal) {
  let response;
  try {
    response = await fetch(path, { signal, credentials: "same-origin", headers: { Accept: "application/json" } });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "Unreachable", "The server does not answer.");
  }
  if (response.ok) return response.json();
  if (response.status === 401) onUnauthorized();
  throw await errorOf(response);
}

/**
 * @param {string} token
 * @returns {Promise<void>}
 */
export async function signIn(token) {
  const response = await fetch("/api/login", {
    method: "POST",
    credentials: "same-origin",
    headers: { "Content-Type": "application/json", "X-Requested-With": "pumice" },
    body: JSON.stringify({ token }),
  });
  if (!response.ok) throw await errorOf(response);
}

/**
 * @param {Response} response
 * @returns {Promise<ApiError>}
 */
async function errorOf(response) {
  const document = await response.json().catch(() => null);
  const error = document?.error ?? {};
  return new ApiError(
    response.status,
    error.reason ?? "Unknown",
    error.message ?? `The server answered ${response.status}.`,
  );
}
