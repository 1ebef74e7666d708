// What people do at the page, as they would: by what they read on it.

import assert from "node:assert/strict";

import { visit } from "./browser.mjs";
import { person } from "./gate.mjs";

/** Somebody who has signed in by a link, as the demo prints them. */
export async function signedIn(browser, gate, subject, roles = ["approver"], options = {}) {
  const page = await visit(browser, `${gate.url}/${options.at ?? ""}#token=${person(subject, roles, options.claims)}`, options);
  await page.locator("#places a").first().waitFor();
  return page;
}

/** Goes to a place of the page. */
export async function go(page, gate, hash) {
  await page.goto(`${gate.url}/${hash}`);
}

/** Looks at a hold that stands in the queue. */
export async function open(page, hold) {
  await page.locator(`a[data-id="${hold.id}"]`).click();
  await page.locator("article.hold h2").waitFor();
}

/** Waits until the second button may be pressed: what follows the first at once is not meant. */
export async function press(page, name) {
  const button = page.getByRole("dialog").getByRole("button", { name, exact: true });
  await button.waitFor();
  await page.waitForTimeout(700);
  await button.click();
}

export async function approve(page, amount, comment) {
  await page.getByRole("button", { name: "Approve…" }).click();
  if (comment) await page.getByLabel("Comment").fill(comment);
  await press(page, `Approve ${amount}`);
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

/** Nothing was complained of on any of these pages. */
export function calm(...pages) {
  for (const page of pages) assert.deepEqual(page.complaints, []);
}
