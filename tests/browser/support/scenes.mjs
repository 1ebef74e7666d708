// What a gate looks like after a long day.

import { RULES, person, swap } from "./gate.mjs";

const SERVICES = ["payroll", "treasury-rebalancing-service", "marketplace-payouts", "erp"];

/** Rules that leave room for all of it. */
export const BUSY = RULES.replace('"100000 USD"', '"8000000000 USD"');

/** So many holds, long names and large amounts among them, and a little of everything else; gives the longest hold. */
export async function enough(gate, holds) {
  const names = "a-department-with-a-remarkably-long-name.and-a-subsidiary-that-nobody-remembers@holding.example.com";
  for (let n = 1; n <= 6; n += 1) await gate.swap(`paid-${n}`, `${n}00.5`);
  await gate.swap("much", "9000000000");
  let next = 0;
  const some = async () => {
    while (next < holds) {
      const n = next++;
      const amount = n % 7 === 0 ? `${1_000_001 + n}.123456` : `${1_001 + (n * 37) % 9_000}.${String(n % 100).padStart(2, "0")}`;
      await gate.call("/v2/wallets/swaps", swap(`batch-${n}`, amount), { subject: SERVICES[n % SERVICES.length] });
    }
  };
  await Promise.all(Array.from({ length: 16 }, some));
  const whole = swap("the-longest-name-of-a-request-that-anybody-would-write-and-then-some-more-0001", "4123456789.654321", {
    destination: { chain: "POLYGON", currency: "usdc", amount: "4123456000.000001", walletAddress: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" },
  });
  const { body } = await gate.call("/v2/wallets/swaps", whole, { subject: names });
  for (const who of ["ops-2"]) {
    const { body: hold } = await gate.act("GET", `holds/${body.hold.id}`, person(who));
    const comment = "I called the treasurer of the subsidiary on the number that we have on file, and she confirms amount, wallet and day of this payment.";
    await gate.act("POST", `holds/${body.hold.id}/approve`, person(who), { fingerprint: hold.fingerprint, comment });
    await gate.act("POST", `holds/${body.hold.id}/comment`, person(who), { text: "Finance: please look at the fee as well." });
  }
  await gate.fault({ operation: "createSwap", kind: "html500", effect: false, times: 2 });
  for (const n of [1, 2]) await gate.swap(`doubtful-${n}`, "70");
  await gate.act("POST", "freezes", person("ops-9", ["operator"]), { environment: "sandbox", scope: "all", reason: "a drill of the night shift" });
  return body.hold;
}
