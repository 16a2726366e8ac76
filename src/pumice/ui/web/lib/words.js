/**
 * The words of the pages, each explained in a sentence or two. `parts/word.js` shows them where they stand.
 * @module
 */

/** @type {Record<string, {title: string, text: string}>} */
export const WORDS = {
  queue: {
    title: "Queue",
    text: "A team or project that jobs are submitted to. Queues form a tree below root, which is the whole cluster.",
  },
  weight: {
    title: "Weight",
    text: "How large a queue's part is beside its siblings: 2 beside 1 is two thirds of what their parent has. A queue that asks for nothing does not count.",
  },
  used: { title: "Used", text: "What the running pods of a queue, and of all queues below it, have requested." },
  entitled: {
    title: "Entitled",
    text: "What the scheduler would give a queue or job right now, by the weights, limits and requests of everybody. It is never more than is asked for, and it changes when jobs come and go.",
  },
  own: {
    title: "Own part",
    text: "A queue's part of the cluster if every queue asked for everything. What it leaves unused, others may borrow.",
  },
  borrowed: {
    title: "Borrowed",
    text: "Used beyond the queue's own part, because other queues do not need it now. It may be taken back when they do.",
  },
  lent: {
    title: "Lent",
    text: "Own part of this queue that other queues use at the moment. The queue gets it back when its jobs ask for it.",
  },
  owed: {
    title: "Owed",
    text: "Entitled to, but not used yet: whatever comes free goes to queues that are owed first.",
  },
  limit: { title: "Limit", text: "The most a queue may hold, even if the rest of the cluster is idle (capability)." },
  guarantee: { title: "Guarantee", text: "Capacity that is kept free for this queue, even if it does not use it." },
  deserved: { title: "Deserved", text: "The queue's own part, written as amounts instead of a weight." },
  share: {
    title: "Share of the cluster",
    text: "The part of the cluster by the resource that is used most: 5 of 10 cores and 1 of 10 GPUs are a share of 50%.",
  },
  waiting: { title: "Waiting", text: "Pods that have no node yet, and what they request." },
  phase: {
    title: "Phase",
    text: "Pending: not let in by its queue yet. Inqueue: let in, waits for a place. Running: at least its minimum runs. Unknown: less than its minimum runs. Completed: has ended.",
  },
  gang: { title: "Together", text: "A job may need several pods at once. They start together or not at all." },
  entitledJob: {
    title: "Entitled",
    text: "How many tasks of this job the scheduler would run now if everything were shared out exactly.",
  },
  want: {
    title: "Missing part",
    text: "The part of its entitlement that a queue is missing. The queue that misses the largest part is next in line.",
  },
  evict: {
    title: "Eviction",
    text: "A running pod is stopped so that a job that is owed the capacity can start. Only pods that run on borrowed capacity are chosen.",
  },
  bind: { title: "Placed", text: "A pod was given a node." },
  preemptor: { title: "For", text: "The job that could not start otherwise, and was owed the capacity." },
  ancestor: {
    title: "Compared below",
    text: "The lowest queue above both jobs. Its children on both sides are compared: one missed a part of its own, the other had more than its own.",
  },
  reclaim: { title: "Reclaim", text: "Take back from another queue what it borrowed." },
  hold: {
    title: "Reservation",
    text: "After a job has been owed something for long, capacity that comes free on some nodes is kept for it.",
  },
  cycle: { title: "Cycle", text: "One pass of the scheduler over everything that waits; some take place each second." },
};
