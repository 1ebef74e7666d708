// What people do on the page. They find everything by its text.

import assert from "node:assert/strict";

import { openPage } from "./browser.mjs";
import { personToken } from "./gate.mjs";

/** @typedef {import("./browser.mjs").Page} Page */
/** @typedef {{ url: string }} Console a gate, by the address of its console */

/**
 * Opens a page and signs in by a link, as the demo prints them.
 * @param {import("./browser.mjs").Browser} browser
 * @param {Console} gate
 * @param {string} subject
 * @param {import("./browser.mjs").PageOptions} [options]
 */
export async function signIn(browser, gate, subject, roles = ["approver"], options = {}) {
  const page = await openPage(browser, `${gate.url}/#token=${personToken(subject, roles)}`, options);
  await page.getByRole("button", { name: `Sign in as ${subject}`, exact: true }).click();
  await page.locator("#places a").first().waitFor();
  return page;
}

/**
 * Goes to a view.
 * @param {Page} page
 * @param {Console} gate
 * @param {string} hash
 */
export async function goTo(page, gate, hash) {
  await page.goto(`${gate.url}/${hash}`);
}

/**
 * Opens a hold from the queue.
 * @param {Page} page
 * @param {{ id: string }} hold
 */
export async function openHold(page, hold) {
  await page.locator(`a[data-id="${hold.id}"]`).click();
  await page.locator("article.hold h2").waitFor();
}

/**
 * Presses the button of a dialog, after the time in which the dialog ignores presses.
 * @param {Page} page
 * @param {string} name
 */
export async function confirm(page, name) {
  const button = page.getByRole("dialog").getByRole("button", { name, exact: true });
  await button.waitFor();
  await page.waitForTimeout(700);
  await button.click();
}

/**
 * @param {Page} page
 * @param {string} amount
 * @param {string} [comment]
 */
export async function approve(page, amount, comment) {
  await page.getByRole("button", { name: "Approve…" }).click();
  if (comment) await page.getByLabel("Comment").fill(comment);
  await confirm(page, `Approve ${amount}`);
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

/**
 * Waits until the view has loaded.
 * @param {Page} page
 */
export async function waitUntilLoaded(page) {
  await page.locator("h1:visible, h2:visible").first().waitFor();
  await page.locator(".waiting").first().waitFor({ state: "detached" });
}

/** @param {Page[]} pages */
export function assertNoProblems(...pages) {
  for (const page of pages) assert.deepEqual(page.problems, []);
}
