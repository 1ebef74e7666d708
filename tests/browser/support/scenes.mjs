// A gate after a busy day.

import { personToken, RULES, swapBody } from "./gate.mjs";

const SERVICES = ["payroll", "treasury-rebalancing-service", "marketplace-payouts", "erp"];

/** Rules whose limits leave room for a busy day. */
export const HIGH_LIMITS = RULES.replace('"100000 USD"', '"8000000000 USD"');

/**
 * Makes so many holds, some with long names and large amounts, and some calls of every other kind. Returns the hold with
 * the longest content.
 * @param {import("./gate.mjs").Gate} gate
 * @param {number} holds
 */
export async function fillGate(gate, holds) {
  const longName =
    "a-department-with-a-remarkably-long-name.and-a-subsidiary-that-nobody-remembers@holding.example.com";
  for (let n = 1; n <= 6; n += 1) await gate.swap(`paid-${n}`, `${n}00.5`);
  await gate.swap("much", "9000000000");
  let next = 0;
  const makeHolds = async () => {
    while (next < holds) {
      const n = next++;
      const amount =
        n % 7 === 0 ? `${1_000_001 + n}.123456` : `${1_001 + ((n * 37) % 9_000)}.${String(n % 100).padStart(2, "0")}`;
      const subject = SERVICES[n % SERVICES.length];
      await gate.call("/v2/wallets/swaps", swapBody(`batch-${n}`, amount), { subject });
    }
  };
  await Promise.all(Array.from({ length: 16 }, makeHolds));
  const longBody = swapBody(
    "the-longest-name-of-a-request-that-anybody-would-write-and-then-some-more-0001",
    "4123456789.654321",
    {
      destination: {
        chain: "POLYGON",
        currency: "usdc",
        amount: "4123456000.000001",
        walletAddress: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
      },
    },
  );
  const { body } = await gate.call("/v2/wallets/swaps", longBody, { subject: longName });
  const approver = personToken("ops-2");
  const { body: hold } = await gate.callConsole("GET", `holds/${body.hold.id}`, approver);
  const comment =
    "I called the treasurer of the subsidiary on the number that we have on file, and she confirms amount, wallet and day of this payment.";
  await gate.callConsole("POST", `holds/${hold.id}/approve`, approver, {
    fingerprint: hold.fingerprint,
    causes: hold.causes,
    comment,
  });
  await gate.callConsole("POST", `holds/${hold.id}/comment`, approver, {
    text: "Finance: please look at the fee as well.",
  });
  await gate.addFault({ operation: "createSwap", kind: "html500", effect: false, times: 2 });
  for (const n of [1, 2]) await gate.swap(`doubtful-${n}`, "70");
  await gate.callConsole("POST", "freezes", personToken("ops-9", ["operator"]), {
    environment: "sandbox",
    scope: "all",
    reason: "a drill of the night shift",
  });
  return body.hold;
}
