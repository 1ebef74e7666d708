// Types of the page's scripts: the console API's data, and the objects that the views share.

/** A person or a caller: the issuer of their tokens, and their name there. */
interface Subject {
  issuer?: string;
  subject: string;
}

interface Session {
  person: Subject & { issuer: string };
  roles: string[];
  /** Those that the gate serves and the person sees. */
  environments: string[];
  expiresAt: string;
  /** Whether the page signs in again at the provider when it ends. */
  renews: boolean;
}

type HoldState =
  | "pending"
  | "approved"
  | "released"
  | "rejected"
  | "expired"
  | "cancelled"
  | "blocked"
  | "forgotten";

/** A part of a hold's description, such as `from` and `100 usdt on POLYGON`. */
interface Word {
  name: string;
  text: string;
}

interface Vote extends Subject {
  at: string;
  text?: string;
  /** The members of the group in whose place the person voted. */
  for?: string[];
}

interface Approval {
  name: string;
  given: number;
  needed: number;
  missing: { group: string; count: number }[];
}

/** The request that a hold sends once it is released. */
interface SentRequest {
  method: string;
  target: string;
  body: string;
}

/** A window that a held call exceeds: how far, and which calendar window it is. */
interface OverWindow {
  upTo: number;
  words: string;
  period: string | null;
}

interface Hold {
  id: string;
  environment: string;
  operation: string;
  state: HoldState;
  requestId?: string;
  requester?: string;
  owner: Subject;
  fingerprint: string;
  createdAt: string;
  expiresAt: string;
  endedAt?: string;
  words: Word[];
  reasons: { rule?: string; text: string }[];
  causes: string;
  approvals: Approval[];
  votes: Vote[];
  noteCount: number;
  /** Of a single hold alone. */
  notes?: Vote[];
  stuck?: string;
  tries: number;
  mayJudge?: boolean;
  mayReject?: boolean;
  /** Whether it waits for this person's signature. */
  mustSign?: boolean;
  sent?: SentRequest;
  /** JSON: the reasons, with the figures that a signature names. */
  figures?: string;
  paidBefore?: { destination: string; at?: string }[];
  limits?: HoldLimit[];
  /** Whether a destination was never paid before. */
  newDestination?: boolean;
  /** Whether a limit on equal payments holds it. */
  equalPayment?: boolean;
  /** Whether another limit holds it. */
  overLimit?: boolean;
  earlier?: EarlierPayments | null;
  destination?: { name: string | null; lists: string[]; lookAlike: { name: string; lists: string[] } | null };
}

/** `[signing]` of the policies, and the person's own passkeys. */
interface Signing {
  installation: string;
  rpId: string;
  origins: string[];
  synced: "allow" | "refuse";
  acts: SignableAct[];
  passkeys: { credential: string; name: string }[];
}

type SignableAct = "activation" | "unfreezing" | "executed" | "absent" | "abandoned";

/** The digests of the bytes and of the reasons of a hold that this browser computed of what it showed. */
interface Seen {
  fingerprint: string;
  causes: string;
}

/** What a passkey signed, in base64url. */
interface PasskeySignature {
  credential: string;
  authenticatorData: string;
  clientData: string;
  signature: string;
}

/** The signature of a vote or an act. */
interface VoteSignature extends PasskeySignature {
  nonce: string;
  together?: string[];
}

type PaymentStatus =
  | "paid"
  | "sending"
  | "waiting"
  | "unknown"
  | "refused"
  | "cancelled"
  | "expired"
  | "not-sent"
  | "absent"
  | "given-up"
  | "failed"
  | "returned";

/** An end of a payment. */
interface PaymentParty {
  kind: string;
  name: string | null;
  keyed: string;
  lists: string[];
}

interface Payment {
  environment: string;
  name: string;
  operation: string;
  status: PaymentStatus;
  event: string;
  answered: number | null;
  state: string | null;
  repeated: boolean;
  first: boolean;
  at: string;
  changedAt: string;
  amount: string | null;
  currency: string | null;
  chain: string | null;
  otherCurrency: string | null;
  value: number | null;
  from: PaymentParty | null;
  to: PaymentParty | null;
  owner: Subject;
  requester: string | null;
  rules: string[];
  hold: string | null;
  approvedBy: Subject[];
  number: number;
}

/** A payment that upstream lists and no gate sent. */
interface ForeignPayment {
  environment: string;
  operation: string;
  record: string;
  requestId: string | null;
  problem: string;
  text: string;
  state: string;
  createdAt: string;
  foundAt: string;
  source: { amount: string | null; currency: string | null };
}

/** One of upstream's lists of payments, and whether a gate reads it. */
interface FollowedList {
  environment: string;
  operation: string;
  read: boolean;
  latest: string | null;
}

/** The sum of the payments with one status and one currency. */
interface PaymentSum {
  environment: string;
  status: PaymentStatus;
  currency: string | null;
  count: number;
  amount: string | null;
  /** In micro-USD. */
  value: string;
  unvalued: number;
}

/** Which payments an answer counts. */
interface PaymentExtent {
  since: string | null;
  complete: boolean;
  reading: boolean;
  of: string;
  auditFolder: string;
}

interface PaymentPage extends PaymentExtent {
  payments: Payment[];
  next: string | null;
  count: number;
  sums: PaymentSum[];
}

/** Sums of a statement by name. */
type StatementSums = Record<string, { count: number; amount: string | null }>;

/** Sums of some payments; those of a total have no operation, caller and destination. */
interface StatementLine {
  environment: string;
  operation?: string;
  owner?: { issuer: string; subject: string } | null;
  to?: PaymentParty | null;
  currency: string | null;
  chain: string | null;
  sums: StatementSums;
}

interface PaymentStatement extends PaymentExtent {
  /** When the day begins. */
  begin: string;
  /** Whether the day is over. */
  over: boolean;
  lines: StatementLine[];
  totals: StatementLine[];
}

/** The money of one day (UTC). */
interface PaymentDay {
  day: string;
  sums: {
    environment: string;
    status: PaymentStatus;
    operation: string;
    count: number;
    value: string;
    unvalued: number;
  }[];
}

/** The state of a limit. */
interface Limit {
  limit: string;
  key: Record<string, string>;
  unit: string;
  used: number;
  max: number;
  left: number;
  over: string;
  mode?: string;
  inFlight?: number;
  environment?: string;
}

interface HoldLimit extends Limit {
  adds: number;
  leftAfter: number;
}

interface Usage extends Limit {
  inFlight: number;
  pending: number;
}

interface UsagePage {
  /** The fullest first. */
  usage: Usage[];
  /** The limits in which nothing counts now. */
  unused: Pick<Limit, "limit" | "unit" | "max" | "over" | "mode">[];
  /** Whether other windows are in use. */
  more: boolean;
  unreadWindows: boolean;
  unreadCalls: boolean;
  rates: RateCount[];
}

/** The usage of limits, read once for all sections that show it. */
interface UsageSource {
  clear(): void;
  get(): Promise<UsagePage>;
}

interface LimitBar extends Omit<Limit, "left" | "over"> {
  /** The units that a call would add, or that holds wait to add. */
  adds?: number;
  words: string;
  isShort?: boolean;
}

type Scope =
  | "all"
  | "restored"
  | "clock"
  | { gateClock: string; operation?: undefined; caller?: undefined; reads?: undefined }
  | { gateClock?: undefined; operation: string; caller?: undefined; reads?: undefined }
  | { gateClock?: undefined; operation?: undefined; caller: Subject; reads?: undefined }
  | { gateClock?: undefined; operation?: undefined; caller?: undefined; reads: Subject };

interface Freeze {
  environment: string;
  scope: Scope;
  reason?: string;
  by?: string;
  at: string;
  saidUnfrozen?: string;
  lastPaid?: string | null;
}

/** Why this gate moves no money. */
interface Stop {
  reason: string;
  environment: string | null;
  text: string;
  since: string;
  frozen: boolean;
}

interface StandIn {
  environment: string;
  for: string;
  person: string;
  from: string;
  until: string;
  reason: string;
}

/** A call whose outcome is unknown. */
interface UnknownRequest {
  environment: string;
  name: string;
  requestId?: string;
  operation: string;
  owner: Subject;
  /** What moves; absent where its bytes are gone. */
  words?: Word[];
  destination?: Hold["destination"];
  doubt: string;
  since?: string;
  looks?: number;
  /** The read by which the gate looks for its record. */
  lookup?: string | null;
  /** The operator who says that it was not executed. */
  saidAbsent?: string;
  /** The operator who says that nobody will ever know. */
  saidAbandoned?: string;
  saidExecuted?: string;
}

interface Operation {
  operation: string;
  summary: string;
  class: string;
  /** The parameters of its path. */
  path: string[];
  fields: FormField[];
}

/** A field of an operation's body. */
interface FormField {
  pointer: string;
  kind: string;
  /** The values that it can have; empty: any. */
  choices: string[];
}

/** A set that somebody tries; with errors, only these are known. */
type TriedPolicies =
  | { version: null; findings: TrialFinding[] }
  | {
      version: string;
      inForce: string;
      findings: TrialFinding[];
      loosens: boolean;
      words: string;
      table: PassTable;
      history: DecisionHistory;
    };

interface TrialFinding {
  error: boolean;
  text: string;
}

/** The counts of a rate since the gate runs. */
interface RateCount {
  rate: string;
  allowed: number;
  near: number;
  limited: number;
}

interface Rule {
  id: string;
  words: string;
  effect?: Effect;
  mode?: string;
}

type Effect = "allow" | "hold" | "deny";

interface Candidate {
  version: string;
  since: string;
  agreed: string[];
  missing: number;
  mustSign: boolean;
  words: string;
  rates: string[];
  decisions: { from: Effect; to: Effect; calls: number }[];
  history: DecisionHistory | null;
}

interface DecisionHistory {
  until: string | null;
  windows: HistoryWindow[];
  notes: string[];
}

interface HistoryWindow {
  days: number;
  whole: boolean;
  decisions: number;
  changes: (HistorySum & { before: Effect; then: Effect })[];
  cannotSay: (HistorySum & { why: string })[];
}

interface HistorySum {
  environment: string;
  count: number;
  microUsd: number;
  unvalued: number;
  largest: { microUsd: number; request: string; caller: string } | null;
}

interface PassTable {
  version: string;
  people: number[];
  operations: PassOperation[];
}

interface PassOperation {
  operation: string;
  rows: PassRow[];
  limits: Rule[];
}

interface PassRow {
  environment: string | null;
  caller: string;
  destination: string;
  most: { words: string }[];
}

interface Policies {
  version: string;
  loosening: string;
  rules?: Rule[];
  limits?: Rule[];
  approvals?: Rule[];
  candidate: Candidate | null;
  operations: Operation[];
  issuers: string[];
}

interface Reason {
  cause: string;
  text: string;
}

interface Explanation {
  effect: Effect;
  microUsd: number | null;
  approvals: string[];
  reasons: Reason[];
  outweighed: Reason[];
  shadows: Reason[];
  counts: { limit: string; unit: string; units: number; used: number | null; max: number }[];
  near: { rule: string; missing: string }[];
}

/** The decisions of one span of time. */
interface Bucket {
  at: string;
  allowed: number;
  held: number;
  denied: number;
}

/** A line of the audit log. */
interface AuditLine {
  environment: string;
  number: number;
  at: string;
  node: string;
  what: string;
  words: string;
  name?: string;
  entry: Record<string, any>;
  /** The money that its call moves. */
  payment?: EntryMoney;
}

/** The money that the call of an entry moves; without a status where it is older than the list of payments. */
interface EntryMoney {
  status: PaymentStatus | null;
  event: string | null;
  amount: string | null;
  currency: string | null;
  to: PaymentParty | null;
}

/** Earlier payments to the destination of an open hold, in its currency; null where they could not be read. */
interface EarlierPayments {
  /** The latest of the same amount. */
  same: { name: string; status: PaymentStatus; at: string }[];
  paid: { count: number; amount: string | null };
  since: string | null;
  reading: boolean;
  /** An address that was paid, and for which one could take the destination; null members are not shown to this person. */
  lookAlike: { name: string | null; payment: string | null; at: string | null } | null;
}

/** A child of an element: false, null and undefined are left out, lists are flattened. */
type Child = Node | string | number | false | null | undefined | Child[];

/** Attributes of an element; those that begin with `on` are listeners. */
type Props = Record<string, any> | null;

/** A view that the page shows. */
interface View {
  title: string;
  element: HTMLElement;
  refresh?(): unknown;
  close?(): void;
}

interface HoldView extends View {
  focus(): void;
}

interface QueueView extends View {
  choose(id: string | null): void;
  focus(id: string): void;
}

/** A section of the overview that loads itself. */
interface Card {
  element: HTMLElement;
  refresh(): Promise<void>;
}

/** The state of the page that views share. */
interface App {
  me: Session | null;
  frozen: Freeze[];
  /** Whether more is frozen than is listed. */
  isMoreFrozen: boolean;
  stops: Stop[];
  isWarned: boolean;
  may(role: string): boolean;
  /** Loads again everything that the page shows. */
  refresh(): void;
  /** Tells which holds wait for this person, and whether there are more. */
  waiting(holds: Hold[], isMore: boolean): void;
  isStillMe(): Promise<boolean>;
  /** Returns the session of the person who is signed in. */
  session(): Session;
}

/** One end of a movement of money. */
interface Party {
  amount: string | null;
  currency: string | null;
  chain: string | null;
  /** Kind and name of each account, wallet or user. */
  names: [string, string][];
}

interface Movement {
  headline: string;
  amounts: string[];
  /** The currency of the headline, in lower case. */
  currency: string | null;
  hasAmount: boolean;
  direction: string;
  destination: { what: string; name: string } | null;
}

/** The result of comparing a hold's description with its bytes. */
interface ByteCheck {
  kind: "good" | "insecure" | "wrong";
  text: string;
}

interface ReasonField {
  element: HTMLElement;
  input: HTMLInputElement;
  text(): string;
  /** Returns what is missing, or null. */
  check(): string | null;
}
