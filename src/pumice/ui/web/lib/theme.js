/**
 * Light or dark: as the system says, unless the viewer chose.
 * @module
 */

const KEY = "pumice-theme";

/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export function chosenTheme() {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** @param {Theme} theme */
export function setTheme(theme) {
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  applyTheme();
}

/** Puts the choice where the style sheet looks for it. */
export function applyTheme() {
  const theme = chosenTheme();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("pumice:theme"));
}
