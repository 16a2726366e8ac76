/** The documents that the server sends (src/pumice/ui/CONTRACT.md), as types for the checker. */

/** Resource to an exact integer in its base unit; `Resource.scale` turns it into the number that people read. */
export type Amounts = Record<string, number>;

/** RFC 3339 in UTC. */
export type Instant = string;

export interface Resource {
  name: string;
  unit: string;
  scale: number;
  display: string;
  label: string;
}

export interface Connection {
  connected: boolean;
  behind: string[];
  since: Instant | null;
}

export interface About {
  epoch: string;
  version: number;
  pumice: string;
  cluster: string;
  now: Instant;
  resources: Resource[];
  viewer: {
    name: string | null;
    authentication: "none" | "token" | "cluster";
    canListQueues: boolean;
    canListNodes: boolean;
    namespaces: string[] | null;
  };
  features: { history: boolean; then: boolean; why: boolean; decisionKeys: boolean };
  policy: { source: string; rule: string | null };
  connection: Connection;
}

export interface JobCounts {
  pending: number;
  inqueue: number;
  running: number;
  unknown: number;
  completed: number;
}

export interface TaskCounts {
  running: number;
  waiting: number;
}

export interface ClusterTotals {
  capacity: Amounts;
  used: Amounts;
  nodes: { total: number; ready: number };
  jobs: JobCounts;
  tasks: TaskCounts;
}

export interface QueueRow {
  path: string;
  name: string;
  parent: string | null;
  depth: number;
  leaf: boolean;
  object: boolean;
  placed?: boolean;
  weight: number | null;
  part: number | null;
  state: string;
  reclaimable: boolean;
  used: Amounts;
  entitled: Amounts | null;
  own: Amounts;
  borrowed: Amounts;
  lent: Amounts;
  owed: Amounts;
  waiting: Amounts;
  limit: Amounts;
  guarantee: Amounts;
  deserved: Amounts;
  share: {
    used: number | null;
    entitled: number | null;
    own: number | null;
    limit: number | null;
    dominant: string | null;
  };
  jobs: JobCounts;
  tasks: TaskCounts;
  conditions: { type: string; message: string; since: Instant | null }[];
}

export interface TreeDocument {
  epoch: string;
  version: number;
  time: Instant;
  cluster: ClusterTotals;
  queues: QueueRow[];
  notes: string[];
}

export interface Holder {
  name: string;
  weight?: number;
  used: Amounts;
  entitled?: Amounts;
  waiting: Amounts;
  share: number | null;
  part: number | null;
  jobs: number;
  tasks: TaskCounts;
}

export interface Flow {
  path: string;
  name: string;
  amount: number;
}

export interface QueueDocument {
  queue: QueueRow;
  ancestors: QueueRow[];
  siblings: QueueRow[];
  children: QueueRow[];
  jobs: JobRow[];
  jobsTotal: number;
  users: Holder[];
  namespaces: Holder[];
  flows: Record<string, { lendsTo: Flow[]; borrowsFrom: Flow[] }>;
  userLimits: { minUserLimitPercent?: number | null; userLimitFactor?: number | null } | null;
  created: Instant | null;
  priority: number | null;
}

export type Column = (number | null)[];

export interface HistoryDocument {
  queue: string;
  range: string;
  step: number;
  from: Instant;
  until: Instant;
  times: number[];
  used: Record<string, Column>;
  entitled: Record<string, Column>;
  waiting: Record<string, Column>;
  capacity: Record<string, Column>;
  jobs: Record<string, Column>;
  tasks: Record<string, Column>;
}

export interface JobRow {
  key: string;
  namespace: string;
  name: string;
  group: string;
  kind: string;
  queue: string;
  queuePath: string;
  user: string | null;
  phase: string;
  created: Instant | null;
  started: Instant | null;
  tasks: {
    running: number;
    starting: number;
    waiting: number;
    succeeded: number;
    failed: number;
    minimum: number;
  };
  used: Amounts;
  waiting: Amounts;
  share: number | null;
  priorityClass: string | null;
  reason: { reason: string; message: string; since: Instant | null } | null;
}

export interface JobsDocument {
  total: number;
  matched: number;
  continue: string | null;
  jobs: JobRow[];
  users: string[];
  phases: Record<string, number>;
}

export interface TaskRow {
  name: string;
  role: string;
  state: string;
  node: string | null;
  request: Amounts;
  created: Instant | null;
  started: Instant | null;
  priority: number | null;
  reason: string;
  message: string;
}

export interface JobDocument {
  job: JobRow;
  tasks: TaskRow[];
  tasksTotal: number;
  places: { node: string; tasks: number }[];
  events: { time: Instant; type: string; reason: string; message: string; count: number; object: string }[];
  path: QueueRow[];
}

export interface Side {
  name: string;
  weight: number;
  used: Amounts;
  entitled: Amounts;
  usedShare: number;
  entitledShare: number;
  key: number | null;
  owed: boolean;
}

export interface Competitor {
  kind?: "queue" | "namespace" | "job";
  name: string;
  path: string;
  ours: boolean;
  weight: number | null;
  part: number | null;
  used: Amounts;
  entitled: Amounts | null;
  usedShare: number | null;
  entitledShare: number | null;
  tasksWaiting: number;
}

export interface Rung {
  ours: Side;
  first: Side | null;
  place: number | null;
  rivals: number;
  decidedBy: string;
  competitors: Competitor[];
  competitorsTotal: number;
}

export interface WhyDocument {
  job: string;
  called: string;
  cause: string;
  verdict: string;
  queue: string;
  path: string;
  user: string;
  phase: string;
  now: Instant;
  created: Instant | null;
  runningSince: Instant | null;
  running: number;
  starting: number;
  pending: number;
  minimum: number;
  holds: Amounts;
  unitTasks: number;
  unit: Amounts;
  fittingNow: number;
  noDomain: string;
  owed: boolean | null;
  target: number | null;
  whole: Amounts;
  contest: {
    measure: string;
    lending: boolean;
    supposing: boolean;
    firstJob: string | null;
    rungs: Rung[];
  } | null;
  limits: {
    kind: string;
    queue: string;
    resource: string;
    message: string;
    most: string;
    held: string;
    asks: string;
    lacks: string;
  }[];
  places: {
    asks: Amounts;
    tasks: number;
    nodes: number;
    fitting: number;
    out: {
      reason: string;
      count: number;
      lacks: { resource: string; needs: string; most: string }[];
      nodes: string[];
    }[];
  }[];
  missing: { node: string; amounts: Amounts }[];
  outlook: {
    first: string[];
    startsAt: Instant | null;
    tasks: number;
    waitsForRoom: boolean;
    evictions: { task: string; job: string; node: string }[];
    action: string;
    holdsAt: Instant | null;
    holdsOn: string[];
    holdEnds: Instant | null;
    patienceAt: Instant | null;
    takesAt: Instant | null;
    mayNotTake: string;
    keptFor: string[];
  };
  containers: string[];
  rules: string;
  needs: string[];
  notes: string[];
}

export interface NodeRow {
  name: string;
  state: string;
  schedulable: boolean;
  offered: Amounts;
  used: Amounts;
  share: number | null;
  tasks: number;
  others: number;
}

export interface NodesDocument {
  epoch: string;
  version: number;
  nodes: NodeRow[];
}

export interface NodeDocument {
  node: NodeRow;
  labels: Record<string, string>;
  taints: { key: string; value: string; effect: string }[];
  created: Instant | null;
  pods: {
    namespace: string;
    name: string;
    job: string | null;
    queue: string | null;
    user: string | null;
    state: string;
    request: Amounts;
    started: Instant | null;
    scheduler: string;
  }[];
  podsTotal: number;
  podsHidden: number;
}

export interface Decision {
  id: number;
  time: Instant;
  cycle: number | null;
  kind: "bind" | "evict";
  task: string;
  node: string | null;
  job: string | null;
  queue: string | null;
  queuePath: string | null;
  user: string | null;
  action?: string;
  preemptor?: string | null;
  preemptorQueue?: string | null;
  preemptorQueuePath?: string | null;
  sides?: {
    ancestor: string;
    preemptor: string;
    victim: string;
    measure: string;
    before: [number, number];
    after: [number, number];
  } | null;
}

export interface DecisionsDocument {
  epoch: string;
  version: number;
  source: "log" | "events";
  decisions: Decision[];
}

export interface ThenSpan {
  from: Instant;
  until: Instant;
  marks: { time: Instant; kind: string; count: number }[];
}

export interface ThenDocument extends TreeDocument {
  then: { asked: Instant; time: Instant; cycle: number; before: Instant | null; after: Instant | null };
}
