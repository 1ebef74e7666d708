// Receipts: proofs that the journal has a payment, or the votes on a hold.

import { asFailure, get } from "./api.js";
import { h, toast } from "./dom.js";
import { download } from "./words.js";

/**
 * @param {string} path
 * @param {string} name
 */
export function receiptButton(path, name) {
  async function save() {
    try {
      const { body } = await get(`${path}/receipt`);
      download(`receipt-${name}.json`, `${JSON.stringify(body)}\n`);
    } catch (failure) {
      toast(asFailure(failure).message, "bad");
    }
  }
  return h("button", { type: "button", onclick: save }, "Receipt");
}
