// The silent sign-in at the provider when a session ends, and the return to the view that was open.

const STARTED_AT = "sluice-renewal-at";
const PLACE = "sluice-renewal-place";
/** After a renewal the next one comes at the earliest after this time, so that a refusal does not repeat for ever. */
const PAUSE_MS = 20_000;

/** Leaves for the provider, which asks nothing; returns false if that was tried a moment ago. */
export function renew() {
  const last = Number(sessionStorage.getItem(STARTED_AT) ?? 0);
  if (Date.now() - last < PAUSE_MS) return false;
  sessionStorage.setItem(STARTED_AT, String(Date.now()));
  sessionStorage.setItem(PLACE, location.hash);
  location.assign("/sluice/v1/session/start?silent=true");
  return true;
}

/** Puts the view that was open before a renewal into the address, once. */
export function returnToPlace() {
  const place = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  if (place?.startsWith("#/")) history.replaceState(null, "", `${location.pathname}${place}`);
}
